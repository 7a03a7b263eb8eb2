import { describe, expect, it } from 'vitest'
import { keysInTopic, createJobKeys } from '../../services/jobs/job-keys.ts'
import { jobKeys } from '../../services/jobs/redis-keys.ts'
import {
  tombstoneOf, wrappedInRedis, wrappedInTopic,
} from '../../services/jobs/wrapped-keys.ts'
import { kidOf } from '../../services/crypto/key-ring.ts'
import { createJobKeyEraser } from '../../services/jobs/job-key-eraser.ts'
import { rewrapAll, reportKeys } from '../../services/workspace/key-rotation.ts'
import { wrappedKeySources } from '../../services/workspace/wrapped-keys.ts'
import {
  accountsOf, bus, codec, copied, makeJob, partsOf, producer, redis, ringOf, stores, tenant,
} from '../support/wrapped-keys.ts'

describe('a key of the ring', () => {
  it('wraps every data key until all are rewrapped, and may be removed then', async () => {
    const [old, both, fresh] = [ringOf([1], 1), ringOf([1, 2], 2), ringOf([2], 2)]
    const { id: org } = await accountsOf(old).organizations.create('Example')
    const first = await makeJob('job_1', old)
    const second = await makeJob('job_2', both)
    await producer.send([tombstoneOf(tenant, 'job_0')])
    const secret = await accountsOf(old).webhookSecrets.show(org)
    const rotated = await accountsOf(old).webhookSecrets.rotate(org)
    const signingKey = await accountsOf(old).signingKeys.show(org)
    const partner = await accountsOf(old).partners.create({
      name: 'acme', orgId: org, mode: 'live', pricesMicros: {}, partitions: 4,
    })
    const requests = await accountsOf(old).requestSecret.obtain(Buffer.alloc(32, 9))
    expect(partner?.key).toBeDefined()

    const wraps = {
      jobKeys: 1,
      jobKeysInTopic: 1,
      jobKeysInClickhouse: 1,
      webhookSecrets: 3,
      partnerKeys: 1,
      requestSecrets: 1,
    }
    const none = {
      jobKeys: 0,
      jobKeysInTopic: 0,
      jobKeysInClickhouse: 0,
      webhookSecrets: 0,
      partnerKeys: 0,
      requestSecrets: 0,
    }
    const jobs = { ...none, jobKeys: 1, jobKeysInTopic: 1, jobKeysInClickhouse: 1 }
    expect(await reportKeys(partsOf(both))).toEqual({
      keys: [
        { kid: 'k1', inRing: true, isActive: false, wraps, isFree: false },
        { kid: 'k2', inRing: true, isActive: true, wraps: jobs, isFree: false },
      ],
      broken: 0,
      lacking: [],
    })
    expect((await reportKeys(partsOf(fresh))).lacking).toEqual(['k1'])
    expect(await rewrapAll(partsOf(fresh))).toMatchObject({ rewrapped: 0, lacking: ['k1'] })

    const done = await rewrapAll(partsOf(both))
    expect(done).toMatchObject({ rewrapped: 8, missed: 0, lacking: [], broken: 0 })
    expect(done.keys[0]).toEqual({
      kid: 'k1', inRing: true, isActive: false, wraps: none, isFree: true,
    })
    expect((await rewrapAll(partsOf(both))).rewrapped).toBe(0)
    const keys = createJobKeys({ redis, ring: fresh })
    expect([await keys.get(tenant, 'job_1'), await keys.get(tenant, 'job_2')])
      .toEqual([first, second])
    const inTopic = await keysInTopic({ bus, codec })(tenant, 'job_1') ?? Buffer.alloc(0)
    expect(kidOf(inTopic)).toBe('k2')
    expect(copied.map(({ job, wrapped }) => [job, kidOf(wrapped)]).toSorted())
      .toEqual([['job_1', 'k2'], ['job_2', 'k2']])
    expect(await accountsOf(fresh).signingKeys.active(org)).toEqual([signingKey])
    expect(await accountsOf(fresh).webhookSecrets.active(org))
      .toEqual([rotated, secret])
    expect(await accountsOf(fresh).partners.keysOf('acme'))
      .toEqual(await accountsOf(both).partners.keysOf('acme'))
    expect(await accountsOf(fresh).requestSecret.obtain(Buffer.alloc(32)))
      .toEqual(requests)
    expect(await redis.pttl(jobKeys(tenant, 'job_1').dataKey)).toBeGreaterThan(3_000_000)
  })

  it('is not guessed from bytes that were never wrapped', async () => {
    await redis.set(jobKeys('org_9.live', 'job_broken').dataKey, Buffer.of(0))
    expect((await reportKeys(partsOf(ringOf([1, 2], 2)))).broken).toBe(1)
    await redis.del(jobKeys('org_9.live', 'job_broken').dataKey)
  })
})

