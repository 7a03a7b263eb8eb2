import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { readdirSync, readFileSync } from 'node:fs'
import { organizationKeysKey } from '../support/keys/organization-keys.ts'
import { createClient, type Client } from '../../services/client/client.ts'
import { createTopicReader } from '../../services/runtime/kafka/topic-reader.ts'
import { fetchSamples } from '../../services/runtime/platform/metrics.ts'
import { createPauses } from '../../services/admin/pause.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { createDemo } from '../../services/admin/demo.ts'
import { runJob } from '../support/stacks/environment.ts'
import { eventually } from '../support/eventually.ts'
import { loseKeys } from '../support/organizations.ts'
import { startAlone, type RunningServices } from '../support/stacks/services.ts'
import { testStack } from '../support/stacks/stack.ts'
import { openWorkspaceCommands } from '../support/workspace.ts'

const { env, servicesDir } = testStack()
const redis = openRedis(env.REDIS_STATE_URL ?? '')
const { workspace } = openWorkspaceCommands(env)
const request = { service: 'phone-validation', inputs: ['+12127365001', 'nonsense'] } as const

let services: RunningServices
let orgId: string
let client: Client
beforeAll(async () => {
  services = await startAlone({
    env,
    servicesDir,
    stages: ['ingest', 'normalize', 'lookup', 'verify', 'settle', 'ledger'],
    apart: ['ledger', 'verify'],
    // It is asked for results until its process reads the keys again.
    overrides: { LIMIT_GET: '1000000', STALLED_AFTER_MS: '4000', CHECK_EVERY_MS: '1000' },
  })
  const demo = await createDemo(env)
  orgId = demo.orgId
  client = createClient({ baseUrl: services.baseUrl, apiKey: demo.keys.live, retries: 0 })
})
afterAll(async () => {
  await services?.stop()
  redis.disconnect()
})

/** What the topic has of the organization; a test stack and its ledger may both ship it. */
async function keysInTopic (): Promise<ReadonlySet<string>> {
  const found = new Set<string>()
  const brokers = (env.KAFKA_BROKERS ?? '').split(',')
  await createTopicReader({ brokers, clientId: 'test' }).read('organization.keys', messages => {
    for (const { key, value } of messages) {
      if (String(key).startsWith(orgId)) found.add(`${key} ${value?.toString('base64')}`)
    }
  })
  return found
}

/** The organizations without keys, as ledger reports them; other files of this stack have some. */
async function withoutKeys (): Promise<number> {
  const query = { names: new Set(['organizations_without_keys']), timeoutMs: 1_000 }
  const samples = await Promise.all(
    services.list().map(({ metricsUrl }) => fetchSamples(metricsUrl, query)))
  return Math.max(0, ...samples.flatMap(found => found ?? []).map(({ value }) => value))
}

it('keys of an organization that vanish from a running Redis are never replaced', async () => {
  const { created: { id } } = await runJob(client, request)
  const results = await client.results(id)
  const [balance, inTopic] = [await client.balance(), await keysInTopic()]
  expect(inTopic.size).toBe(3)

  await services.setScale({ ledger: 0 })
  await redis.del(organizationKeysKey(orgId))
  await eventually(() => expect(client.results(id)).rejects.toMatchObject({ status: 503 }))
  await expect(client.createJob(request)).rejects.toMatchObject({
    status: 503, message: expect.stringContaining('nothing was reserved or charged'),
  })
  const refused = workspace(env, 'keys', 'rotate', '--org', orgId)
  await expect(refused).rejects.toThrow(`the state Redis lacks keys of organization ${orgId}: ` +
    'partners.1, results.1, webhooks.1. Restart every ledger')
  expect(await workspace(env, 'keys', 'list')).toMatchObject({
    lacking: expect.arrayContaining([`keys of ${orgId}`]),
  })
  expect(process.exitCode).toBe(1)
  process.exitCode = undefined
  expect(await client.balance()).toEqual(balance)
  expect(await redis.exists(organizationKeysKey(orgId))).toBe(0)
  expect(await keysInTopic()).toEqual(inTopic)

  // The next leader restores them, as after a restart of Redis.
  await services.setScale({ ledger: 1 })
  await eventually(async () => expect(await client.results(id)).toBe(results))
  const { rows } = await runJob(client, request)
  expect(rows.map(({ status }) => status)).toEqual(['valid', 'invalid'])
  expect(await keysInTopic()).toEqual(inTopic)
  expect(await workspace(env, 'keys', 'rotate', '--org', orgId)).toMatchObject({ version: 2 })
  await eventually(async () => expect((await keysInTopic()).size).toBe(6))
  const rotated = await redis.hgetall(organizationKeysKey(orgId))

  // A leader restores them while it runs.
  await redis.del(organizationKeysKey(orgId))
  await eventually(async () => {
    expect(Object.keys(await redis.hgetall(organizationKeysKey(orgId))).toSorted())
      .toEqual(Object.keys(rotated).toSorted())
  })
  expect(await client.results(id)).toBe(results)
})

it('keys rewrap names a damaged key on stderr, and ends with an error', async () => {
  const damaged = await createDemo(env)
  const name = organizationKeysKey(damaged.orgId)
  const text = await redis.hget(name, 'results/1') ?? ''
  await redis.hset(name, 'results/1', text.replace(/.{4}"/, 'AAAA"'))
  const errors = vi.spyOn(console, 'error').mockImplementation(() => {})
  const key = `key results.1 of ${damaged.orgId}`
  expect(await workspace(env, 'keys', 'rewrap'))
    .toMatchObject({ damaged: expect.arrayContaining([key]), missed: 0 })
  expect(errors.mock.calls.flat())
    .toContainEqual(expect.stringMatching(`^${key} is damaged: .*Restart every ledger`))
  expect(process.exitCode).toBe(1)
  process.exitCode = undefined
  errors.mockRestore()
  await redis.hset(name, 'results/1', text)
})

it('an organization without keys in any store delays no other until its erasure', async () => {
  const lost = await createDemo(env)
  const customer = createClient({
    baseUrl: services.baseUrl, apiKey: lost.keys.live, retries: 0,
  })
  const pauses = createPauses(redis)
  const log = () => readdirSync(services.dataDir, { recursive: true, encoding: 'utf8' })
    .filter(name => name.includes('verify') && name.endsWith('.log'))
    .map(name => readFileSync(`${services.dataDir}/${name}`, 'utf8')).join('')
  await pauses.pause({ stage: 'verify', by: 'test', reason: 'holds the job' })
  await eventually(() => expect(log()).toContain('stage paused'))
  await customer.createJob(request)
  await eventually(async () => expect((await customer.balance()).reservedMicros).toBeGreaterThan(0))
  await loseKeys(env, lost.orgId)
  await pauses.resume('verify')
  await eventually(() => expect(log()).toContain(`organization ${lost.orgId} has no key`))
  await eventually(async () => expect(await withoutKeys()).toBeGreaterThan(0))
  const { rows } = await runJob(client, request)
  expect(rows.map(({ status }) => status)).toEqual(['valid', 'invalid'])
  // The old segment of the topic still has what the tombstones delete, so it is not done.
  const words = ['org', 'erase', '--org', lost.orgId, '--yes', '--wait-minutes', '1']
  expect(await workspace(env, ...words))
    .toMatchObject({ copiesInRedis: 0, recordsInCache: 0, openJobs: 0 })
  process.exitCode = undefined
  expect(await workspace(env, 'balance', '--org', lost.orgId))
    .toMatchObject({ availableMicros: 1_000_000_000, reservedMicros: 0, chargedMicros: 0 })
})
