import { beforeEach, describe, expect, it } from 'vitest'
import { type CachedRecord, redisRecordCache } from '../../../services/cache/cache.ts'
import {
  checkBatch, type CheckDeps, type VerificationBatch,
} from '../../../services/verify/batch.ts'
import { type CheckResult, NO_PROVIDER } from '../../../services/verify/checker.ts'
import type {
  CheckRequest, ProviderRow, ProviderVerdict,
} from '../../../services/verify/provider.ts'
import { startLockedRedis } from '../../support/redis/redis.ts'
import {
  batchOf, cachedRecord, checkerBy, createManualClock, downFor, JOB, QUOTED_AT_MS, TENANT, tokenFor,
} from '../../support/stage-messages.ts'

const { redis } = await startLockedRedis()
const cache = redisRecordCache(redis, { onFault: error => { throw error } })
beforeEach(async () => { await redis.flushall() })

const signal = new AbortController().signal
const phone = (last: number) => `+1212736${5_000 + last}`
const verdict = { status: 'valid', reason: 'assigned_range', confidence: 90, fields: {} } as const

const SCOPE = { tenant: TENANT, service: 'phone-validation', version: '1' } as const
/** Longer than any test takes: no lease ends because its time in Redis is over. */
const LEASE_MS = 3_600_000

/** A phone has this record when the batch is checked. */
const remember = (last: number, change?: Partial<CachedRecord>) =>
  cache.store(SCOPE, tokenFor(phone(last)), [cachedRecord(change)])
/** A job checks a phone meanwhile. */
const lease = (last: number, job = 'job_other') => cache.claim(
  SCOPE, tokenFor(phone(last)), { job, leaseMs: LEASE_MS, usable: () => true })
const recordOf = async (last: number) => (await cache.find(SCOPE, tokenFor(phone(last))))[0]
/** The records of the cache, and the leases that are left. */
const entries = async () => {
  const names = await redis.keysBuffer('c:*')
  return await Promise.all(names.map(async name => await redis.get(name) ?? ''))
}
const leases = async () => (await entries()).filter(entry => entry.startsWith('lease '))

type Answering = (rows: readonly ProviderRow[]) => CheckResult

const answerAll: Answering = (rows) =>
  ({ verdicts: new Map(rows.map(({ row }) => [row, verdict])), open: new Map() })

function setUp (answer: Answering = answerAll, isOffline = false) {
  const clock = createManualClock()
  const calls: string[][] = []
  const requests: CheckRequest[] = []
  const events: string[] = []
  const stored: (CachedRecord | undefined)[] = []
  const deps: CheckDeps = {
    cache: {
      ...cache,
      store: async (scope, tokens, records) => {
        events.push('stored')
        stored.push(...records)
        await cache.store(scope, tokens, records)
      },
    },
    clock,
    sleep: clock.sleep,
    leaseMs: 30_000,
    leasePollMs: 250,
    checker: checkerBy(async (rows, request) => {
      events.push('checked')
      calls.push(rows.map(({ canonical }) => canonical))
      requests.push(request)
      return answer(rows)
    }, isOffline),
  }
  return { clock, calls, requests, events, stored, deps }
}

const batchFrom = (...args: Parameters<typeof batchOf>): VerificationBatch => {
  const { value, rows } = batchOf(...args)
  return { value, rows: rows() }
}

