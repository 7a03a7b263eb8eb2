import { describe, expect, it } from 'vitest'
import type { VerificationBatch } from '../../../services/verify/batch.ts'
import { answerOffline, outcomeAt, type BatchCheck } from '../../../services/verify/check-batch.ts'
import type { Checker, CheckResult } from '../../../services/verify/checker.ts'
import type { ProviderVerdict } from '../../../services/verify/provider.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import {
  cachedRecord, createManualClock, JOB, batchOf, QUOTED_AT_MS, tokenFor,
} from '../../support/stage-doubles.ts'

const phone = (last: number) => `+1212736${5_000 + last}`
const nameOf = (last: number) => tokenFor(phone(last)).toString('hex')
const verdict = { status: 'valid', reason: 'assigned_range', confidence: 90, fields: {} } as const

type Options = { answer?: CheckResult, isOffline?: boolean, batch?: VerificationBatch }

function setUp (rows: number, { answer, isOffline = true, batch }: Options = {}) {
  const cache = createCacheDouble()
  const clock = createManualClock()
  const { value, rows: read } = batchOf(Array.from({ length: rows }, (_, row) => phone(row)))
  const verdicts = new Map(Array.from({ length: rows }, (_, row) => [row, verdict]))
  const checker: Checker = Object.assign(
    async () => answer ?? { kind: 'answered', verdicts } as const, { isOffline: () => isOffline })
  const check: BatchCheck = {
    batch: batch ?? { value, rows: read() },
    deps: { cache, check: checker, clock, sleep: clock.sleep, leaseMs: 30_000, leasePollMs: 250 },
    signal: new AbortController().signal,
    outcomes: new Array(rows).fill(undefined),
  }
  return { cache, check }
}

describe('offline checks', () => {
  it('answer all rows and cache each verdict with its job', async () => {
    const { cache, check } = setUp(2)
    expect(await answerOffline(check, [0, 1])).toEqual([])
    const record = { ...verdict, checkedAtMs: QUOTED_AT_MS, job: JOB }
    expect(check.outcomes).toEqual([0, 1].map((row) =>
      outcomeAt(check.batch, row, { record, source: 'live' })))
    expect(cache.entries.get(nameOf(1))).toEqual(record)
    expect(cache.holders.size).toBe(0)
  })

  it('use fresh records of another job free of charge', async () => {
    const { cache, check } = setUp(3)
    cache.entries.set(nameOf(0), cachedRecord({ checkedAtMs: QUOTED_AT_MS + 5 }))
    cache.entries.set(nameOf(1), cachedRecord({ checkedAtMs: QUOTED_AT_MS - 86_400_000 }))
    cache.entries.set(nameOf(2), cachedRecord({ job: JOB, confidence: 7 }))
    expect(await answerOffline(check, [0, 1, 2])).toEqual([])
    expect(check.outcomes.map((it) => it?.source)).toEqual(['cache', 'live', 'live'])
    expect(check.outcomes[2]?.confidence).toBe(7)
    expect(cache.entries.get(nameOf(1))?.job).toBe(JOB)
  })

  it('leave rows open that another job has a lease on', async () => {
    const { cache, check } = setUp(2)
    cache.holders.set(nameOf(0), 'job_other')
    expect(await answerOffline(check, [0, 1])).toEqual([0])
    expect(cache.entries.has(nameOf(0))).toBe(false)
  })

  it('end unknown rows, leave rows without an answer open, and all after a failure', async () => {
    const unknown = { ...verdict, status: 'unknown' } as const
    const verdicts = new Map<number, ProviderVerdict>([[0, unknown], [2, verdict]])
    const some = setUp(3, { answer: { kind: 'answered', verdicts } })
    expect(await answerOffline(some.check, [0, 1, 2])).toEqual([1])
    expect(some.check.outcomes.map((it) => it?.status)).toEqual(['unknown', undefined, 'valid'])
    const none = setUp(2, { answer: { kind: 'down' } })
    expect(await answerOffline(none.check, [0, 1])).toEqual([0, 1])
    expect([some.cache.entries.size, none.cache.entries.size]).toEqual([1, 0])
  })

  it('do not run for networked providers or during a rotation of tokens', async () => {
    const networked = setUp(1, { isOffline: false })
    expect(await answerOffline(networked.check, [0])).toEqual([0])
    const { batch } = setUp(1).check
    const rotatedTokens = { versions: ['1'], tokens: Buffer.alloc(16) }
    const rotating = setUp(1, { batch: { ...batch, rows: { ...batch.rows, rotatedTokens } } })
    expect(await answerOffline(rotating.check, [0])).toEqual([0])
    expect([networked.cache.entries.size, rotating.cache.entries.size]).toEqual([0, 0])
  })
})
