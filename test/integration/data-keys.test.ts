import { describe, expect, it } from 'vitest'
import { JobKeyLostError } from '../../services/jobs/job-keys.ts'
import { jobKeys } from '../../services/jobs/redis-keys.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { acceptClaimed, acceptRequest, jobClaim } from '../support/jobs.ts'
import { expectLifetime } from '../support/lifetime.ts'
import { jobKeysOf } from '../support/keys/organization-keys.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis } = await startRedis()
const store = createJobStore(redis)
let tenants = 0

async function fundedTenant (amountMicros = 1_000_000): Promise<string> {
  const tenant = `org_${tenants += 1}.live`
  await createWallet(redis).topUp(tenant, { id: 'a', amountMicros, reason: '' })
  return tenant
}

describe('data keys', () => {
  it('are wrapped, and last three days from the claim on', async () => {
    const tenant = await fundedTenant()
    const { dataKey } = jobKeys(tenant, 'job_1')
    const { key, wrapped } = await jobKeysOf({ redis }).create(tenant, 'job_1')
    await expectLifetime(redis, { key: dataKey, ms: 72 * 3_600_000 }, async () =>
      await acceptClaimed(store, tenant, { ...acceptRequest('job_1'), wrappedKey: wrapped }))
    expect(await redis.getBuffer(dataKey)).toEqual(wrapped)
    expect(wrapped.includes(key)).toBe(false)
    const other = jobKeysOf({ redis })
    expect(await other.get(tenant, 'job_1')).toEqual(key)
    await redis.copy(dataKey, jobKeys(tenant, 'job_2').dataKey)
    await expect(other.get(tenant, 'job_2')).rejects.toThrow('decryption failed')
  })

  it('are deleted by a refusal', async () => {
    const tenant = await fundedTenant(1)
    for (const job of ['job_1', 'job_2']) {
      const { dataKey } = jobKeys(tenant, job)
      await store.claim(tenant, jobClaim(job))
      expect(await redis.exists(dataKey)).toBe(1)
      if (job === 'job_1') await store.refuse(tenant, job, 'internal')
      else await store.accept(tenant, acceptRequest(job))
      expect(await store.outcome(tenant, job)).toMatchObject({ kind: 'refused' })
      expect(await redis.exists(dataKey)).toBe(0)
    }
  })

  it('that are lost are restored only for a running job', async () => {
    const tenant = await fundedTenant()
    const { key, wrapped } = await jobKeysOf({ redis }).create(tenant, 'job_1')
    expect(await jobKeysOf({ redis }).get(tenant, 'job_1')).toBeUndefined()
    const isRunning = async () => true
    const lost = jobKeysOf({ redis, isRunning })
    await expect(lost.get(tenant, 'job_1')).rejects.toThrow(JobKeyLostError)
    const restoring = jobKeysOf({ redis, isRunning, restore: async () => wrapped })
    expect(await restoring.get(tenant, 'job_1')).toEqual(key)
    expect(await redis.getBuffer(jobKeys(tenant, 'job_1').dataKey)).toEqual(wrapped)
  })
})
