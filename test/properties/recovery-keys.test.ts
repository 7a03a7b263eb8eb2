import { beforeEach, describe, expect, it } from 'vitest'
import type { Keys } from '../../schemas/types.ts'
import { createCursors } from '../../services/feed/replay-guard.ts'
import { ACCEPTED_KEY_MS } from '../../services/jobs/job-keys.ts'
import { createErasures } from '../../services/jobs/erasures.ts'
import {
  ERASED_IN, ERASED_UNTIL, ERASURES_KEYS, jobRedisKeys,
} from '../../services/jobs/job-record.ts'
import { globalKey, listServers } from '../../services/runtime/platform/redis.ts'
import { startLockedRedis } from '../support/redis/redis.ts'
import { unlockAll } from '../support/redis/unlock.ts'
import { endRun, putBack, snapshotOf } from '../support/redis/content.ts'
import { createScenario, type Scenario } from '../support/recovery/recovery-scenario.ts'
import {
  createRecoveryEnvironment, type LedgerDeps, runLedger,
} from '../support/recovery/recovery-environment.ts'
import { codec } from '../support/clickhouse/results.ts'

const { redis } = await startLockedRedis()
const TENANT = 'org_a.live'

let environment: ReturnType<typeof createRecoveryEnvironment>
let scenario: Scenario
beforeEach(async () => {
  await redis.flushall()
  environment = createRecoveryEnvironment(redis)
  scenario = createScenario(redis, environment, TENANT)
  await unlockAll(redis, [TENANT])
  await scenario.act({ do: 'topUp', id: 1, micros: 9_000 })
})

/** The Redis of this file, but for these commands. */
const changing = (commands: object) => new Proxy(redis, {
  get: (target, name) =>
    Reflect.get(name in commands ? commands : target, name, target) as unknown,
})

describe('the cursors of feeds', () => {
  const partition = { tenant: TENANT, partner: 'p1', partition: 2 }
  const feed = (cursor: string, from: number, to: number) =>
    ({ partner: 'p1', partition: 2, cursor, from, to, unitPriceMicros: null })
  const positions = () => createCursors(redis).read(partition)

  it('are where the last job of each moved them, and accept no earlier message', async () => {
    await scenario.accept('job_1', 1, feed('a', -1, 4))
    await scenario.accept('job_2', 1, feed('b', -1, 9))
    await scenario.finish('job_1')
    await scenario.archive('job_1', true)
    await scenario.accept('job_3', 1, feed('a', 4, 12))
    await scenario.ship(false)
    const before = await positions()
    expect(before).toEqual(new Map([['a', 12], ['b', 9]]))
    await redis.flushall()
    await runLedger(environment.deps)
    expect(await positions()).toEqual(before)
    expect((await scenario.store.read(TENANT, 'job_1'))?.feed)
      .toEqual({ partner: 'p1', partition: 2 })
    expect(await scenario.accept('job_4', 1, feed('a', 4, 20)))
      .toEqual({ kind: 'refused', refusal: { code: 'cursor_moved' } })
    expect((await scenario.accept('job_5', 1, feed('a', 12, 20))).kind).toBe('accepted')
    expect(await positions()).toEqual(new Map([['a', 20], ['b', 9]]))
  })

  it('of an old file advance to their positions in the journal', async () => {
    await scenario.accept('job_1', 1, feed('a', -1, 4))
    const old = await snapshotOf(redis)
    await scenario.accept('job_2', 1, feed('a', 4, 7))
    await scenario.accept('job_3', 1, feed('b', -1, 3))
    await scenario.finish('job_3')
    await scenario.archive('job_3', true)
    await scenario.ship(false)
    const before = await positions()
    await putBack(redis, old)
    await runLedger(environment.deps)
    expect(await positions()).toEqual(before)
    expect(before).toEqual(new Map([['a', 7], ['b', 3]]))
  })
})