describe('a job that is erased', () => {
  const ring = ringOf([1, 2], 2)
  const old = ringOf([1], 1)

  it('loses its key in Redis and in its topic, and cannot get it back', async () => {
    await makeJob('job_3', old)
    const keys = createJobKeyEraser(stores)
    const jobs = ['job_3', 'job_4']
    expect(await keys.copiesInRedis({ tenant, jobs })).toEqual(new Map([['job_3', 1]]))
    const wrapped = await keys.remove({ tenant, jobs })
    expect(wrapped.get('job_3')?.map(kidOf)).toEqual(['k1', 'k1'])
    expect(await keys.copiesInRedis({ tenant, jobs })).toEqual(new Map())
    expect(await keys.copiesInClickhouse({ tenant, jobs })).toEqual(new Map([['job_3', 1]]))
    await keys.removeCopies({ tenant, jobs })
    expect(await keys.copiesInClickhouse({ tenant, jobs })).toEqual(new Map())
    expect(await keysInTopic({ bus, codec })(tenant, 'job_3')).toBeUndefined()
    // What is not compacted yet is a copy.
    expect(await keys.copiesInTopic(jobs)).toEqual(new Map([['job_3', 1]]))
    expect(await keys.copiesInDeadLetters(wrapped)).toEqual(new Map())
    const value = Buffer.concat([Buffer.from('a'), ...wrapped.get('job_3') ?? []])
    await producer.send([{ topic: 'settle.dead', key: 'job_3', value, headers: {} }])
    expect(await keys.copiesInDeadLetters(wrapped)).toEqual(new Map([['job_3', 1]]))
  })

  it('stays erased when its key is rewrapped concurrently', async () => {
    await makeJob('job_5', old)
    const keys = createJobKeyEraser(stores)
    const erased = { tenant, jobs: ['job_5'] }
    const before = [...copied]
    const { jobKeysInClickhouse } = wrappedKeySources(stores, ring)
    for (const found of [wrappedInTopic(stores), jobKeysInClickhouse()]) {
      for await (const { bytes, binding, replace } of found) {
        if (binding[2] !== 'job_5') continue
        await keys.remove(erased)
        await keys.removeCopies(erased)
        expect(await replace(ring.rewrap(bytes, binding) ?? bytes)).toBe(false)
      }
      expect(copied.map(({ job }) => job)).not.toContain('job_5')
      copied.splice(0, copied.length, ...before)
    }
    expect(await keysInTopic({ bus, codec })(tenant, 'job_5')).toBeUndefined()
    for await (const { binding } of wrappedInRedis(redis)) expect(binding[2]).not.toBe('job_5')
  })

  it('is removed from the append-only file, even during a rewrite of it', async () => {
    const key = createJobKeyEraser(stores)
    expect(await key.rewriteAof()).toBe('none')
    await redis.config('SET', 'appendonly', 'yes')
    expect(await key.rewriteAof()).toBe('rewritten')
    expect(await redis.info('persistence')).toContain('aof_last_bgrewrite_status:ok')
  })
})
