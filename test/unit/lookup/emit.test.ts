import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Chunk, countRows, emissionsOf, type JobTerms, usableHit,
} from '../../../services/lookup/emit.ts'
import { Dedupe } from '../../../services/lookup/dedupe.ts'
import type { Emission } from '../../../services/runtime/engine/stage.ts'
import { coordinatesOf } from '../../../services/jobs/results/block.ts'
import { cellsIn } from '../../support/clickhouse/cells.ts'
import {
  both, cachedRecord, chunksOf, JOB, normalizedRows, QUOTED_AT_MS, rowsOf, tokenFor,
} from '../../support/stage-doubles.ts'

const terms: JobTerms = {
  job: JOB,
  lane: 'small',
  forceFresh: false,
  quotedAtMs: QUOTED_AT_MS,
  freshnessMs: 86_400_000,
  batchRows: 2,
}

const phone = (last: number) => `+1212736${5_000 + last}`

/** One chunk that is a whole job; `cached` are the contacts the cache can answer. */
function chunkOf (canonicals: readonly string[], cached: readonly string[] = []): Chunk {
  const duplicates = new Dedupe(canonicals.length)
  duplicates.add(Buffer.concat(canonicals.map(tokenFor)), (row) => canonicals[row] === '')
  const [message] = chunksOf(canonicals)
  return {
    coordinates: coordinatesOf(message!.value),
    rows: normalizedRows(canonicals),
    tokenVersion: '3',
    hits: canonicals.map((canonical) => cached.includes(canonical) ? cachedRecord() : undefined),
    duplicates,
  }
}

const blockIn = (emissions: readonly Emission[]) =>
  emissions.filter((it): it is Emission<'rows.completed'> => it.topic === 'rows.completed')
const partsIn = (emissions: readonly Emission[]) =>
  emissions.filter((it): it is Emission<'rows.to-verify'> => it.topic === 'rows.to-verify')

describe('a cache hit', () => {
  it('is fresh at the time of the quote', () => {
    const record = cachedRecord()
    expect(usableHit(record, terms)).toBe(record)
    expect(usableHit(undefined, terms)).toBe(undefined)
    expect(usableHit(record, { ...terms, freshnessMs: 3_600_000 })).toBe(undefined)
  })

  it('is ignored by a job with forceFresh', () => {
    expect(usableHit(cachedRecord(), { ...terms, forceFresh: true })).toBe(undefined)
  })

  it('is never a record that this job paid for', () => {
    expect(usableHit(cachedRecord({ job: JOB }), terms)).toBe(undefined)
  })
})

describe('a chunk of an accepted job', () => {
  const canonicals = [phone(0), '', phone(1), phone(0), phone(2), phone(3), phone(2), phone(4)]
  const chunk = chunkOf(canonicals, [phone(2), phone(4)])

  it('keeps the spelling of a duplicate e-mail address', () => {
    const mails = chunkOf(['jane@x.org', 'jane@x.org'])
    const rows = { ...mails.rows, canonicals: ['jane@x.org', 'JANE@x.org'] }
    const place = { ...mails.coordinates, service: 'email-validation' as const }
    const [block] = blockIn(emissionsOf({ ...mails, coordinates: place, rows }, terms))
    expect(block?.rows.columns.find(({ name }) => name === 'email')?.values).toContain('JANE@x.org')
  })

  it('counts each row as one kind', () => {
    expect(countRows(chunk))
      .toEqual({ invalidRows: 1, duplicateRows: 2, cacheHits: 2, freshChecks: 3 })
  })

  it('has one block with all inputs and the completed rows', () => {
    const [block, ...others] = blockIn(emissionsOf(chunk, terms))
    expect(others).toEqual([])
    expect(block?.value.batch).toBe(-1)
    expect(block?.rows.inputs).toEqual(chunk.rows.inputs)
    expect(rowsOf(block!.value.finished)).toEqual([1, 3, 4, 6, 7])
    expect(rowsOf(block!.value.cached)).toEqual([4, 7])
    expect(rowsOf(block!.value.invalid)).toEqual([1])
    expect(block?.value.duplicates).toEqual([{ row: 4, count: 1 }])
    expect(block?.rows.duplicateOf).toEqual([0, 1, 0, 5, 0])
    const checked = cellsIn(block!.rows, 'checked_at')
    expect(checked?.[0]).toBe('2026-08-11T00:00:00.000Z')
    expect(checked?.[2]).toBe('2026-08-10T23:00:00.000Z')
  })

  it('has verification batches with the other rows and their duplicates', () => {
    const parts = partsIn(emissionsOf(chunk, terms))
    expect(parts.map(({ value }) => value.batch)).toEqual([0, 1])
    expect(parts.map(({ rows }) => rows.rows)).toEqual([[0, 2], [5]])
    expect(parts.map(({ rows }) => rows.duplicates)).toEqual([[1, 0], [0]])
    expect(parts[0]?.rows.canonicals).toEqual([phone(0), phone(1)])
    expect(parts[1]?.rows.tokens).toEqual(tokenFor(phone(3)))
    expect(parts[0]).toMatchObject({
      lane: 'small',
      service: 'phone-validation',
      value: {
        quotedAt: QUOTED_AT_MS,
        freshnessMs: 86_400_000,
        tokenVersion: '3',
        attempt: 0,
        notBefore: 0,
        retryDeadline: 0,
      },
    })
  })

  it('has every row in exactly one block or batch, with matching bitmaps', () => {
    const contacts = fc.array(fc.integer({ min: -1, max: 12 }), { minLength: 1, maxLength: 60 })
    fc.assert(fc.property(contacts, fc.array(fc.integer({ min: 0, max: 12 })),
      fc.integer({ min: 1, max: 70 }), (numbers, hits, batchRows) => {
        const given = chunkOf(numbers.map((it) => it < 0 ? '' : phone(it)), hits.map(phone))
        const emissions = emissionsOf(given, { ...terms, batchRows })
        const [block] = blockIn(emissions)
        const missed = partsIn(emissions).map(({ rows }) => rows.rows)
        const { finished, cached, invalid } = block!.value
        expect([...rowsOf(finished), ...missed.flat()].sort((a, b) => a - b))
          .toEqual(numbers.map((_, row) => row))
        expect(missed.every((rows) => rows.length <= batchRows)).toBe(true)
        expect(rowsOf(both(cached, invalid))).toEqual([])
        expect(both(cached, finished)).toEqual(cached)
        expect(both(invalid, finished)).toEqual(invalid)
        for (const name of ['live', 'unknown', 'cancelled'] as const) {
          expect(rowsOf(block!.value[name])).toEqual([])
        }
      }))
  })
})
