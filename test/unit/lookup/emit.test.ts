import { describe, expect, it } from 'vitest'
import { jobEmissions } from '../../../services/lookup/emit.ts'
import type { Chunk, JobTerms } from '../../../services/lookup/row-kinds.ts'
import { coordinatesOf } from '../../../services/jobs/results/block.ts'
import { cellsIn } from '../../support/clickhouse/cells.ts'
import {
  cachedRecord, chunksOf, emitted, JOB, normalizedRows, QUOTED_AT_MS, rowsOf, tokenFor,
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
  const first = (canonical: string) => canonicals.indexOf(canonical)
  const isCopy = (row: number) => canonicals[row] !== '' && first(canonicals[row] ?? '') < row
  return {
    coordinates: coordinatesOf(chunksOf(canonicals)[0]!.value),
    rows: normalizedRows(canonicals),
    tokenVersion: '3',
    hits: canonicals.map(canonical => cached.includes(canonical) ? cachedRecord() : undefined),
    listed: [],
    duplicates: {
      originals: Int32Array.from(
        canonicals, (canonical, row) => isCopy(row) ? first(canonical) : -1),
      copies: Uint32Array.from(canonicals, (canonical, row) => canonical === '' || isCopy(row)
        ? 0
        : canonicals.filter(other => other === canonical).length - 1),
    },
  }
}

async function emissionsOf (chunk: Chunk, reservedRows = 100) {
  const emits = await jobEmissions([chunk], { terms, entry: undefined, reservedRows })
  const [block, ...others] = emitted([{ emits }], 'rows.completed')
  if (block === undefined || others.length > 0) throw new Error('a chunk has one block')
  return { block, batches: emitted([{ emits }], 'rows.to-verify') }
}

describe('a chunk of an accepted job', () => {
  const canonicals = [phone(0), '', phone(1), phone(0), phone(2), phone(3), phone(2), phone(4)]
  const chunk = chunkOf(canonicals, [phone(2), phone(4)])

  it('has one block with all inputs and the completed rows', async () => {
    const { block: { value, rows } } = await emissionsOf(chunk)
    expect(value.batch).toBe(-1)
    expect(rows.inputs).toEqual(chunk.rows.inputs)
    expect([value.finished, value.cached, value.invalid].map(rowsOf))
      .toEqual([[1, 3, 4, 6, 7], [4, 7], [1]])
    expect(value.duplicates).toEqual([{ row: 4, count: 1 }])
    expect(rows.duplicateOf).toEqual([0, 1, 0, 5, 0])
    const checkedAt = cellsIn(rows, 'checked_at')
    expect([checkedAt?.[0], checkedAt?.[2]])
      .toEqual(['2026-08-11T00:00:00.000Z', '2026-08-10T23:00:00.000Z'])
    expect(cellsIn(rows, 'confidence')?.slice(0, 3)).toEqual(['100', '', '90'])
  })

  it('has verification batches with the other rows and their duplicates', async () => {
    const { batches } = await emissionsOf(chunk)
    expect(batches.map(({ value, rows }) => [value.batch, rows.rows, rows.duplicates]))
      .toEqual([[0, [0, 2], [1, 0]], [1, [5], [0]]])
    expect(batches[0]?.rows.canonicals).toEqual([phone(0), phone(1)])
    expect(batches[1]?.rows.tokens).toEqual(tokenFor(phone(3)))
    expect(batches[0]).toMatchObject({
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

  it('verifies no more rows than are reserved for, and ends the others free', async () => {
    const { block, batches } = await emissionsOf(chunk, 2)
    expect(batches.flatMap(({ rows }) => rows.rows)).toEqual([0, 2])
    expect(rowsOf(block.value.finished)).toEqual([1, 3, 4, 5, 6, 7])
    expect(cellsIn(block.rows, 'confidence')?.[3]).toBe('0')
  })

  it('keeps the spelling of a duplicate e-mail address', async () => {
    const mails = chunkOf(['jane@x.org', 'jane@x.org'])
    const { block } = await emissionsOf({
      ...mails,
      coordinates: { ...mails.coordinates, service: 'email-validation' },
      rows: { ...mails.rows, canonicals: ['jane@x.org', 'JANE@x.org'] },
    })
    expect(cellsIn(block.rows, 'email')).toEqual(['JANE@x.org'])
  })
})
