import { describe, expect, it } from 'vitest'
import {
  checkBatch, type CheckDeps, type VerificationBatch,
} from '../../../services/verify/batch.ts'
import {
  type Checker, type CheckRequest, type CheckResult, NO_PROVIDER,
} from '../../../services/verify/checker.ts'
import type { ProviderRow, ProviderVerdict } from '../../../services/verify/provider.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import {
  batchOf, cachedRecord, createManualClock, downFor, JOB, QUOTED_AT_MS, tokenFor,
} from '../../support/stage-messages.ts'

const signal = new AbortController().signal
const phone = (last: number) => `+1212736${5_000 + last}`
const nameOf = (last: number) => tokenFor(phone(last)).toString('hex')
const verdict = { status: 'valid', reason: 'assigned_range', confidence: 90, fields: {} } as const

type Answering = (rows: readonly ProviderRow[]) => CheckResult

const answerAll: Answering = (rows) =>
  ({ kind: 'answered', verdicts: new Map(rows.map(({ row }) => [row, verdict])) })

function setUp (answer: Answering = answerAll, isOffline = false) {
  const clock = createManualClock()
  const cache = createCacheDouble()
  const calls: string[][] = []
  const requests: CheckRequest[] = []
  const events: string[] = []
  const deps: CheckDeps = {
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
    check: Object.assign<Checker, Partial<Checker>>(async (rows, request) => {
      events.push('checked')
      calls.push(rows.map(({ canonical }) => canonical))
      requests.push(request)
      return answer(rows)
    }, { isOffline: () => isOffline }),
  }
  return { clock, cache, calls, requests, events, deps }
}

const batchFrom = (...args: Parameters<typeof batchOf>): VerificationBatch => {
  const { value, rows } = batchOf(...args)
  return { value, rows: rows() }
}

