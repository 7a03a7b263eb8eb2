import { afterAll, expect, it } from 'vitest'
import {
  OrganizationKeyStore, OrganizationErasedError,
} from '../../services/accounts/organization-keys.ts'
import { createWebhookSecrets } from '../../services/webhooks/secrets.ts'
import { countTenantRecords } from '../../services/cache/cache.ts'
import { createClient } from '../../services/client/client.ts'
import { connectJobKeys } from '../../services/jobs/job-keys.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import type { OrganizationErasure } from '../../services/admin/erasure.ts'
import { runAudit } from '../support/audit.ts'
import { filesOfStores } from '../support/bytes.ts'
import { compactAtOnce } from '../support/kafka/compaction.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { runJob, startEnvironment } from '../support/stacks/environment.ts'
import { eventually } from '../support/eventually.ts'
import { rootKeysIn, webhookKeysIn } from '../support/keys/organization-keys.ts'
import { createOrganizationWith, createTestKey } from '../support/organizations.ts'
import { testStack } from '../support/stacks/stack.ts'
import { openWorkspaceCommands } from '../support/workspace.ts'
import { closedKeys } from '../../services/jobs/wrapped-keys.ts'

const { env, brokers, connected, state } = connectAll()
const cache = closeAfterAll(openRedis(env.REDIS_CACHE_URL ?? ''))
const folder = testStack().dataDir
const { workspace } = openWorkspaceCommands(env)

afterAll(await compactAtOnce(brokers))
const environment = closeAfterAll(await startEnvironment())

const request = {
  service: 'phone-validation', inputs: ['+12127370111', 'nonsense'], metadata: { a: 'b' },
}

const erase = (orgId: string) => workspace<OrganizationErasure>(
  env, 'org', 'erase', '--org', orgId, '--yes', '--wait-minutes', '6')

/** In how many files of each store the wrapped keys are, as bytes or as base64. */
const places = (keys: readonly Buffer[]) =>
  filesOfStores(folder, keys.flatMap(key => [key, Buffer.from(key.toString('base64'))]))

/** A customer with a finished job and a webhook secret, and its wrapped keys. */
async function createCustomer () {
  const { orgId, keys } = await createOrganizationWith(env, { availableMicros: 1_000_000 })
  const client = createClient({ baseUrl: environment.baseUrl, apiKey: keys.live })
  const { job } = await runJob(client, request)
  const secrets = createWebhookSecrets({ redis: state, keys: webhookKeysIn(env, state) })
  await secrets.show(orgId)
  const wrapped = (await new OrganizationKeyStore(state).read(orgId)).map(key => key.wrapped)
  await eventually(() => expect(places(wrapped).kafka).toBeGreaterThan(0))
  expect(places(wrapped).redis).toBeGreaterThan(0)
  return { orgId, client, job, secrets, wrapped }
}

/** What opens the data keys of jobs with every root key there is, wherever they are stored. */
const dataKeyOf = (orgId: string, job: string) => connectJobKeys(
  { ...connected, state }, rootKeysIn(env), { part: 'results', findClosed: closedKeys(connected) }
).get(`${orgId}.live`, job)

it('an organization that is erased opens nowhere again, and others are untouched', async () => {
  const [erased, other] = [await createCustomer(), await createCustomer()]
  const testKey = await createTestKey(state, erased.orgId)
  const test = createClient({ baseUrl: environment.baseUrl, apiKey: testKey })
  // The check of this number is unavailable for a quarter of an hour in test mode.
  await test.createJob({ ...request, inputs: ['+12127370005'] })
  // The verdict of the number, which the live job left there.
  const cached = async () => await Promise.all([erased, other].map(({ orgId }) =>
    countTenantRecords(cache, `${orgId}.live`)))
  expect(await cached()).toEqual([1, 1])
  expect(await dataKeyOf(erased.orgId, erased.job.id)).toHaveLength(32)
  expect(await erase(erased.orgId)).toMatchObject({
    done: true,
    cancelledJobs: 1,
    deletedRecords: 1,
    aof: 'rewritten',
    copiesInRedis: 0,
    copiesInTopic: 0,
    recordsInCache: 0,
    openJobs: 0,
  })
  expect(await cached()).toEqual([0, 1])

  await eventually(() => {
    expect(places(erased.wrapped)).toEqual({ redis: 0, kafka: 0, clickhouse: 0 })
  })
  await eventually(async () =>
    expect(await dataKeyOf(erased.orgId, erased.job.id)).toBeUndefined())
  await expect(erased.secrets.active(erased.orgId)).rejects.toThrow(OrganizationErasedError)
  await expect(erased.client.results(erased.job.id)).rejects.toMatchObject({ status: 401 })

  expect(places(other.wrapped).kafka).toBeGreaterThan(0)
  expect(await dataKeyOf(other.orgId, other.job.id)).toHaveLength(32)
  expect(String(await other.client.results(other.job.id))).toContain('+12127370111')
  const only = [erased, other].map(({ orgId }) => `${orgId}.live`)
  expect((await runAudit(env, { only })).breaches).toEqual([])
  // Repeating it is harmless.
  expect(await erase(erased.orgId)).toMatchObject({ done: true, deletedRecords: 0 })
})