describe('the check of a verification batch', () => {
  it('checks contacts without a cached record and caches the verdicts with their job', async () => {
    const { deps, calls, requests } = setUp()
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
    expect(await recordOf(1)).toEqual({ ...verdict, checkedAtMs: QUOTED_AT_MS, job: JOB })
    expect(await leases()).toEqual([])
  })

  it('shares one record for rows with an identical verdict', async () => {
    const apart = { ...verdict, confidence: 80 }
    const { deps, stored } = setUp(() => ({
      verdicts: new Map([[0, verdict], [1, apart], [2, verdict]]), open: new Map(),
    }))
    await checkBatch(batchFrom([phone(0), phone(1), phone(2)]), deps, signal)
    expect(stored.map((record) => record?.confidence)).toEqual([90, 80, 90])
    expect(stored[2]).toBe(stored[0])
  })

  it('uses and bills the cached verdicts of its own job after a redelivery', async () => {
    const { deps, calls } = setUp()
    await remember(0, { job: JOB })
    const { outcomes } = await checkBatch(batchFrom([phone(0)], { freshnessMs: 0 }), deps, signal)
    expect(calls).toEqual([])
    expect(outcomes[0]).toMatchObject({ source: 'live', fields: { carrier: 'Acme' } })
  })

  it.each([
    ['live', false, [1]], ['offline', true, [0, 1, 2]],
  ])('%s uses fresh records of another job free of charge', async (_, isOffline, checked) => {
    const { deps, calls } = setUp(answerAll, isOffline)
    await remember(0, { checkedAtMs: QUOTED_AT_MS + 5 })
    await remember(1, { checkedAtMs: QUOTED_AT_MS - 86_400_000 })
    await remember(2, { job: JOB, confidence: 7 })
    const { outcomes } = await checkBatch(batchFrom([phone(0), phone(1), phone(2)]), deps, signal)
    expect(calls).toEqual([checked.map(phone)])
    expect(outcomes.map((it) => it?.source)).toEqual(['cache', 'live', 'live'])
    expect(outcomes[2]?.confidence).toBe(7)
    expect((await recordOf(1))?.job).toBe(JOB)
  })

  it('uses only records of its own job with forceFresh', async () => {
    const { deps, calls } = setUp()
    await remember(0)
    await remember(1, { job: JOB })
    await lease(2)
    const batch = batchFrom([phone(0), phone(1), phone(2)], { forceFresh: true })
    const { outcomes } = await checkBatch(batch, deps, signal)
    expect(calls).toEqual([[phone(0), phone(2)]])
    expect(outcomes.map((it) => it?.source)).toEqual(['live', 'live', 'live'])
    expect((await recordOf(0))?.job).toBe(JOB)
  })

  it('ends a row without an answer as unknown, free and uncached', async () => {
    const { deps } = setUp(() => ({ verdicts: new Map(), open: new Map() }))
    const { outcomes: [outcome] } = await checkBatch(batchFrom([phone(0)]), deps, signal)
    expect(outcome).toMatchObject({ status: 'unknown', reason: 'no_answer', source: 'none' })
    expect(await entries()).toEqual([])
  })

  it('leaves rows open while all providers are down, and releases their leases', async () => {
    const { deps } = setUp(downFor)
    await remember(0)
    const { outcomes } = await checkBatch(batchFrom([phone(0), phone(1)]), deps, signal)
    expect(outcomes.map((it) => it?.source)).toEqual(['cache', undefined])
    expect(await leases()).toEqual([])
  })

  it('leaves only the rows of failed calls open', async () => {
    const { deps } = setUp(() => ({
      verdicts: new Map([[0, verdict]]), open: new Map([[1, NO_PROVIDER]]),
    }))
    const { outcomes } = await checkBatch(batchFrom([phone(0), phone(1)]), deps, signal)
    expect(outcomes.map((it) => it?.status)).toEqual(['valid', undefined])
    expect([(await recordOf(0))?.job, (await entries()).length]).toEqual([JOB, 1])
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
    const { deps, calls, clock } = setUp()
    await lease(0)
    const sleep = deps.sleep
    const waits: number[] = []
    const waiting = {
      ...deps,
      sleep: async (ms: number) => {
        waits.push(ms)
        if (waits.length === 3) await remember(0, { checkedAtMs: clock.now() })
        await sleep(ms)
      },
    }
    const { outcomes } = await checkBatch(batchFrom([phone(0), phone(1)]), waiting, signal)
    expect(calls).toEqual([[phone(1)]])
    expect(waits).toEqual([250, 250, 250])
    expect(outcomes.map((it) => it?.source)).toEqual(['cache', 'live'])
    expect((await recordOf(0))?.job).toBe('job_other')
  })

  it('is checked after the other job released it without a verdict', async () => {
    const { deps, calls } = setUp()
    await lease(0)
    const releasing = {
      ...deps, sleep: () => cache.release(SCOPE, tokenFor(phone(0)), 'job_other'),
    }
    const { outcomes } = await checkBatch(batchFrom([phone(0)]), releasing, signal)
    expect(calls).toEqual([[phone(0)]])
    expect(outcomes[0]?.source).toBe('live')
  })

  it('is checked when the lease has expired', async () => {
    const { deps, calls, clock } = setUp()
    await lease(0)
    await checkBatch(batchFrom([phone(0)]), deps, signal)
    expect(calls).toEqual([[phone(0)]])
    expect(clock.now() - QUOTED_AT_MS).toBe(30_000)
    expect((await recordOf(0))?.job).toBe(JOB)
  })

  it('is checked at once if the lease is of its own job', async () => {
    const { deps, calls, clock } = setUp()
    await lease(0, JOB)
    await checkBatch(batchFrom([phone(0)]), deps, signal)
    expect(calls).toEqual([[phone(0)]])
    expect(clock.now()).toBe(QUOTED_AT_MS)
  })
})