describe('the check of a verification batch', () => {
  it('checks contacts without a cached record and caches the verdicts with their job', async () => {
    const { deps, cache, calls, requests } = setUp()
    const batch = batchFrom([phone(0), phone(1)], { duplicates: [3, 0] })
    const { outcomes } = await checkBatch(batch, deps, signal)
    expect(calls).toEqual([[phone(0), phone(1)]])
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

  it('shares one record for rows with an identical verdict', async () => {
    const apart = { ...verdict, confidence: 80 }
    const { deps, cache } = setUp(() => ({
      kind: 'answered', verdicts: new Map([[0, verdict], [1, apart], [2, verdict]]),
    }))
    await checkBatch(batchFrom([phone(0), phone(1), phone(2)]), deps, signal)
    const [first, second, third] = [0, 1, 2].map((last) => cache.entries.get(nameOf(last)))
    expect([first?.confidence, second?.confidence]).toEqual([90, 80])
    expect(third).toBe(first)
  })

  it('uses and bills the cached verdicts of its own job after a redelivery', async () => {
    const { deps, cache, calls } = setUp()
    cache.entries.set(nameOf(0), cachedRecord({ job: JOB }))
    const { outcomes } = await checkBatch(batchFrom([phone(0)], { freshnessMs: 0 }), deps, signal)
    expect(calls).toEqual([])
    expect(outcomes[0]).toMatchObject({ source: 'live', fields: { carrier: 'Acme' } })
  })

  it.each([
    ['live', false, [1]], ['offline', true, [0, 1, 2]],
  ])('%s uses fresh records of another job free of charge', async (_, isOffline, checked) => {
    const { deps, cache, calls } = setUp(answerAll, isOffline)
    cache.entries.set(nameOf(0), cachedRecord({ checkedAtMs: QUOTED_AT_MS + 5 }))
    cache.entries.set(nameOf(1), cachedRecord({ checkedAtMs: QUOTED_AT_MS - 86_400_000 }))
    cache.entries.set(nameOf(2), cachedRecord({ job: JOB, confidence: 7 }))
    const { outcomes } = await checkBatch(batchFrom([phone(0), phone(1), phone(2)]), deps, signal)
    expect(calls).toEqual([checked.map(phone)])
    expect(outcomes.map((it) => it?.source)).toEqual(['cache', 'live', 'live'])
    expect(outcomes[2]?.confidence).toBe(7)
    expect(cache.entries.get(nameOf(1))?.job).toBe(JOB)
  })

  it('uses only records of its own job with forceFresh', async () => {
    const { deps, cache, calls } = setUp()
    cache.entries.set(nameOf(0), cachedRecord())
    cache.entries.set(nameOf(1), cachedRecord({ job: JOB }))
    cache.holders.set(nameOf(0), 'job_other')
    const batch = batchFrom([phone(0), phone(1)], { forceFresh: true })
    const { outcomes } = await checkBatch(batch, deps, signal)
    expect(calls).toEqual([[phone(0)]])
    expect(outcomes.map((it) => it?.source)).toEqual(['live', 'live'])
    expect(cache.entries.get(nameOf(0))?.job).toBe(JOB)
  })

  it('ends a row without an answer as unknown, free and uncached', async () => {
    const { deps, cache } = setUp(() => ({ kind: 'answered', verdicts: new Map() }))
    const { outcomes: [outcome] } = await checkBatch(batchFrom([phone(0)]), deps, signal)
    expect(outcome).toMatchObject({ status: 'unknown', reason: 'no_answer', source: 'none' })
    expect([cache.entries.size, cache.holders.size]).toEqual([0, 0])
  })

  it('ends rows that every provider rejects as unknown', async () => {
    const { deps } = setUp(() => ({ kind: 'rejected' }))
    const { outcomes: [outcome] } = await checkBatch(batchFrom([phone(0)]), deps, signal)
    expect(outcome).toMatchObject({ status: 'unknown', reason: 'no_answer' })
  })

  it('leaves rows open while all providers are down, and releases their leases', async () => {
    const { deps, cache } = setUp(downFor)
    cache.entries.set(nameOf(0), cachedRecord())
    const { outcomes } = await checkBatch(batchFrom([phone(0), phone(1)]), deps, signal)
    expect(outcomes.map((it) => it?.source)).toEqual(['cache', undefined])
    expect(cache.holders.size).toBe(0)
  })

  it('leaves only the rows of failed calls open', async () => {
    const { deps, cache } = setUp(() => ({
      kind: 'answered', verdicts: new Map([[0, verdict]]), open: new Map([[1, NO_PROVIDER]]),
    }))
    const { outcomes } = await checkBatch(batchFrom([phone(0), phone(1)]), deps, signal)
    expect(outcomes.map((it) => it?.status)).toEqual(['valid', undefined])
    expect([...cache.entries.keys()]).toEqual([nameOf(0)])
  })

  it('caches verdicts before it returns them', async () => {
    const { deps, events } = setUp()
    await checkBatch(batchFrom([phone(0)]), deps, signal)
    expect(events).toEqual(['checked', 'stored'])
  })

  it('checks rows of test keys in test mode', async () => {
    const { deps, requests } = setUp()
    await checkBatch(batchFrom([phone(0)], { tenant: 'org_1.test' }), deps, signal)
    expect(requests[0]?.mode).toBe('test')
  })
})

describe('a contact that another job has a lease on', () => {
  it('is taken from the cache after the batch\'s own checks', async () => {
    const { deps, cache, calls, clock } = setUp()
    cache.holders.set(nameOf(0), 'job_other')
    const sleep = deps.sleep
    const waits: number[] = []
    const waiting = {
      ...deps,
      sleep: async (ms: number) => {
        waits.push(ms)
        if (waits.length === 3) {
          cache.entries.set(nameOf(0), cachedRecord({ checkedAtMs: clock.now() }))
        }
        await sleep(ms)
      },
    }
    const { outcomes } = await checkBatch(batchFrom([phone(0), phone(1)]), waiting, signal)
    expect(calls).toEqual([[phone(1)]])
    expect(waits).toEqual([250, 250, 250])
    expect(outcomes.map((it) => it?.source)).toEqual(['cache', 'live'])
    expect(cache.holders.get(nameOf(0))).toBe('job_other')
  })

  it('is checked after the other job released it without a verdict', async () => {
    const { deps, cache, calls } = setUp()
    cache.holders.set(nameOf(0), 'job_other')
    const releasing = { ...deps, sleep: async () => { cache.holders.clear() } }
    const { outcomes } = await checkBatch(batchFrom([phone(0)]), releasing, signal)
    expect(calls).toEqual([[phone(0)]])
    expect(outcomes[0]?.source).toBe('live')
  })

  it('is checked when the lease has expired', async () => {
    const { deps, cache, calls, clock } = setUp()
    cache.holders.set(nameOf(0), 'job_other')
    await checkBatch(batchFrom([phone(0)]), deps, signal)
    expect(calls).toEqual([[phone(0)]])
    expect(clock.now() - QUOTED_AT_MS).toBe(30_000)
    expect(cache.entries.get(nameOf(0))?.job).toBe(JOB)
  })

  it('is checked at once if the lease is of its own job', async () => {
    const { deps, cache, calls, clock } = setUp()
    cache.holders.set(nameOf(0), JOB)
    await checkBatch(batchFrom([phone(0)]), deps, signal)
    expect(calls).toEqual([[phone(0)]])
    expect(clock.now()).toBe(QUOTED_AT_MS)
  })
})

describe('offline checks', () => {
  const offline = (answer?: Answering) => setUp(answer, true)

  it('answer all rows without a lease, and cache each verdict with its job', async () => {
    const { deps, cache, calls } = offline()
    const { outcomes } = await checkBatch(batchFrom([phone(0), phone(1)]), deps, signal)
    expect(outcomes.map((it) => it?.source)).toEqual(['live', 'live'])
    expect(cache.entries.get(nameOf(1)))
      .toEqual({ ...verdict, checkedAtMs: QUOTED_AT_MS, job: JOB })
    expect([calls.length, cache.holders.size]).toEqual([1, 0])
  })

  it('leave rows to another job that has a lease on them', async () => {
    const { deps, cache, clock } = offline()
    cache.holders.set(nameOf(0), 'job_other')
    await checkBatch(batchFrom([phone(0), phone(1)]), deps, signal)
    // After the maximum wait it is checked here.
    expect(clock.now() - QUOTED_AT_MS).toBe(30_000)
    expect(cache.entries.get(nameOf(0))?.job).toBe(JOB)
  })

  it('end unknown rows at once, and check rows without an answer again', async () => {
    const unknown = { ...verdict, status: 'unknown' } as const
    const { deps, cache, calls } = offline(() => ({
      kind: 'answered', verdicts: new Map<number, ProviderVerdict>([[0, unknown], [2, verdict]]),
    }))
    const { outcomes } = await checkBatch(batchFrom([phone(0), phone(1), phone(2)]), deps, signal)
    expect(outcomes.map((it) => it?.reason))
      .toEqual(['assigned_range', 'no_answer', 'assigned_range'])
    expect(outcomes.map((it) => it?.status)).toEqual(['unknown', 'unknown', 'valid'])
    expect([calls[1], cache.entries.size]).toEqual([[phone(1)], 1])
  })

  it('leave all rows open after a failure', async () => {
    const { deps, cache } = offline(downFor)
    const { outcomes } = await checkBatch(batchFrom([phone(0)]), deps, signal)
    expect(outcomes).toEqual([undefined])
    expect([cache.entries.size, cache.holders.size]).toEqual([0, 0])
  })

  it('take a lease during a rotation of tokens', async () => {
    const { deps } = offline()
    const { value, rows } = batchFrom([phone(0)])
    const rotatedTokens = { versions: ['1'], tokens: Buffer.alloc(16) }
    const offer = async () => { throw new Error('offered') }
    const { outcomes: [outcome] } = await checkBatch({ value, rows: { ...rows, rotatedTokens } },
      { ...deps, cache: { ...deps.cache, offer } }, signal)
    expect(outcome?.source).toBe('live')
  })
})

describe('the mail server of a domain on the organization\'s lists', () => {
  const addresses = [
    'a@blocked.org', 'b@fine.org', 'c@silent.org', 'd@allowed.org', 'e@blocked.org',
  ]
  const listed = new Map([
    ['blocked.org', 'suppress'], ['silent.org', 'unknown'], ['allowed.org', 'allow'],
  ] as const)
  const emails = (more: object = {}) =>
    batchFrom(addresses, { service: 'email-validation', duplicates: [2, 0, 0, 0, 0], ...more })

  it('answers rows free, without a check; while DNS is silent its row waits', async () => {
    const { deps, calls, cache } = setUp()
    const asked: (readonly string[])[] = []
    const checked = await checkBatch(emails(), {
      ...deps,
      findListedDomains: async (_tenant, domains) => {
        asked.push(domains)
        return listed
      },
    }, signal)
    expect(asked).toEqual([['blocked.org', 'fine.org', 'silent.org', 'allowed.org']])
    expect(calls).toEqual([['b@fine.org']])
    expect(cache.entries.size).toBe(1)
    expect(checked.outcomes.map(outcome => outcome && [outcome.reason, outcome.source]))
      .toMatchObject([
        ['suppressed', 'preflight'], ['assigned_range', 'live'], undefined,
        ['allow_listed', 'cache'], ['suppressed', 'preflight'],
      ])
    expect(checked.outcomes[0]).toMatchObject({ status: 'invalid', copies: 2 })
    expect([...checked.waiting]).toEqual([[2, { reason: 'dns_error', afterMs: 0, forHost: false }]])
  })

  it('goes before a record of the cache, and before a fresh check that is wanted', async () => {
    for (const forceFresh of [true, false]) {
      const { deps, cache } = setUp()
      cache.entries.set(tokenFor('a@blocked.org').toString('hex'), cachedRecord())
      const { outcomes: [first] } = await checkBatch(
        emails({ forceFresh }), { ...deps, findListedDomains: async () => listed }, signal)
      expect(first?.reason).toBe('suppressed')
    }
  })

  it('is not asked for with a test key, or for numbers', async () => {
    const refusing = async () => { throw new Error('asked') }
    for (const batch of [emails({ tenant: 'org_1.test' }), batchFrom([phone(0)])]) {
      const { deps, calls } = setUp()
      await checkBatch(batch, { ...deps, findListedDomains: refusing }, signal)
      expect(calls).toHaveLength(1)
    }
  })
})