describe('the data keys of jobs', () => {
  const dataKey = (job: string) => jobRedisKeys(TENANT, job).dataKey
  async function put (job: string, key: Omit<Keys, 'job'> | null): Promise<void> {
    const value = key === null ? null : await codec.encode('job.keys-value', { job, ...key })
    await environment.bus.producer('ingest')
      .send([{ topic: 'job.keys', key: job, value, headers: {} }])
  }
  const wrapped = (text: string, tenant = TENANT) => ({ tenant, wrapped: Buffer.from(text) })

  it('are restored, except for jobs that are erased, foreign, or have a key', async () => {
    for (const id of ['job_1', 'job_2', 'job_3', 'job_4']) await scenario.accept(id, 1)
    await scenario.ship(false)
    await put('job_1', wrapped('old'))
    await put('job_1', wrapped('one'))
    await put('job_2', wrapped('two'))
    await put('job_2', null)
    await put('job_3', wrapped('three', 'org_b.live'))
    await put('job_4', wrapped('four'))
    await redis.flushall()
    await redis.set(dataKey('job_4'), 'own', 'PX', 3_600_000)
    await runLedger(environment.deps)
    expect(await redis.mget(['job_1', 'job_2', 'job_3', 'job_4'].map(dataKey)))
      .toEqual(['one', null, null, 'own'])
    const left = await redis.pttl(dataKey('job_1'))
    expect(left).toBeGreaterThan(ACCEPTED_KEY_MS - 600_000)
    expect(left).toBeLessThanOrEqual(ACCEPTED_KEY_MS)
  })

  it('that expired, or of a job that is erased meanwhile, are not restored', async () => {
    await scenario.accept('job_1', 1)
    await scenario.ship(false)
    await put('job_1', wrapped('one'))
    const run = async (deps: Partial<LedgerDeps>) => {
      await redis.flushall()
      await runLedger({ ...environment.deps, ...deps })
      return await redis.get(dataKey('job_1'))
    }
    expect(await run({ clock: { now: () => Date.now() + ACCEPTED_KEY_MS } })).toBeNull()
    expect(await run({ clock: { now: () => Date.now() + ACCEPTED_KEY_MS - 60_000 } })).toBe('one')
    const erasing = changing({
      pexpire: async (key: string, ...more: [number, 'GT']) => {
        await redis.set(jobRedisKeys(TENANT, 'job_1').erased, '1')
        return await redis.pexpire(key, ...more)
      },
    })
    expect(await run({ redis: erasing })).toBeNull()
  })

  it.each([
    ['runs', 'as long as its results', ACCEPTED_KEY_MS], ['is closed', '10 minutes', 600_000],
  ])('that an old file has for an hour are kept, of one that %s, %s', async (state, _, keptMs) => {
    await redis.set(dataKey('job_1'), 'one', 'PX', 3_600_000)
    const old = await snapshotOf(redis)
    await scenario.accept('job_1', 100)
    await scenario.ship(false)
    if (state === 'is closed') {
      await scenario.finish('job_1')
      await scenario.archive('job_1', true)
    }
    await put('job_1', wrapped('one'))
    await putBack(redis, old)
    await runLedger(environment.deps)
    expect(await redis.get(dataKey('job_1'))).toBe('one')
    const left = await redis.pttl(dataKey('job_1'))
    expect(left).toBeGreaterThan(keptMs - 600_000)
    expect(left).toBeLessThanOrEqual(keptMs)
  })
})

