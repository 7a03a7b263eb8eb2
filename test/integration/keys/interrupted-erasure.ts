import { expect, it } from 'vitest'
import { createApiKeys } from '../../../services/accounts/api-keys.ts'
import { organizationKeyTombstone } from '../../../services/accounts/organization-keys-topic.ts'
import { indexKeysIn } from '../../../services/accounts/person-index.ts'
import { countTenantRecords, redisRecordCache } from '../../../services/cache/cache.ts'
import { erase } from '../../support/keys/erase-organization.ts'
import { createOrganization, processWith, rootsOf } from '../../support/keys/key-processes.ts'
import { cachedRecord } from '../../support/stage-doubles.ts'
import { peopleOn } from '../../support/page/stored-people.ts'
import { bus, keyStore, organizations, redis } from '../../support/keys/wrapped-keys.ts'

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
})
