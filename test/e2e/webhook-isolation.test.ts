import { expect, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { createClient, type Client } from '../../services/client/client.ts'
import { Clickhouse } from '../../services/runtime/platform/clickhouse.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { eventually } from '../support/eventually.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'
import { createTestKey, newOrganization } from '../support/organizations.ts'
import { startEnvironment } from '../support/stacks/environment.ts'
import { stackEnv } from '../support/stacks/stack.ts'

const TENANTS = 10
/** Slots are exhausted many times over by fewer, too; posting them is what takes time. */
const HOSTS_OF_EACH = process.env['TEST_TIER'] === 'full' ? 100 : 30
const WAIT_MS = 2_000
/** So long that none is given up before the last of them hangs, on a slow machine too. */
const TIMEOUT_MS = 450_000
const HEALTHY = 12
/** Far fewer than hang: it is not their number that keeps the others from waiting. */
const QUICK_SLOTS = 30

const env = stackEnv()
const redis = closeAfterAll(openRedis(env.REDIS_STATE_URL ?? ''))
const clickhouse = closeAfterAll(new Clickhouse(env.CLICKHOUSE_URL ?? ''))

/** Each ends one request that was left without an answer. */
const hanging: (() => unknown)[] = []
/** Leaves the first request to `/hang` of each host without an answer; later ones fail. */
const hung = new Set<string>()
const receiver = await startReceiver((response, { path, headers }) => {
  const fail = () => response.writeHead(503).end()
  if (path !== '/hang') response.writeHead(200).end()
  else if (hung.has(String(headers.host))) fail()
  else hanging.push(fail)
  hung.add(String(headers.host))
}, '0.0.0.0')

type Tenant = { readonly tenant: string, readonly client: Client }
const environment = closeAfterAll(await startEnvironment({
  WEBHOOK_WAITS_MS: JSON.stringify([WAIT_MS]),
  WEBHOOK_TIMEOUT_MS: String(TIMEOUT_MS),
  WEBHOOK_LEASE_MS: String(TIMEOUT_MS + 5_000),
  WEBHOOK_SLOTS: String(QUICK_SLOTS),
  WEBHOOK_SLOW_SLOTS: '1500',
  WEBHOOK_SLOW_AFTER_MS: '250',
  LIMIT_POST_BURST: '100000',
  LIMIT_POST_SUSTAINED: '100000',
  MAX_PREFLIGHTS: '100',
}, { stages: ['ingest', 'deliver'] }))
const tenants = await Promise.all(Array.from({ length: TENANTS }, newTenant))
async function newTenant (): Promise<Tenant> {
  const orgId = await newOrganization(environment.env)
  const apiKey = await createTestKey(redis, orgId)
  const client = createClient({ baseUrl: environment.baseUrl, apiKey })
  return { tenant: tenantOf(orgId, 'test'), client }
}

/** A job without fresh rows, so that it ends at once. */
async function startJob (client: Client, webhookUrl: string): Promise<string> {
  const job = await client.createJob({
    service: 'phone-validation', inputs: ['nonsense'], webhook_url: webhookUrl,
  })
  return job.id
}

const urlOf = (host: string, path: string) => `http://${host}:${receiver.port}${path}`

/** Of every event of these tenants, how often it ended in each way; `failed` is no end. */
async function endsOf (names: readonly string[]): Promise<Readonly<Record<string, number>>> {
  const rows = await clickhouse.rows<{ last: string, events: string }>(`
    SELECT last, toString(count()) AS events FROM (
      SELECT event, argMax(outcome, attempt) AS last FROM deliveries
      WHERE tenant IN {names:Array(String)} GROUP BY event) GROUP BY last`, { names })
  return Object.fromEntries(rows.map(({ last, events }) => [last, Number(events)]))
}

/** Resolves once the events of so many jobs have come to a receiver that is well. */
async function untilHealthyCame (clients: readonly Client[]): Promise<void> {
  await Promise.all(Array.from({ length: HEALTHY }, async (_, index) => {
    const path = `/healthy${index}`
    await startJob(clients[index % clients.length]!, urlOf('127.8.8.8', path))
    await receiver.until(1, path)
  }))
}

it('receivers that hang, many more than there are slots, ' +
  'delay no healthy one, and all end with their history, though deliver is killed', async () => {
  const clients = tenants.map(({ client }) => client)
  const names = tenants.map(({ tenant }) => tenant)
  const hosts = Array.from({ length: TENANTS * HOSTS_OF_EACH }, (_, index) => index)
  const left = hosts.values()
  await Promise.all(Array.from({ length: 16 }, async () => {
    for (const index of left) {
      const [tenant, host] = [index % TENANTS, Math.floor(index / TENANTS)]
      await startJob(clients[tenant]!, urlOf(`127.3.${tenant}.${1 + host}`, '/hang'))
    }
  }))
  await expect.poll(() => hanging.length).toBe(hosts.length)
  // No slot becomes free meanwhile: each hanging request waits until it is released.
  await untilHealthyCame(clients)
  expect(hanging).toHaveLength(hosts.length)

  // All of them wait for their last attempt when the one who makes it is killed.
  for (const letGo of hanging.splice(0)) letGo()
  await eventually(async () => {
    environment.services.kill('deliver-1', 'SIGSTOP')
    const underWay = await redis.zcard('leases:{deliveries}')
    if (underWay > 0) environment.services.kill('deliver-1', 'SIGCONT')
    expect(underWay).toBe(0)
  })
  environment.services.kill('deliver-1', 'SIGKILL')
  await environment.services.untilReady()
  const ends = async () => (await endsOf(names)).exhausted ?? 0
  await expect.poll(ends, { interval: 250 }).toBe(hosts.length)
  expect(await endsOf(names)).toEqual({ delivered: HEALTHY, exhausted: hosts.length })
})
