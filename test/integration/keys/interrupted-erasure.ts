import { expect, it } from 'vitest'
import { createApiKeys } from '../../../services/accounts/api-keys.ts'
import { organizationKeyTombstone } from '../../../services/accounts/account-topics.ts'
import { indexKeysIn } from '../../../services/accounts/records.ts'
import { countTenantRecords, redisRecordCache } from '../../../services/cache/cache.ts'
import type { Stores } from '../../../services/admin/deps.ts'
import { eraseJobs } from '../../../services/admin/erasure.ts'
import { jobRedisKeys } from '../../../services/jobs/job-record.ts'
import { createJobStore } from '../../../services/jobs/store.ts'
import { toTombstone } from '../../../services/jobs/wrapped-keys.ts'
import { createWallet } from '../../../services/money/wallet.ts'
import {
  createOrganization, erase, processWith, rootsOf,
} from '../../support/keys/key-processes.ts'
import { accepted, acceptRequest, blockOf, upTo } from '../../support/jobs.ts'
import { cachedRecord } from '../../support/stage-messages.ts'
import { peopleOn } from '../../support/page/stored-people.ts'
import { bus, keyStore, organizations, redis, stores } from '../../support/keys/wrapped-keys.ts'

const roots = rootsOf(1)
const apiKeys = createApiKeys(redis)
const people = peopleOn(redis)
const cache = redisRecordCache(redis)
const { partners } = processWith(roots)

/** An organization with something of everything that an erasure ends or deletes. */
async function createCustomer (name: string) {
  const orgId = await createOrganization(roots)
  const tenant = `${orgId}.live`
  const email = `${name}@example.com`
  const { secret } = await apiKeys.create({
    orgId, mode: 'live', scopes: ['jobs:read'], createdBy: 'operator',
  })
  await people.add(orgId, { email, role: 'owner', createdBy: 'operator' })
  const [indexKey = ''] = indexKeysIn(
    await redis.hget(`{global}:org:${orgId}`, 'peopleIndex') ?? undefined)
  expect(await redis.smembers(indexKey)).toEqual([orgId])
  await partners.create({ name, orgId, mode: 'live', pricesMicros: {}, partitions: 1 })
  await cache.store(
    { tenant, service: 'whatsapp', version: '1' }, Buffer.alloc(16, 0xff), [cachedRecord()])
  /** What an erasure leaves. */
  const left = async () => ({
    key: (await createApiKeys(redis).findKey(secret, '192.0.2.1')).kind,
    creators: (await apiKeys.list(orgId)).map(({ createdBy }) => createdBy),
    people: await redis.hmget(`{global}:org:${orgId}`, 'people', 'peopleIndex'),
    indexed: await redis.sismember(indexKey, orgId),
    isRevoked: (await partners.find(name))?.revokedAtMs !== 0,
    keys: (await keyStore.read(orgId)).length,
    inTopic: await bus.lastValue('organization.keys', String(
      organizationKeyTombstone(orgId, { class: 'results', version: 1 }).key)),
    records: await countTenantRecords(redis, tenant),
  })
  return { orgId, left }
}

const NOTHING = {
  key: 'revoked',
  creators: [''],
  people: ['', '[]'],
  indexed: 0,
  isRevoked: true,
  keys: 0,
  inTopic: undefined,
  records: 0,
}

it('an erasure that is interrupted before any step is completed by a repetition', async () => {
  const steps: string[] = []
  const other = await createCustomer('other')
  const { orgId, left } = await createCustomer('complete')
  await erase(orgId, line => { steps.push(line) })
  expect(await left()).toEqual(NOTHING)
  expect(steps.length).toBeGreaterThan(5)
  for (const [index, step] of steps.entries()) {
    const customer = await createCustomer(`interrupted-${index}`)
    const stopBefore = (line: string) => { if (line === step) throw new Error('interrupted') }
    await expect(erase(customer.orgId, stopBefore)).rejects.toThrow('interrupted')
    const before = (await organizations.find(customer.orgId))?.erasedAtMs
    expect(before === undefined).toBe(index === 0)
    await erase(customer.orgId)
    expect(await customer.left()).toEqual(NOTHING)
    // The time of the first attempt stays.
    const after = (await organizations.find(customer.orgId))?.erasedAtMs
    expect(after).toBe(before ?? after)
  }
  expect(await other.left())
    .toMatchObject({ key: 'ok', creators: ['operator'], isRevoked: false, keys: 3, records: 1 })
  await erase(other.orgId)
})

it('jobs are erased after their end, once no process has their keys in memory', async () => {
  const store = createJobStore(redis)
  const [tenant, other] = ['org_erasing.live', 'org_erasing.test']
  for (const name of [tenant, other]) {
    await createWallet(redis).topUp(name, { id: 'a', amountMicros: 1_000_000, reason: '' })
  }
  for (const job of ['job_e1', 'job_e2']) await accepted(store, tenant, acceptRequest(job))
  await accepted(store, other, acceptRequest('job_e3'))
  const steps: string[] = []
  const erase = (waitMs: number) => eraseJobs({
    ...stores as unknown as Stores,
    sleep: async ms => {
      const hasKey = await redis.exists(jobRedisKeys(tenant, 'job_e1').dataKey) === 1
      steps.push(`${Math.ceil(ms / 1_000)} s ${hasKey ? 'with' : 'without'} the key`)
      for (const job of ['job_e1', 'job_e2']) {
        const block = blockOf({ job, chunkRows: 10, inputs: true }, { cancelled: upTo(10) })
        await store.tally(tenant, block)
        await store.close(tenant, job)
      }
    },
  }, { tenant, jobs: ['job_e1', 'job_e2'], waitMs })
  await expect(erase(0)).rejects.toThrow('cancelled, but not closed within 0 minutes: job_e1, ' +
    'job_e2. Nothing is erased. Run the command again.')
  expect(steps).toEqual([])
  const { jobs, ...erasure } = await erase(60_000)
  expect(erasure).toEqual({
    done: true,
    aof: 'none',
    note: 'Redis keeps no append-only file; delete its snapshots by hand.',
  })
  expect(jobs).toEqual(['job_e1', 'job_e2'].map(job => ({
    job,
    status: 'cancelled',
    copiesInRedis: 0,
    copiesInTopic: 0,
    copiesInClickhouse: 0,
    copiesInDeadLetters: 0,
  })))
  expect(steps).toEqual(['1 s with the key', '5 s without the key'])
  expect((await store.read(other, 'job_e3'))?.status).toBe('queued')
  await redis.del(jobRedisKeys(other, 'job_e3').dataKey)
})

it('jobs whose keys brokers have not deleted yet are left to a repetition', async () => {
  const store = createJobStore(redis)
  const [tenant, job] = ['org_erasing.live', 'job_e4']
  await accepted(store, tenant, acceptRequest(job))
  await store.cancel(tenant, job)
  await store.tally(
    tenant, blockOf({ job, chunkRows: 10, inputs: true }, { cancelled: upTo(10) }))
  await store.close(tenant, job)
  const value = await stores.codec.encode(
    'job.keys-value', { tenant, job, wrapped: Buffer.from('wrapped') })
  const { topic, key, headers } = toTombstone(tenant, job)
  await stores.producer.send([{ topic, key, headers, value }])
  const erasure = await eraseJobs(
    { ...stores as unknown as Stores, sleep: async () => {} }, { tenant, jobs: [job], waitMs: 0 })
  expect(erasure).toMatchObject({
    done: false,
    note: expect.stringContaining('run the command again'),
    jobs: [{ copiesInTopic: 1 }],
  })
  await stores.producer.send([toTombstone(tenant, job)])
})
