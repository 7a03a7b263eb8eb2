import { describe, expect, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { createClient, type Client } from '../../services/client/client.ts'
import { type Attempt, createDeliveryHistory } from '../../services/webhooks/deliveries.ts'
import { connectClickhouse } from '../../services/runtime/platform/clickhouse.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { eventually } from '../support/eventually.ts'
import { startOddReceivers } from '../support/webhooks/odd-receivers.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'
import { createTestKey, newOrganization } from '../support/organizations.ts'
import { recordMacOf } from '../support/keys/signed.ts'
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
const clickhouse = closeAfterAll(connectClickhouse(env.CLICKHOUSE_URL ?? ''))
const history = createDeliveryHistory(clickhouse, recordMacOf(env))

/** Each ends one request that was left without an answer. */
const hanging: (() => void)[] = []
/** The path says what is answered, one status an attempt: `/hang,503`; the last one stays. */
const receiver = await startReceiver((response, { path, headers }) => {
  const statuses = path.slice(1).split('?')[0]?.split(',') ?? []
  const place = `${headers.host}${path}`
  const tries = (triesOf.get(place) ?? 0) + 1
  triesOf.set(place, tries)
  const status = statuses[tries - 1] ?? statuses.at(-1) ?? '200'
  if (status === 'hang') {
    hanging.push(() => response.writeHead(503).end())
    return
  }
  if (status.startsWith('3')) response.setHeader('location', '/no')
  if (status === '429') response.setHeader('retry-after', '86400')
  response.writeHead(Number(status)).end()
}, '0.0.0.0')
const triesOf = new Map<string, number>()
const odd = await startOddReceivers()

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
const other = await newTenant()
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

/** The attempts of a job, once the last one is final. */
async function historyOf (tenant: string, job: string): Promise<readonly Attempt[]> {
  let attempts: readonly Attempt[] = []
  await expect.poll(async () => {
    attempts = await history.list(tenant, job)
    return attempts.at(-1)?.outcome ?? 'failed'
  }, { interval: 100 }).not.toBe('failed')
  return attempts
}

const summaryOf = (attempts: readonly Attempt[]) =>
  attempts.map(({ outcome, reason, httpStatus }) => [outcome, reason, httpStatus])

/** Of every event of these tenants, how often it ended in each way; `failed` is no end. */
async function endsOf (names: readonly string[]): Promise<Readonly<Record<string, number>>> {
  const answer = await clickhouse.query({
    query: `SELECT last, toString(count()) AS events FROM (
      SELECT event, argMax(outcome, attempt) AS last FROM deliveries
      WHERE tenant IN {names:Array(String)} GROUP BY event) GROUP BY last`,
    query_params: { names },
    format: 'JSONEachRow',
  })
  const rows = await answer.json<{ last: string, events: string }>()
  return Object.fromEntries(rows.map(({ last, events }) => [last, Number(events)]))
}

/** Resolves once the events of so many jobs have come to a receiver that is well. */
async function untilHealthyCame (label: string, clients: readonly Client[]): Promise<void> {
  await Promise.all(Array.from({ length: HEALTHY }, async (_, index) => {
    const path = `/200?${label}${index}`
    await startJob(clients[index % clients.length]!, urlOf('127.8.8.8', path))
    await receiver.until(1, path)
  }))
}

const deliverMetrics = async () => {
  const url = environment.services.list().find(({ name }) => name === 'deliver-1')?.metricsUrl ?? ''
  return await (await fetch(url)).text()
}

const CLOSED = ['connection_error', 0] as const
const twice = (reason: string, status: number) => [
  ['failed', reason, status], ['exhausted', reason, status],
]

/** The outcomes of receivers with unusual responses. */
const ODD: Readonly<Record<string, readonly (readonly (string | number)[])[]>> = {
  'sends a gigabyte': [['delivered', '', 200]],
  'sends a bomb': [['delivered', '', 200]],
  'sends headers without end': twice(...CLOSED),
  'changes the protocol': twice(...CLOSED),
  'is garbage': twice(...CLOSED),
  'leaves at once': twice(...CLOSED),
  resets: twice(...CLOSED),
  'resets in its body': [['delivered', '', 200]],
}

const STATUSES: Readonly<Record<string, readonly (readonly (string | number)[])[]>> = {
  '/204': [['delivered', '', 204]],
  '/410': [['gone', 'status', 410]],
  '/503,410': [['failed', 'status', 503], ['gone', 'status', 410]],
  '/429': twice('status', 429),
  '/301': twice('redirect', 301),
  '/302': twice('redirect', 302),
  '/303,307': [['failed', 'redirect', 303], ['exhausted', 'redirect', 307]],
  '/308,200': [['failed', 'redirect', 308], ['delivered', '', 200]],
  '/404,500': [['failed', 'status', 404], ['exhausted', 'status', 500]],
}

describe('a misbehaving receiver', () => {
  it('is held to the limits, and its event reaches an outcome', async () => {
    const { tenant, client } = other
    const cases = [
      ...Object.entries(ODD).map(([name, expected], index) =>
        [name, `http://127.2.1.${1 + index}:${odd.ports[name]}/`, expected] as const),
      ...Object.entries(STATUSES).map(([path, expected], index) =>
        [path, urlOf(`127.2.2.${1 + index}`, path), expected] as const),
      ['no trust', `https://127.2.3.1:${odd.ports['is not trusted']}/`, twice('tls_error', 0)],
      ['no TLS', `https://127.2.3.2:${receiver.port}/`, twice('tls_error', 0)],
      ['closed port', 'http://127.2.3.4:1/', twice(...CLOSED)],
    ] as const
    const ended = await Promise.all(cases.map(async ([name, url]) => {
      const attempts = await historyOf(tenant, await startJob(client, url))
      return [name, attempts] as const
    }))
    expect(ended.map(([name, attempts]) => [name, summaryOf(attempts)]))
      .toEqual(cases.map(([name, , expected]) => [name, expected]))
    // A day's wait was not granted.
    const [limited] = ended.find(([name]) => name === '/429')?.[1] ?? []
    expect((limited?.nextAtMs ?? 0) - (limited?.atMs ?? 0)).toBeLessThan(2 * WAIT_MS + 5_000)
    expect(receiver.received.filter(({ path }) => path === '/no')).toEqual([])
  })

  it('is disconnected once its response is known', async () => {
    expect(odd.pouredBytes()).toBeLessThan(64 * 1_024 * 1_024)
    const [, bytes] = /^process_resident_memory_bytes (\S+)$/m.exec(await deliverMetrics()) ?? []
    expect(Number(bytes)).toBeLessThan(500 * 1_024 * 1_024)
  })
})

describe('receivers that hang, many more than there are slots,', () => {
  it('delay no healthy one, and all end with their history, though deliver is killed', async () => {
    const clients = tenants.map(({ client }) => client)
    const names = tenants.map(({ tenant }) => tenant)
    const before = await endsOf(names)

    const hosts = Array.from({ length: TENANTS * HOSTS_OF_EACH }, (_, index) => index)
    const left = hosts.values()
    await Promise.all(Array.from({ length: 16 }, async () => {
      for (const index of left) {
        const [tenant, host] = [index % TENANTS, Math.floor(index / TENANTS)]
        await startJob(clients[tenant]!, urlOf(`127.3.${tenant}.${1 + host}`, '/hang,503'))
      }
    }))
    await expect.poll(() => hanging.length).toBe(hosts.length)
    // No slot becomes free meanwhile: each hanging request waits until it is released.
    await untilHealthyCame('busy', clients)
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
    await expect.poll(ends, { interval: 250 })
      .toBe((before.exhausted ?? 0) + hosts.length)
    const after = await endsOf(names)
    expect(after).toEqual({
      ...before,
      delivered: (before.delivered ?? 0) + HEALTHY,
      exhausted: (before.exhausted ?? 0) + hosts.length,
    })
  })
})
