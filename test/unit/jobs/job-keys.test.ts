import { LRUCache } from 'lru-cache'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { newJobId } from '../../../services/jobs/job.ts'
import {
  createNewJobKeys, JobKeyLostError, keysInTopic, openJobKey,
} from '../../../services/jobs/job-keys.ts'
import { jobRedisKeys } from '../../../services/jobs/job-record.ts'
import { createCodec } from '../../../services/runtime/kafka/registry.ts'
import { localSource } from '../../support/kafka/local-schemas.ts'
import { SealError } from '../../../services/runtime/crypto/seal.ts'
import { createMemoryBus } from '../../support/kafka/memory-bus.ts'
import { jobKeysOf, organizationKeysOf } from '../../support/keys/organization-keys.ts'
import { emptyRedis, workerRedis as redis } from '../../support/redis/worker.ts'

const codec = createCodec(localSource())
beforeEach(emptyRedis)

it('the topic of data keys has the newest wrapped key of a job, for its own tenant', async () => {
  const bus = createMemoryBus()
  const restore = keysInTopic({ bus, codec })
  const put = async (job: string, text: string | null) => {
    const value = text === null
      ? null
      : await codec.encode(
        'job.keys-value', { tenant: 't.live', job, wrapped: Buffer.from(text) })
    await bus.producer('any').send([{ topic: 'job.keys', key: job, value, headers: {} }])
  }
  await put('job_1', 'old')
  await put('job_2', 'other')
  await put('job_1', 'new')
  expect(String(await restore('t.live', 'job_1'))).toBe('new')
  expect(await restore('unknown', 'job_1')).toBeUndefined()
  expect(await restore('t.live', 'job_3')).toBeUndefined()
  await put('job_1', null)
  expect(await restore('t.live', 'job_1')).toBeUndefined()
})

const tenant = 't.live'

describe('the wrapped key of a job that Redis has forgotten', () => {
  const DAY_MS = 86_400_000
  /** The keys of a job that was closed, which may be erased while its key is searched for. */
  const scene = async ({ requestedAtMs = Date.now() - DAY_MS, isErasedMeanwhile = false } = {}) => {
    const job = newJobId(requestedAtMs)
    const { key, wrapped } = await jobKeysOf({ redis }).create(tenant, job)
    const state = { searches: 0 }
    const erase = async () => await redis.set(jobRedisKeys(tenant, job).erased, '1')
    const findClosed = async () => {
      state.searches += 1
      if (isErasedMeanwhile) await erase()
      return wrapped
    }
    const { get } = jobKeysOf({ redis, isRunning: async () => false, findClosed })
    return { key, state, erase, get: () => get(tenant, job) }
  }

  it('is not searched for once the job is erased, nor returned if that just happened', async () => {
    const erased = await scene()
    await erased.erase()
    expect([await erased.get(), erased.state.searches]).toEqual([undefined, 0])
    const { state, get } = await scene({ isErasedMeanwhile: true })
    expect([await get(), state.searches]).toEqual([undefined, 1])
  })

  it('decrypts nothing after 91 days, even where a process has kept it', async () => {
    const recent = await scene({ requestedAtMs: Date.now() - 90 * DAY_MS })
    expect(await recent.get()).toEqual(recent.key)
    const { state, get } = await scene({ requestedAtMs: Date.now() - 92 * DAY_MS })
    expect([await get(), state.searches]).toEqual([undefined, 0])
  })
})

describe('a wrapped key that Redis has with broken bytes', () => {
  const { dataKey, erased } = jobRedisKeys(tenant, 'job_1')
  /** The keys of a job, with what the topic has of it. */
  const keysWith = (inTopic: Buffer | undefined, isRunning = true) => {
    const restore = vi.fn(async () => inTopic)
    const { get } = jobKeysOf({ redis, isRunning: async () => isRunning, restore })
    return { restore, get: () => get(tenant, 'job_1') }
  }
  /** The key of the job, whose byte at this place is another one in Redis. */
  const breakAt = async (place: number, byte: number) => {
    const made = await jobKeysOf({ redis }).create(tenant, 'job_1')
    const broken = Buffer.from(made.wrapped)
    broken[place]! ^= byte
    await redis.set(dataKey, broken)
    return { ...made, broken }
  }
  /** Within its first part. */
  const damage = () => breakAt(40, 1)

  it('is read from its topic once for concurrent callers, and stored whole', async () => {
    const { key, wrapped } = await damage()
    const { get, restore } = keysWith(wrapped)
    expect(await Promise.all([get(), get()])).toEqual([key, key])
    expect(await redis.getBuffer(dataKey)).toEqual(wrapped)
    expect(restore).toHaveBeenCalledOnce()
  })

  it('is lost when the topic has nothing better, or the job is over', async () => {
    const { key, broken, wrapped } = await damage()
    const same = keysWith(broken)
    await expect(same.get()).rejects.toThrow(SealError)
    expect(same.restore).toHaveBeenCalledOnce()
    await redis.set(dataKey, broken)
    await expect(keysWith(undefined).get()).rejects.toThrow(JobKeyLostError)
    await expect(keysWith(wrapped, false).get()).rejects.toThrow(SealError)
    await redis.del(dataKey)
    await expect(keysWith(undefined).get()).rejects.toThrow(JobKeyLostError)
    expect(await keysWith(wrapped, false).get()).toBeUndefined()
    expect(await keysWith(wrapped).get()).toEqual(key)
  })

  it('does not come back for a job that was erased while the topic was searched', async () => {
    const { wrapped } = await damage()
    await redis.del(dataKey)
    await redis.set(erased, '1')
    expect(await keysWith(wrapped).get()).toBeUndefined()
    expect(await redis.exists(dataKey)).toBe(0)
  })

  it('is taken from its topic when the key that its bytes name is missing', async () => {
    // The last character of the id `k1`, after the length of the part and that of the id.
    const { key, wrapped, broken } = await breakAt(4, '1'.charCodeAt(0) ^ '7'.charCodeAt(0))
    expect(await keysWith(wrapped).get()).toEqual(key)
    await redis.set(dataKey, broken)
    await expect(keysWith(broken).get())
      .rejects.toThrow('lacks key "k7", which wraps a key in use (data-key t.live job_1)')
  })
})

const [results, webhooks] = [organizationKeysOf(1), organizationKeysOf(2)]

it('the key of webhooks opens the header of a job, no results and no other job', async () => {
  const job = 'job_1'
  const { key, wrapped } = await createNewJobKeys({ results, webhooks }, new LRUCache({ max: 1 }))
    .create('org_1.live', job)
  const stored = { tenant: 'org_1.live', job, wrapped }
  expect(await openJobKey(results, 'results', stored)).toEqual(key)
  expect(await openJobKey(webhooks, 'webhooks', stored)).not.toEqual(key)
  await expect(openJobKey(webhooks, 'results', stored)).rejects.toThrow('lacks key "k1"')
  for (const moved of [{ ...stored, job: 'job_2' }, { ...stored, tenant: 'org_1.test' }]) {
    await expect(openJobKey(results, 'results', moved)).rejects.toThrow('decryption failed')
    await expect(openJobKey(webhooks, 'webhooks', moved)).rejects.toThrow('decryption failed')
  }
})

it('no data key is made before the topic has the keys that wrap it', async () => {
  const unshipped = { ...webhooks, whenShipped: async () => { throw new Error('not shipped') } }
  const keys = createNewJobKeys({ results, webhooks: unshipped }, new LRUCache({ max: 1 }))
  await expect(keys.create('org_1.live', 'job_1')).rejects.toThrow('not shipped')
})
