import { describe, expect, it } from 'vitest'
import { checkPart, type CheckParts, type Part } from '../../../services/verify/part.ts'
import type { Checked, CheckRequest } from '../../../services/verify/providers.ts'
import type { ProviderRow } from '../../../services/verify/provider.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import {
  cachedRecord, createManualClock, JOB, partOf, QUOTED_AT_MS, tokenFor,
} from '../../support/stage-doubles.ts'

const signal = new AbortController().signal
const phone = (last: number) => `+1212736${5_000 + last}`
const nameOf = (last: number) => tokenFor(phone(last)).toString('hex')
const verdict = { status: 'valid', reason: 'assigned_range', confidence: 90, fields: {} } as const

type Answering = (rows: readonly ProviderRow[]) => Checked

const answerAll: Answering = (rows) =>
  ({ kind: 'answered', verdicts: new Map(rows.map(({ row }) => [row, verdict])) })

function setUp (answer: Answering = answerAll) {
  const clock = createManualClock()
  const cache = createCacheDouble()
  const asked: string[][] = []
  const requests: CheckRequest[] = []
  const events: string[] = []
  const parts: CheckParts = {
    cache: {
      ...cache,
      store: async (...args) => {
        events.push('stored')
        await cache.store(...args)
      },
    },
    clock,
    sleep: clock.sleep,
    leaseMs: 30_000,
    leasePollMs: 250,
    check: async (rows, request) => {
      events.push('checked')
      asked.push(rows.map(({ canonical }) => canonical))
      requests.push(request)
      return answer(rows)
    },
  }
  return { clock, cache, asked, requests, events, parts }
}

const partFrom = (...args: Parameters<typeof partOf>): Part => {
  const { value, rows } = partOf(...args)
  return { value, rows: rows() }
}

describe('checking a part', () => {
  it('buys what the cache does not know, and keeps it with the job that paid', async () => {
    const { parts, cache, asked, requests } = setUp()
    const part = partFrom([phone(0), phone(1)], { copies: [3, 0] })
    const outcomes = await checkPart(part, parts, signal)
    expect(asked).toEqual([[phone(0), phone(1)]])
    expect(requests[0]).toMatchObject({ service: 'phone-validation', mode: 'live' })
    expect(outcomes[0]).toMatchObject({
      status: 'valid',
      source: 'live',
      copies: 3,
      checkedAtMs: QUOTED_AT_MS,
      expiresAtMs: QUOTED_AT_MS + 86_400_000,
      contact: { e164: phone(0) },
    })
    expect(cache.entries.get(nameOf(1)))
      .toEqual({ ...verdict, checkedAtMs: QUOTED_AT_MS, job: JOB })
    expect(cache.holders.size).toBe(0)
  })

  it('keeps one record for rows of the very same verdict, and others apart', async () => {
    const apart = { ...verdict, confidence: 80 }
    const { parts, cache } = setUp(() => ({
      kind: 'answered', verdicts: new Map([[0, verdict], [1, apart], [2, verdict]]),
    }))
    await checkPart(partFrom([phone(0), phone(1), phone(2)]), parts, signal)
    const [first, second, third] = [0, 1, 2].map((last) => cache.entries.get(nameOf(last)))
    expect([first?.confidence, second?.confidence]).toEqual([90, 80])
    expect(third).toBe(first)
  })

  it('finds its own verdicts when it is delivered again, and bills them', async () => {
    const { parts, cache, asked } = setUp()
    cache.entries.set(nameOf(0), cachedRecord({ job: JOB }))
    const outcomes = await checkPart(partFrom([phone(0)], { freshnessMs: 0 }), parts, signal)
    expect(asked).toEqual([])
    expect(outcomes[0]).toMatchObject({ source: 'live', fields: { carrier: 'Acme' } })
  })

  it('takes what another job paid for since, for free', async () => {
    const { parts, cache, asked } = setUp()
    cache.entries.set(nameOf(0), cachedRecord({ checkedAtMs: QUOTED_AT_MS + 5 }))
    cache.entries.set(nameOf(1), cachedRecord({ checkedAtMs: QUOTED_AT_MS - 86_400_000 }))
    const outcomes = await checkPart(partFrom([phone(0), phone(1)]), parts, signal)
    expect(asked).toEqual([[phone(1)]])
    expect(outcomes.map((it) => it?.source)).toEqual(['cache', 'live'])
  })

  it('uses for a job that wants fresh checks only what that job paid for', async () => {
    const { parts, cache, asked } = setUp()
    cache.entries.set(nameOf(0), cachedRecord())
    cache.entries.set(nameOf(1), cachedRecord({ job: JOB }))
    cache.holders.set(nameOf(0), 'job_other')
    const part = partFrom([phone(0), phone(1)], { forceFresh: true })
    const outcomes = await checkPart(part, parts, signal)
    expect(asked).toEqual([[phone(0)]])
    expect(outcomes.map((it) => it?.source)).toEqual(['live', 'live'])
    expect(cache.entries.get(nameOf(0))?.job).toBe(JOB)
  })

  it('gives a row without an answer no verdict, for free, and caches nothing of it', async () => {
    const { parts, cache } = setUp(() => ({ kind: 'answered', verdicts: new Map() }))
    const [outcome] = await checkPart(partFrom([phone(0)]), parts, signal)
    expect(outcome).toMatchObject({ status: 'unknown', reason: 'no_answer', source: 'live' })
    expect([cache.entries.size, cache.holders.size]).toEqual([0, 0])
  })

  it('gives rows that every provider rejects no verdict', async () => {
    const { parts } = setUp(() => ({ kind: 'rejected' }))
    const [outcome] = await checkPart(partFrom([phone(0)]), parts, signal)
    expect(outcome).toMatchObject({ status: 'unknown', reason: 'no_answer' })
  })

  it('leaves rows open when no provider can be had, and lets others try', async () => {
    const { parts, cache } = setUp(() => ({ kind: 'down' }))
    cache.entries.set(nameOf(0), cachedRecord())
    const outcomes = await checkPart(partFrom([phone(0), phone(1)]), parts, signal)
    expect(outcomes.map((it) => it?.source)).toEqual(['cache', undefined])
    expect(cache.holders.size).toBe(0)
  })

  it('leaves open only the rows whose call failed while others were answered', async () => {
    const { parts, cache } = setUp(() => ({
      kind: 'answered', verdicts: new Map([[0, verdict]]), open: new Set([1]),
    }))
    const outcomes = await checkPart(partFrom([phone(0), phone(1)]), parts, signal)
    expect(outcomes.map((it) => it?.status)).toEqual(['valid', undefined])
    expect([...cache.entries.keys()]).toEqual([nameOf(0)])
  })

  it('keeps verdicts before it returns them', async () => {
    const { parts, events } = setUp()
    await checkPart(partFrom([phone(0)]), parts, signal)
    expect(events).toEqual(['checked', 'stored'])
  })

  it('sends rows of test keys to be checked as such', async () => {
    const { parts, requests } = setUp()
    await checkPart(partFrom([phone(0)], { tenant: 'org_1.test' }), parts, signal)
    expect(requests[0]?.mode).toBe('test')
  })
})

