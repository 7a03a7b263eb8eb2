import { describe, expect, it } from 'vitest'
import { parseRetryAfter } from '../../../schemas/http/retry-after.ts'

describe('a Retry-After header', () => {
  const nowMs = Date.parse('2026-08-11T10:00:00.000Z')
  it.each([
    ['120', 120_000], [' 0 ', 0],
    ['Tue, 11 Aug 2026 10:00:30 GMT', 30_000],
    ['Tuesday, 11-Aug-26 10:00:30 GMT', 30_000],
    ['Tue Aug 11 10:00:30 2026', 30_000],
    ['Sat Aug  1 10:00:30 2026', 0], ['Mon Sep  7 10:00:00 2026', 27 * 86_400_000],
    ['Tue, 11 Aug 2026 09:00:00 GMT', 0], ['Sunday, 06-Nov-94 08:49:37 GMT', 0],
    ['soon', undefined], ['-1', undefined], ['1.5', undefined], ['1e3', undefined],
    ['9999999999', undefined], ['Tue, nonsense', undefined], ['2026-08-11', undefined],
    ['Tue, 11 Aug 2026 10:00:30', undefined], ['Tue, 99 Aug 2026 10:00:30 GMT', undefined],
    ['', undefined], [undefined, undefined], [null, undefined],
  ])('with the value %s means %s ms', (header, expected) => {
    expect(parseRetryAfter(header, nowMs)).toBe(expected)
  })

  it('takes a year of two digits as at most 50 years ahead', () => {
    const aheadMs = parseRetryAfter('Tuesday, 11-Aug-76 10:00:00 GMT', nowMs)
    expect(aheadMs).toBe(Date.parse('2076-08-11T10:00:00Z') - nowMs)
    expect(parseRetryAfter('Wednesday, 11-Aug-77 10:00:00 GMT', nowMs)).toBe(0)
  })
})