describe('offline checks', () => {
  const offline = (answer?: Answering) => setUp(answer, true)

  it('answer all rows without a lease, and cache each verdict with its job', async () => {
    const { deps, calls } = offline()
    const { outcomes } = await checkBatch(batchFrom([phone(0), phone(1)]), deps, signal)
    expect(outcomes.map((it) => it?.source)).toEqual(['live', 'live'])
    expect(await recordOf(1)).toEqual({ ...verdict, checkedAtMs: QUOTED_AT_MS, job: JOB })
    expect(calls).toHaveLength(1)
    expect(await leases()).toEqual([])
  })

  it('leave rows to another job that has a lease on them', async () => {
    const { deps, clock } = offline()
    await lease(0)
    await checkBatch(batchFrom([phone(0), phone(1)]), deps, signal)
    // After the maximum wait it is checked here.
    expect(clock.now() - QUOTED_AT_MS).toBe(30_000)
    expect((await recordOf(0))?.job).toBe(JOB)
  })

  it('end unknown rows at once, and check rows without an answer again', async () => {
    const unknown = { ...verdict, status: 'unknown' } as const
    const { deps, calls } = offline(() => ({
      verdicts: new Map<number, ProviderVerdict>([[0, unknown], [2, verdict]]), open: new Map(),
    }))
    const { outcomes } = await checkBatch(batchFrom([phone(0), phone(1), phone(2)]), deps, signal)
    expect(outcomes.map((it) => it?.reason))
      .toEqual(['assigned_range', 'no_answer', 'assigned_range'])
    expect(outcomes.map((it) => it?.status)).toEqual(['unknown', 'unknown', 'valid'])
    expect(calls[1]).toEqual([phone(1)])
    expect(await entries()).toHaveLength(1)
  })

  it('leave all rows open after a failure', async () => {
    const { deps } = offline(downFor)
    const { outcomes } = await checkBatch(batchFrom([phone(0)]), deps, signal)
    expect(outcomes).toEqual([undefined])
    expect(await entries()).toEqual([])
  })

  it('take a lease during a rotation of tokens', async () => {
    const { deps } = offline()
    const { value, rows } = batchFrom([phone(0)])
    const rotatedTokens = { versions: ['0'], tokens: Buffer.alloc(16) }
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
    const { deps, calls } = setUp()
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
    expect(await entries()).toHaveLength(1)
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
      const { deps } = setUp()
      await cache.store({ ...SCOPE, service: 'email-validation' }, tokenFor('a@blocked.org'),
        [cachedRecord()])
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
