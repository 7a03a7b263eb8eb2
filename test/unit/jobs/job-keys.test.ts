import type { Redis } from 'ioredis'
import { LRUCache } from 'lru-cache'
import { describe, expect, it } from 'vitest'
import { newJobId } from '../../../services/jobs/job.ts'
import {
  createNewJobKeys, JobKeyLostError, keysInTopic, openJobKey,
} from '../../../services/jobs/job-keys.ts'
import { jobKeys } from '../../../services/jobs/job-record.ts'
import { createCodec } from '../../../services/runtime/kafka/registry.ts'
import { localSource } from '../../support/kafka/local-schemas.ts'
import { SealError } from '../../../services/runtime/crypto/seal.ts'
import { createMemoryBus } from '../../support/kafka/memory-bus.ts'
import { jobKeysOf, organizationKeysOf } from '../../support/keys/organization-keys.ts'

const codec = createCodec(localSource())

describe('the topic of data keys', () => {
  it('has the newest wrapped key of a job, for its own tenant', async () => {
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
})

describe('the wrapped key of a job that Redis has forgotten', () => {
  const DAY_MS = 86_400_000
  /** The keys of a job that was closed, while marks of erased jobs come and go. */
  const scene = async (requestedAtMs = Date.now() - DAY_MS) => {
    const job = newJobId(requestedAtMs)
    const state = { erased: [] as number[], searches: 0 }
    const redis = {
      getBuffer: async () => null,
      exists: async () => state.erased.shift() ?? 0,
    } as unknown as Redis
    const { key, wrapped } = await jobKeysOf({ redis }).create('t.live', job)
    const findClosed = async () => {
      state.searches += 1
      return wrapped
    }
    const { get } = jobKeysOf({ redis, isRunning: async () => false, findClosed })
    return { key, state, get: () => get('t.live', job) }
  }

  it('is not searched for once the job is erased, nor returned if that just happened', async () => {
    const { state, get } = await scene()
    state.erased = [1]
    expect([await get(), state.searches]).toEqual([undefined, 0])
    state.erased = [0, 1]
    expect([await get(), state.searches]).toEqual([undefined, 1])
  })

  it('decrypts nothing after 91 days, even where a process has kept it', async () => {
    const recent = await scene(Date.now() - 90 * DAY_MS)
    expect(await recent.get()).toEqual(recent.key)
    const { state, get } = await scene(Date.now() - 92 * DAY_MS)
    expect([await get(), state.searches]).toEqual([undefined, 0])
  })
})

describe('a wrapped key that Redis has with broken bytes', () => {
  /** The keys of a job whose wrapped key is broken in Redis; `restore` returns the original. */
  const scene = async (isRunning = true) => {
    const entries = new Map<string, Buffer>()
    const marks = new Set<string>()
    const redis = {
      getBuffer: async (name: string) => entries.get(name) ?? null,
      set: async (name: string, value: Buffer) => { entries.set(name, value) },
      del: async (name: string) => { entries.delete(name) },
      exists: async (name: string) => Number(marks.has(name)),
    } as unknown as Redis
    const { key, wrapped } = await jobKeysOf({ redis }).create('t.live', 'job_1')
    const broken = Buffer.from(wrapped)
    // Within its first part.
    broken[40]! ^= 1
    entries.set(jobKeys('t.live', 'job_1').dataKey, broken)
    const keysWith = (inTopic: Buffer | undefined) => {
      const restores = { times: 0 }
      const restore = async () => { restores.times += 1; return inTopic }
      const keys = jobKeysOf({ redis, isRunning: async () => isRunning, restore })
      return { restores, ...keys }
    }
    return { key, wrapped, broken, entries, marks, keysWith }
  }

  it('is read from its topic once for concurrent callers, and stored whole', async () => {
    const { key, wrapped, entries, keysWith } = await scene()
    const { get, restores } = keysWith(wrapped)
    expect(await Promise.all([get('t.live', 'job_1'), get('t.live', 'job_1')])).toEqual([key, key])
    expect([...entries.values()]).toEqual([wrapped])
    expect(restores.times).toBe(1)
  })

  it('is lost when the topic has nothing better, or the job is over', async () => {
    const { broken, wrapped, keysWith } = await scene()
    const same = keysWith(broken)
    await expect(same.get('t.live', 'job_1')).rejects.toThrow(SealError)
    expect(same.restores.times).toBe(1)
    await expect(keysWith(undefined).get('t.live', 'job_1')).rejects.toThrow(JobKeyLostError)
    const over = await scene(false)
    await expect(over.keysWith(wrapped).get('t.live', 'job_1')).rejects.toThrow(SealError)
  })

  it('does not come back for a job that was erased while the topic was searched', async () => {
    const { wrapped, entries, marks, keysWith } = await scene()
    entries.clear()
    marks.add('erased:{t}.live:job_1')
    expect(await keysWith(wrapped).get('t.live', 'job_1')).toBeUndefined()
    expect(entries.size).toBe(0)
  })

  it('is taken from its topic when the key that its bytes name is missing', async () => {
    const { key, wrapped, entries, keysWith } = await scene()
    const other = Buffer.from(wrapped)
    // The last character of the id `k1`, after the length of the part and that of the id.
    other[4] = '7'.charCodeAt(0)
    for (const name of entries.keys()) entries.set(name, other)
    expect(await keysWith(wrapped).get('t.live', 'job_1')).toEqual(key)
    for (const name of entries.keys()) entries.set(name, other)
    await expect(keysWith(other).get('t.live', 'job_1'))
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
