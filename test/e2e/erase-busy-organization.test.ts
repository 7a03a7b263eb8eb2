import { afterAll, expect, it } from 'vitest'
import { OrganizationErasedError } from '../../services/accounts/organization-keys.ts'
import { wrappedPeople } from '../../services/accounts/people.ts'
import { createDeliveryHistory } from '../../services/webhooks/deliveries.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { filesOfStores } from '../support/bytes.ts'
import { formsOf } from '../support/keys/canaries.ts'
import { compactAtOnce } from '../support/kafka/compaction.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { breachesOf, runJob, startEnvironment } from '../support/stacks/environment.ts'
import { eventually } from '../support/eventually.ts'
import { createTestPartner, feedContacts, sendTo } from '../support/feeds/partner.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'
import { webhookKeysIn } from '../support/keys/organization-keys.ts'
import { testStack } from '../support/stacks/stack.ts'
import { openWorkspaceCommands } from '../support/workspace.ts'
import { createApiKeys } from '../../services/accounts/api-keys.ts'
import { createClient, type Client } from '../../services/client/client.ts'
import type { RedisClient } from '../../services/runtime/platform/redis.ts'
import { createTestKey } from '../support/organizations.ts'
import { peopleIn } from '../support/page/stored-people.ts'

/** The address of the person that a busy customer has. */
const PERSON = 'erased.person@example.org'

/** The check of this number is unavailable for a quarter of an hour in test mode. */
const UNAVAILABLE = '+12127370005'

type Place = {
  readonly env: Record<string, string>
  readonly state: RedisClient
  readonly baseUrl: string
  readonly webhookUrl: string
}

/** A customer with a person, a partner, and a job of test mode that does not end by itself. */
async function createBusyCustomer ({ env, state, baseUrl, webhookUrl }: Place) {
  const partner = await createTestPartner(env, { usd: '1' })
  const { org: orgId } = partner
  const person = await peopleIn(env, state)
    .add(orgId, { email: PERSON, role: 'owner', createdBy: PERSON })
  const { secret } = await createApiKeys(state).create({
    orgId, mode: 'live', scopes: ['jobs:write', 'jobs:read'], createdBy: person?.id ?? '',
  })
  const clientOf = (apiKey: string): Client => createClient({ baseUrl, apiKey })
  const running = await clientOf(await createTestKey(state, orgId)).createJob({
    service: 'phone-validation', inputs: [UNAVAILABLE], webhook_url: webhookUrl,
  })
  return { partner, orgId, live: clientOf(secret), running }
}

const { env, brokers, clickhouse, recordMac, state, wallet } = connectAll()
const { dataDir } = testStack()
const { workspace } = openWorkspaceCommands(env)
const history = createDeliveryHistory(clickhouse, recordMac)

afterAll(await compactAtOnce(brokers))
// A delivery that fails stays under way for longer than an erasure takes.
const environment = closeAfterAll(await startEnvironment(
  { WEBHOOK_WAITS_MS: JSON.stringify(Array.from({ length: 600 }, () => 1_000)) },
  { stages: ['deliver'] }))

/** In how many files of each store the address of the person is, as text or in base64. */
const filesWithAddress = () => filesOfStores(dataDir, formsOf(PERSON))

/** The people are in Kafka, and their address is in no store. */
async function expectOnlyWrapped (people: Buffer): Promise<void> {
  const wrapped = Buffer.from(people.toString('base64'))
  await eventually(() => expect(filesOfStores(dataDir, [wrapped]).kafka).toBeGreaterThan(0))
  expect(filesWithAddress()).toEqual({ redis: 0, kafka: 0, clickhouse: 0 })
}

/** A customer whose receiver answers no event of a job that ended, and with a feed under way. */
async function createCustomer () {
  const receiver = await startReceiver(response => { response.writeHead(500).end() })
  const url = `http://127.0.0.1:${receiver.port}`
  const customer = await createBusyCustomer({
    env, state, baseUrl: environment.baseUrl, webhookUrl: `${url}/cancelled`,
  })
  const { job: ended } = await runJob(customer.live, {
    service: 'phone-validation', inputs: ['+12127370111'], webhook_url: `${url}/ended`,
  })
  await receiver.until(1, '/ended')
  await workspace(env, 'webhook-endpoint', 'create', '--org', customer.orgId,
    '--url', 'https://hooks.example.com/in', '--events', 'balance.low')
  await sendTo(customer.partner, ['+12127370222', '+12127370223', 'nonsense'])
  const sentTo = (path: string) => receiver.received.filter(one => one.path === path).length
  return { ...customer, ended, sentTo }
}

/** The last attempt was not made, and the receiver has seen those that it answered before. */
async function expectDiscarded (
  tenant: string, job: string, { sent, least }: { sent: () => number, least: number }
): Promise<void> {
  await eventually(async () => {
    const attempts = await history.list(tenant, job)
    expect(attempts.at(-1)).toMatchObject({ outcome: 'discarded', reason: 'erased' })
    // One that was not answered in time may not have reached the receiver.
    const answered = attempts.filter(({ httpStatus }) => httpStatus > 0)
    expect(answered.length).toBeLessThanOrEqual(sent())
    expect(answered.length).toBeGreaterThanOrEqual(least)
  })
}

it('an erasure ends jobs, a feed and a delivery that are under way, and settles them', async () => {
  const { orgId, ended, running, live, sentTo } = await createCustomer()
  const [piece] = (await wrappedPeople(state, orgId))[0]!.pieces
  await expectOnlyWrapped(piece.bytes)
  const erasure = await workspace<{ cancelledJobs: number }>(
    env, 'org', 'erase', '--org', orgId, '--yes', '--wait-minutes', '6')
  expect(erasure).toMatchObject({ done: true, openJobs: 0, recordsInCache: 0 })
  expect(erasure.cancelledJobs).toBeGreaterThan(0)
  // The topic keeps the record, which opens nowhere.
  await expectOnlyWrapped(piece.bytes)
  await expect(webhookKeysIn(env, state).unwrap(orgId, piece.bytes, piece.binding))
    .rejects.toThrow(OrganizationErasedError)

  // Each job is settled once: nothing is reserved, and what is not charged is available.
  for (const mode of ['live', 'test']) {
    const { reservedMicros, ...rest } = await wallet.balance(`${orgId}.${mode}`)
    expect([reservedMicros, rest.availableMicros + rest.chargedMicros])
      .toEqual([0, rest.fundedMicros])
  }
  await expectDiscarded(`${orgId}.live`, ended.id, { sent: () => sentTo('/ended'), least: 1 })
  // The erasure may come before the first attempt of the job that it cancels.
  await expectDiscarded(`${orgId}.test`, running.id, { sent: () => sentTo('/cancelled'), least: 0 })
  expect(await breachesOf(env, orgId)).toEqual([])

  // What meets it later says so.
  await expect(live.results(ended.id)).rejects.toMatchObject({ status: 401, code: 'revoked_key' })
  await expect(workspace(env, 'key', 'create', '--org', orgId))
    .rejects.toThrow(`organization ${orgId} was erased on 20`)
  expect(await workspace(env, 'webhook-endpoint', 'list', '--org', orgId))
    .toEqual({ endpoints: [] })
  const { lacking } =
    await workspace<{ readonly lacking: readonly string[] }>(env, 'keys', 'list')
  expect(lacking.filter(one => one.includes(orgId))).toEqual([])

  // Feeds of others go on.
  const other = await createTestPartner(env, { usd: '1' })
  const contact = { input: '+12127370333', reference: 'a', countryCode: undefined }
  expect((await feedContacts(other, [contact])).summary.results).toBe(1)
})
