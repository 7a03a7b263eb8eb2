import { describe, expect, it } from 'vitest'
import { expiresAtMs, isFresh, MAX_FRESHNESS_MS } from '../../../services/cache/entries.ts'

const DAY_MS = 86_400_000

describe('the freshness of a record', () => {
  it('is capped at 90 days, whatever the policy', () => {
    expect(MAX_FRESHNESS_MS).toBe(90 * DAY_MS)
    expect(expiresAtMs(1_000, 7 * DAY_MS)).toBe(1_000 + 7 * DAY_MS)
    expect(expiresAtMs(1_000, 365 * DAY_MS)).toBe(1_000 + 90 * DAY_MS)
  })

  it('ends exactly at its expiry, at the time of the quote', () => {
    const record = { checkedAtMs: 0 }
    expect(isFresh(record, { quotedAtMs: DAY_MS - 1, freshnessMs: DAY_MS })).toBe(true)
    expect(isFresh(record, { quotedAtMs: DAY_MS, freshnessMs: DAY_MS })).toBe(false)
    expect(isFresh(record, { quotedAtMs: 0, freshnessMs: 0 })).toBe(false)
  })

  it('holds for a record made after the quote', () => {
    expect(isFresh({ checkedAtMs: 5 }, { quotedAtMs: 4, freshnessMs: 0 })).toBe(true)
  })
})
