import { describe, expect, it } from 'vitest'
import { packChecks } from '../../../services/cache/evidence.ts'
import {
  createReader, createWriter, expiresAtMs, isFresh, leaseOf,
} from '../../../services/cache/entries.ts'
import { cachedRecord } from '../../support/stage-messages.ts'

describe('entries of the cache', () => {
  it('hold records; a shared one is one text and one object', () => {
    const write = createWriter()
    const read = createReader()
    const record = cachedRecord({ fields: { carrier: 'Acmé "1"' } })
    expect(read(write(record))).toEqual(record)
    expect(read(write(record))).toBe(read(write({ ...record })))
    expect(read(write(cachedRecord({ confidence: 7 })))).toEqual(cachedRecord({ confidence: 7 }))
  })

  it('hold the evidence of a verdict, in a few bytes', () => {
    const evidence = packChecks({ numbering_plan: 'passed', carrier_range: 'caution' })
    const [plain, text] = [cachedRecord(), cachedRecord({ evidence })].map(createWriter())
    expect(createReader()(text ?? '')).toEqual(cachedRecord({ evidence }))
    expect((text?.length ?? 0) - (plain?.length ?? 0)).toBeLessThan(8)
  })

  it('of an earlier release, or with evidence that is no number, are records without it', () => {
    const plain = createWriter()(cachedRecord())
    const [, before = ''] = /^(.*)\]$/.exec(plain) ?? []
    for (const text of [plain, `${before},"x"]`, `${before},-1]`, `${before},null]`]) {
      expect(createReader()(text)).toEqual(cachedRecord())
    }
  })

  it('distinguish verdicts that share their fields', () => {
    const { fields } = cachedRecord()
    const records = [
      cachedRecord({ fields }), cachedRecord({ fields, confidence: 7 }),
      cachedRecord({ fields, status: 'invalid' }), cachedRecord({ fields, reason: 'no_dns' }),
      cachedRecord({ fields, job: 'job_"2"' }), cachedRecord({ fields, checkedAtMs: 5 }),
      cachedRecord({ fields, evidence: 1 }),
      cachedRecord({ fields }),
    ]
    expect(records.map(createWriter()).map(createReader())).toEqual(records)
  })

  it.each([
    null, '', '{', '[]', '["valid"]', 'null', '7', leaseOf('job_1'),
    createWriter()(cachedRecord({ status: 'unknown' })),
    createWriter()(cachedRecord({ reason: 'of_another_release' as never })),
  ])('with %s are misses', (text) => {
    const read = createReader()
    expect([read(text), read(text)]).toEqual([undefined, undefined])
  })
})

const DAY_MS = 86_400_000

describe('the freshness of a record', () => {
  it('is capped at 90 days, whatever the policy', () => {
    expect(expiresAtMs(1_000, 7 * DAY_MS)).toBe(1_000 + 7 * DAY_MS)
    expect(expiresAtMs(1_000, 365 * DAY_MS)).toBe(1_000 + 90 * DAY_MS)
  })

  it.each([
    [{ checkedAtMs: 0 }, { quotedAtMs: DAY_MS - 1, freshnessMs: DAY_MS }, true],
    [{ checkedAtMs: 0 }, { quotedAtMs: DAY_MS, freshnessMs: DAY_MS }, false],
    [{ checkedAtMs: 0 }, { quotedAtMs: 0, freshnessMs: 0 }, false],
    // Made after the quote.
    [{ checkedAtMs: 5 }, { quotedAtMs: 4, freshnessMs: 0 }, true],
  ])('ends exactly at its expiry, at the time of the quote: %o, %o', (record, rule, expected) => {
    expect(isFresh(record, rule)).toBe(expected)
  })
})
