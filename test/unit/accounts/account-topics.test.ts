import { expect, it } from 'vitest'
import { ERASED_FIELD } from '../../../services/accounts/organization-keys.ts'
import { organizationKeysKey } from '../../support/keys/organization-keys.ts'
import { accountKey } from '../../../services/accounts/records.ts'
import { restoreLostKeys } from '../../../services/accounts/account-topics.ts'
import { createLog } from '../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { KEY_CLASSES } from '../../../services/topology.ts'
import { codec } from '../../support/clickhouse/results.ts'
import { workerRedis as redis, emptyRedis } from '../../support/redis/worker.ts'

const { signal } = new AbortController()

const versionOfEach = (version: number) => KEY_CLASSES.map(name => `${name}/${version}`)

/** Redis with keys of some organizations, and a topic with version 1 of each class of others. */
async function setUp (
  inRedis: Readonly<Record<string, readonly string[]>>, inTopic: readonly string[]
) {
  await emptyRedis()
  for (const [orgId, names] of Object.entries(inRedis)) {
    const fields = names.map(name => [name, JSON.stringify(['', '', 0])])
    await redis.hset(organizationKeysKey(orgId), Object.fromEntries(fields))
  }
  const messages = await Promise.all(inTopic.flatMap(organization => KEY_CLASSES.map(async name => {
    const bytes = Buffer.from('key')
    const value = {
      organization, class: name, version: 1, wrapped: bytes, public: bytes, createdAt: 7,
    }
    return {
      key: Buffer.from(`${organization}:${name}:1`),
      value: await codec.encode('organization.keys-value', value),
    }
  })))
  let reads = 0
  const whileRead = { act: async () => {} }
  const reader = {
    read: async (_topic: string, onMessages: (messages: never) => unknown) => {
      reads += 1
      await onMessages(messages as never)
      await whileRead.act()
      return new Map()
    },
  }
  const restore = async (ids: readonly string[]) => await restoreLostKeys({
    redis,
    reader,
    codec,
    metrics: createMetrics(),
    log: createLog('test', { level: 'silent' }),
    tenants: { all: async () => ids.flatMap(id => [`${id}.live`, `${id}.test`]) },
  }, signal)
  const keysOf = async (orgId: string) => await redis.hgetall(organizationKeysKey(orgId))
  return { restore, keysOf, whileRead, reads: () => reads }
}

it('ledger restores keys that Redis has lost, and none that a newer version replaced', async () => {
  const { restore, keysOf } = await setUp(
    { org_whole: versionOfEach(2), org_partial: versionOfEach(1).slice(1) },
    ['org_whole', 'org_partial', 'org_none'])
  const [whole, before] = [await keysOf('org_whole'), await keysOf('org_partial')]
  expect(await restore(['org_whole', 'org_partial', 'org_none', 'org_nowhere'])).toBe(1)
  expect(await keysOf('org_whole')).toEqual(whole)
  const restored = JSON.stringify([btoa('key'), btoa('key'), 7])
  const [lost, ...kept] = KEY_CLASSES
  const partial = await keysOf('org_partial')
  expect(partial[`${lost}/1`]).toBe(restored)
  for (const name of kept) expect(partial[`${name}/1`]).toBe(before[`${name}/1`])
  const none = await keysOf('org_none')
  for (const name of KEY_CLASSES) {
    expect(none[`${name}/1`]).toBe(restored)
    expect(none[`${name}/1/shipped`]).toMatch(/^\d+$/)
  }
})

it('ledger reads no topic while no keys are lost, or those of erased organizations', async () => {
  const { restore, reads } = await setUp(
    { org_whole: versionOfEach(1) }, ['org_erased'])
  await redis.hset(accountKey('org:org_erased'), { [ERASED_FIELD]: '1' })
  expect([await restore(['org_whole', 'org_erased']), reads()]).toEqual([0, 0])
})

it('ledger restores no keys of an organization that is erased meanwhile', async () => {
  const { restore, keysOf, whileRead } = await setUp({}, ['org_lost'])
  whileRead.act = async () => {
    await redis.hset(accountKey('org:org_lost'), { [ERASED_FIELD]: '1' })
  }
  expect(await restore(['org_lost'])).toBe(0)
  expect(await keysOf('org_lost')).toEqual({})
})