describe('a contact that another job has under check', () => {
  it('is waited for after the part\'s own checks, and not bought', async () => {
    const { parts, cache, asked, clock } = setUp()
    cache.holders.set(nameOf(0), 'job_other')
    const sleeping = parts.sleep
    const waits: number[] = []
    const patient = {
      ...parts,
      sleep: async (ms: number) => {
        waits.push(ms)
        if (waits.length === 3) {
          cache.entries.set(nameOf(0), cachedRecord({ checkedAtMs: clock.now() }))
        }
        await sleeping(ms)
      },
    }
    const outcomes = await checkPart(partFrom([phone(0), phone(1)]), patient, signal)
    expect(asked).toEqual([[phone(1)]])
    expect(waits).toEqual([250, 250, 250])
    expect(outcomes.map((it) => it?.source)).toEqual(['cache', 'live'])
    expect(cache.holders.get(nameOf(0))).toBe('job_other')
  })

  it('is bought when the other job let it go without a verdict', async () => {
    const { parts, cache, asked } = setUp()
    cache.holders.set(nameOf(0), 'job_other')
    const letting = { ...parts, sleep: async () => { cache.holders.clear() } }
    const outcomes = await checkPart(partFrom([phone(0)]), letting, signal)
    expect(asked).toEqual([[phone(0)]])
    expect(outcomes[0]?.source).toBe('live')
  })

  it('is waited for no longer than a lease lasts', async () => {
    const { parts, cache, asked, clock } = setUp()
    cache.holders.set(nameOf(0), 'job_other')
    await checkPart(partFrom([phone(0)]), parts, signal)
    expect(asked).toEqual([[phone(0)]])
    expect(clock.now() - QUOTED_AT_MS).toBe(30_000)
    expect(cache.entries.get(nameOf(0))?.job).toBe(JOB)
  })

  it('is a contact of its own when the part is delivered again', async () => {
    const { parts, cache, asked, clock } = setUp()
    cache.holders.set(nameOf(0), JOB)
    await checkPart(partFrom([phone(0)]), parts, signal)
    expect(asked).toEqual([[phone(0)]])
    expect(clock.now()).toBe(QUOTED_AT_MS)
  })
})
