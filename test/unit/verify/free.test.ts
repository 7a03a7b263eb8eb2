import { describe, expect, it } from 'vitest'
import { answerFree } from '../../../services/verify/free.ts'
import type { ProviderVerdict } from '../../../services/verify/provider.ts'
import type { Checked, Checker } from '../../../services/verify/providers.ts'
import { outcomeAt, type Part, type Work } from '../../../services/verify/work.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import {
  cachedRecord, createManualClock, JOB, partOf, QUOTED_AT_MS, tokenFor,
} from '../../support/stage-doubles.ts'

const phone = (last: number) => `+1212736${5_000 + last}`
const nameOf = (last: number) => tokenFor(phone(last)).toString('hex')
const verdict = { status: 'valid', reason: 'assigned_range', confidence: 90, fields: {} } as const

type Options = { answer?: Checked, isFree?: boolean, part?: Part }

function setUp (rows: number, { answer, isFree = true, part }: Options = {}) {
  const cache = createCacheDouble()
  const clock = createManualClock()
  const { value, rows: read } = partOf(Array.from({ length: rows }, (_, row) => phone(row)))
  const verdicts = new Map(Array.from({ length: rows }, (_, row) => [row, verdict]))
  const check: Checker = Object.assign(
    async () => answer ?? { kind: 'answered', verdicts } as const, { asksNobody: () => isFree })
  const work: Work = {
    part: part ?? { value, rows: read() },
    parts: { cache, check, clock, sleep: clock.sleep, leaseMs: 30_000, leasePollMs: 250 },
    signal: new AbortController().signal,
    outcomes: new Array(rows).fill(undefined),
  }
  return { cache, work }
}

describe('checks that cost nothing', () => {
  it('answer all rows, and the cache keeps each with the job that paid', async () => {
    const { cache, work } = setUp(2)
    expect(await answerFree(work, [0, 1])).toEqual([])
    const record = { ...verdict, checkedAtMs: QUOTED_AT_MS, job: JOB }
    expect(work.outcomes).toEqual([0, 1].map((row) =>
      outcomeAt(work, row, { record, source: 'live' })))
    expect(cache.entries.get(nameOf(1))).toEqual(record)
    expect(cache.holders.size).toBe(0)
  })

  it('cost the customer nothing where another job paid since', async () => {
    const { cache, work } = setUp(3)
    cache.entries.set(nameOf(0), cachedRecord({ checkedAtMs: QUOTED_AT_MS + 5 }))
    cache.entries.set(nameOf(1), cachedRecord({ checkedAtMs: QUOTED_AT_MS - 86_400_000 }))
    cache.entries.set(nameOf(2), cachedRecord({ job: JOB, confidence: 7 }))
    expect(await answerFree(work, [0, 1, 2])).toEqual([])
    expect(work.outcomes.map((it) => it?.source)).toEqual(['cache', 'live', 'live'])
    expect(work.outcomes[2]?.confidence).toBe(7)
    expect(cache.entries.get(nameOf(1))?.job).toBe(JOB)
  })

  it('leave to the others what is under check for another job', async () => {
    const { cache, work } = setUp(2)
    cache.holders.set(nameOf(0), 'job_other')
    expect(await answerFree(work, [0, 1])).toEqual([0])
    expect(cache.entries.has(nameOf(0))).toBe(false)
  })

  it('leave open what they have no verdict for, and all when they fail', async () => {
    const unknown = { ...verdict, status: 'unknown' } as const
    const verdicts = new Map<number, ProviderVerdict>([[0, unknown], [2, verdict]])
    const some = setUp(3, { answer: { kind: 'answered', verdicts } })
    expect(await answerFree(some.work, [0, 1, 2])).toEqual([0, 1])
    const none = setUp(2, { answer: { kind: 'down' } })
    expect(await answerFree(none.work, [0, 1])).toEqual([0, 1])
    expect([some.cache.entries.size, none.cache.entries.size]).toEqual([1, 0])
  })

  it('are not made for rows worth a lease, nor while contacts have several tokens', async () => {
    const worth = setUp(1, { isFree: false })
    expect(await answerFree(worth.work, [0])).toEqual([0])
    const { part } = setUp(1).work
    const otherTokens = { versions: ['1'], tokens: Buffer.alloc(16) }
    const rotating = setUp(1, { part: { ...part, rows: { ...part.rows, otherTokens } } })
    expect(await answerFree(rotating.work, [0])).toEqual([0])
    expect([worth.cache.entries.size, rotating.cache.entries.size]).toEqual([0, 0])
  })
})