describe('jobs that were erased on demand', () => {
  const { dataKey, erased } = jobRedisKeys(TENANT, 'job_1')
  const write = async (job: string, value: Buffer | null, more = {}) => {
    const headers = { tenant: TENANT, job, ...more }
    await environment.bus.producer('any').send([{ topic: 'job.keys', key: job, value, headers }])
  }
  const bytes = (job: string) =>
    codec.encode('job.keys-value', { job, tenant: TENANT, wrapped: Buffer.from(`key of ${job}`) })
  /** A job with its key, of which Redis then has an old file. */
  async function withOldFile () {
    for (const job of ['job_1', 'job_2']) {
      await write(job, await bytes(job))
      await redis.set(jobRedisKeys(TENANT, job).dataKey, `key of ${job}`, 'PX', 3_600_000)
      await scenario.accept(job, 1)
    }
    await scenario.ship(false)
    return await snapshotOf(redis)
  }
  const eraseFirst = async () => {
    await redis.set(erased, '1', 'PX', ACCEPTED_KEY_MS)
    await redis.del(dataKey)
    await write('job_1', null)
  }
  const existing = async () => [
    await redis.exists(dataKey), await redis.exists(erased),
    await redis.exists(jobRedisKeys(TENANT, 'job_2').dataKey),
    await redis.exists(jobRedisKeys(TENANT, 'job_2').erased),
  ]

  it('stay erased when Redis restores an older file, and are marked as erased', async () => {
    const old = await withOldFile()
    await eraseFirst()
    await putBack(redis, old)
    expect(await existing()).toEqual([1, 0, 1, 0])
    await runLedger(environment.deps)
    expect(await existing()).toEqual([0, 1, 1, 0])
    const left = await redis.pttl(erased)
    expect(left).toBeGreaterThan(ACCEPTED_KEY_MS - 600_000)
    expect(left).toBeLessThanOrEqual(ACCEPTED_KEY_MS)
    expect(environment.counted['erasure']).toBe(1)
  })

  it('are marked as erased when Redis has lost everything', async () => {
    await withOldFile()
    await eraseFirst()
    await redis.flushall()
    await runLedger(environment.deps)
    expect(await existing()).toEqual([0, 1, 1, 0])
    expect(environment.counted['erasure']).toBe(undefined)
  })

  it('are erased before any tenant is unlocked, and again after an interruption', async () => {
    const old = await withOldFile()
    await eraseFirst()
    await putBack(redis, old)
    const cut = changing({ del: async () => { throw new Error('cut short') } })
    await expect(runLedger({ ...environment.deps, redis: cut })).rejects.toThrow('cut short')
    await expect(scenario.accept('job_3', 1)).rejects.toThrow('is locked until ledger')
    await runLedger(environment.deps)
    expect(await existing()).toEqual([0, 1, 1, 0])
  })

  it('are erased again since the first of the lost servers had all', async () => {
    const old = await withOldFile()
    await eraseFirst()
    await putBack(redis, old)
    const [server] = await listServers(redis)
    const servers = async () => ['late', 'early'].map(name =>
      ({ ...server!, keyOf: (key: string) => `${name}:${key}` }))
    await redis.set(`late:${ERASED_UNTIL}`, Date.now() + 86_400_000)
    await redis.set(`early:${ERASED_UNTIL}`, 1)
    await runLedger({ ...environment.deps, servers })
    expect(await existing()).toEqual([0, 1, 1, 0])
  })

  it('are queued with the time and the cache of their first tombstone', async () => {
    const erasures = createErasures(redis)
    const atMs = Date.now() - 1_000
    await write('job_1', null, { erased_at: String(atMs), erase_cache: '1' })
    await write('job_1', null)
    await write('job_1', await bytes('job_1'))
    await write('job_2', null)
    await write('job_3', null, { tenant: undefined })
    await redis.set(jobRedisKeys(TENANT, 'job_2').erased, 'done:1')
    await runLedger(environment.deps)
    expect(await erasures.requested(10)).toEqual([{ tenant: TENANT, job: 'job_1', cache: true }])
    expect(await redis.zscore(ERASURES_KEYS.requested, `${TENANT} job_1 cache`)).toBe(String(atMs))
    expect(await redis.pexpiretime(erased)).toBe(atMs + ACCEPTED_KEY_MS)
  })

  it('get no mark once their results have expired', async () => {
    const old = await withOldFile()
    await write('job_1', null)
    await putBack(redis, old)
    await runLedger({
      ...environment.deps, clock: { now: () => Date.now() + ACCEPTED_KEY_MS + 1_000 },
    })
    expect(await existing()).toEqual([0, 0, 1, 0])
    expect(await createErasures(redis).requested(10)).toEqual([])
  })

  it('are searched for once in a run of the server, from where it had them all', async () => {
    await withOldFile()
    const searches: (number | undefined)[] = []
    const reader: typeof environment.deps.reader = {
      read: async (topic, onMessages, limits) => {
        if (topic === 'job.keys') searches.push(limits?.sinceMs)
        return await environment.deps.reader.read(topic, onMessages, limits)
      },
    }
    const clock = { now: () => 70_000 }
    const start = async () => {
      await endRun(redis)
      await runLedger({ ...environment.deps, reader, clock })
    }
    await start()
    await start()
    expect(searches).toEqual([undefined])
    await redis.set(globalKey(ERASED_IN), 'another')
    await start()
    expect(searches).toEqual([undefined, 70_000])
  })
})
