import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Redis } from 'ioredis'
import type { AttemptBody, EventBody, EventType } from '../../schemas/api/webhooks.ts'
import { tenantOf } from '../../services/accounts/tenant.ts'
import {
  createWebhookSecrets, createWebhookSigningKeys, publicKeyText,
} from '../../services/webhooks/secrets.ts'
import { createClient, type Client } from '../../services/client/client.ts'
import { verifyWebhook } from '../../services/client/verify-webhook.ts'
import type { Attempt } from '../../services/webhooks/deliveries.ts'
import { deriveEventId } from '../../services/webhooks/event.ts'
import { createDemo, type DemoOrganization } from '../../services/admin/demo.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { eventually } from '../support/eventually.ts'
import { webhookKeysIn } from '../support/keys/organization-keys.ts'
import { startHttpProxy } from '../support/webhooks/http-proxy.ts'
import { startReceiver, type Received } from '../support/webhooks/receiver.ts'
import { startAlone, type RunningServices } from '../support/stacks/services.ts'
import { testStack } from '../support/stacks/stack.ts'
import { createOrganizations } from '../../services/accounts/organizations.ts'
import { runAudit } from '../support/audit.ts'
import { createOrganizationWith } from '../support/organizations.ts'

type Options = {
  readonly env: Readonly<Record<string, string>>
  readonly state: Redis
  readonly baseUrl: string
  /** Of a receiver on this machine. */
  readonly port: number
}

/** A live customer with credit for 20 rows, whom `balance.low` warns below that. */
async function startEndpointCustomer ({ env, state, baseUrl, port }: Options) {
  const { orgId, keys } = await createOrganizationWith(env, { availableMicros: 40_000 })
  await createOrganizations(state).setPolicy(orgId, { lowBalanceMicros: 40_000 })
  const customer = createClient({ baseUrl, apiKey: keys.live })
  /** Creates an endpoint with a path of its own, where the receiver answers 200. */
  const create = async (more: { events?: EventType[], enabled?: boolean } = {}) => {
    const path = `/200/${randomUUID()}`
    const url = `http://127.0.0.1:${port}${path}`
    return { path, ...await customer.createWebhookEndpoint({ url, ...more }) }
  }
  const attemptsOf = async (id: string) => {
    const found: AttemptBody[] = []
    for await (const one of customer.endpointDeliveries(id)) found.push(one)
    return found
  }
  const audit = () => runAudit(env, { only: [tenantOf(orgId, 'live')] })
  return { customer, create, attemptsOf, audit }
}

const { env, state, history } = connectAll()
const webhooks = { redis: state, keys: webhookKeysIn(env, state) }
const secrets = createWebhookSecrets(webhooks)

const WAITS_MS = [300, 600, 900]

/** A path says what the receiver does: `/<statuses>/<unique>`, one status an attempt. */
const receiver = await startReceiver((response, { path }, count) => {
  const statuses = path.split('/')[1]?.split(',') ?? []
  const status = statuses[count - 1] ?? statuses.at(-1) ?? '200'
  if (status === 'hang') return
  response.writeHead(Number(status)).end()
}, '0.0.0.0')
/** Attempts to this host meet a proxy that refuses the first tunnel and closes the second. */
const BEHIND_PROXY = '127.0.0.3'
const proxy = await startHttpProxy({
  behave: count => count === 1 ? 403 : count === 2 ? 'close' : 'open',
  only: `${BEHIND_PROXY}:${receiver.port}`,
})
const HOST_RATE = 5

let services: RunningServices
let demo: DemoOrganization
let tenant: string
let client: Client
beforeAll(async () => {
  services = await startAlone({
    env,
    // No provider runs here.
    stages: ['ingest', 'normalize', 'lookup', 'settle', 'deliver', 'ledger'],
    apart: ['deliver'],
    servicesDir: testStack().servicesDir,
    overrides: {
      WEBHOOK_ALLOW_HTTP: 'true',
      WEBHOOK_ALLOW_LOOPBACK: 'true',
      WEBHOOK_WAITS_MS: JSON.stringify(WAITS_MS),
      WEBHOOK_POLL_MS: '50',
      WEBHOOK_PROXY: `http://user:secret@127.0.0.1:${proxy.port}`,
      WEBHOOK_HOST_RATE: String(HOST_RATE),
      COPY_AFTER_MS: '100',
      ORPHAN_AGE_MS: '1000',
      REAP_EVERY_MS: '500',
      // Longer than any test: nothing here happens because one of these is over.
      WEBHOOK_LEASE_MS: '7200000',
      WEBHOOK_TIMEOUT_MS: '3600000',
    },
  })
  demo = await createDemo(env)
  client = createClient({ baseUrl: services.baseUrl, apiKey: demo.keys.test })
  tenant = tenantOf(demo.orgId, 'test')
})
afterAll(async () => { await services?.stop() })

/** A job without fresh rows: it ends at once and takes no slot. */
async function startJob (does: string, host = '127.0.0.1') {
  const path = `/${does}/${randomUUID()}`
  const { id } = await client.createJob({
    service: 'phone-validation',
    inputs: ['nonsense'],
    webhook_url: `http://${host}:${receiver.port}${path}`,
    metadata: { a: 'b' },
  })
  return { id, path, event: deriveEventId(id, 'job.completed') }
}

async function historyOf (job: string, length: number): Promise<readonly Attempt[]> {
  return await eventually(async () => {
    const attempts = await history.list(tenant, job)
    expect(attempts).toHaveLength(length)
    return attempts
  })
}

/** The history once it has a delivery. */
async function historyUntilDelivered (job: string): Promise<readonly Attempt[]> {
  return await eventually(async () => {
    const attempts = await history.list(tenant, job)
    expect(attempts.at(-1)?.outcome).toBe('delivered')
    return attempts
  })
}

const outcomes = (attempts: readonly Attempt[]) =>
  attempts.map(({ attempt, outcome, reason, httpStatus }) =>
    [attempt, outcome, reason, httpStatus])

const gaps = (got: readonly Received[]) =>
  got.slice(1).map(({ atMs }, index) => atMs - got[index]!.atMs)

const bothSchemes = ({ headers, body }: Received, secret: string) => {
  const { 'x-service-signature': _, ...standard } = headers
  return [headers, standard].map(some => verifyWebhook({ headers: some, body, secret }))
}

describe.concurrent('a webhook', () => {
  it('is signed in both schemes, and sent once results are readable', async () => {
    const secret = await secrets.show(demo.orgId)
    const { id, path, event } = await startJob('200')
    const [got] = await receiver.until(1, path)
    expect(await client.results(id)).toContain('nonsense')
    const found = await client.job(id)
    for (const verified of bothSchemes(got!, secret)) {
      expect(verified).toEqual({
        ok: true,
        event: {
          id: event,
          type: 'job.completed',
          api_version: '2026-08-11',
          livemode: false,
          timestamp: found.completedAt,
          data: found,
        },
      })
    }
    expect(found).toMatchObject({ status: 'completed', metadata: { a: 'b' } })
    expect(outcomes(await historyOf(id, 1))).toEqual([[1, 'delivered', '', 200]])
  })

  it('is signed with both secrets while they change', async () => {
    const former = await secrets.show(demo.orgId)
    const current = await secrets.rotate(demo.orgId)
    const { path } = await startJob('200')
    const [got] = await receiver.until(1, path)
    const verified = [former, current].flatMap(secret => bothSchemes(got!, secret))
    expect(verified.map(({ ok }) => ok)).toEqual([true, true, true, true])
    expect(bothSchemes(got!, 'whsec_AAAA').map(({ ok }) => ok)).toEqual([false, false])
  })

  it('is signed with both private keys of the organization while they change', async () => {
    const [former = ''] = await client.webhookKeys()
    await createWebhookSigningKeys(webhooks).rotate(demo.orgId)
    const keys = await client.webhookKeys()
    expect([keys.length, keys[1]]).toEqual([2, former])
    const { path } = await startJob('200')
    const [got] = await receiver.until(1, path)
    const { headers, body } = got!
    expect(keys.map(publicKey => verifyWebhook({ headers, body, publicKey }).ok))
      .toEqual([true, true])
    const stranger = publicKeyText(`whsk_${Buffer.alloc(32).toString('base64')}`)
    expect(verifyWebhook({ headers, body, publicKey: stranger }).ok).toBe(false)
  })

  it('is attempted on schedule until exhausted, with a new signature each time', async () => {
    const { id, path } = await startJob('500,503,404')
    const attempts = await historyOf(id, 4)
    expect(outcomes(attempts)).toEqual([
      [1, 'failed', 'status', 500], [2, 'failed', 'status', 503], [3, 'failed', 'status', 404],
      [4, 'exhausted', 'status', 404],
    ])
    const got = await receiver.until(4, path)
    for (const [index, gap] of gaps(got).entries()) {
      expect(gap).toBeGreaterThanOrEqual(WAITS_MS[index]! * 0.8 - 20)
    }
    expect(new Set(got.map(({ body }) => body)).size).toBe(1)
    expect(new Set(got.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
    expect(new Set(got.map(({ headers }) => headers['webhook-timestamp'])).size).toBeGreaterThan(1)
  })
})

describe.concurrent('a webhook on its way', () => {
  it('is retried while the egress proxy fails, and arrives through the proxy', async () => {
    const { id, path } = await startJob('200', BEHIND_PROXY)
    expect(outcomes(await historyOf(id, 3))).toEqual([
      [1, 'failed', 'proxy_error', 0], [2, 'failed', 'proxy_error', 0], [3, 'delivered', '', 200],
    ])
    const authorization = `Basic ${Buffer.from('user:secret').toString('base64')}`
    const request = { to: `${BEHIND_PROXY}:${receiver.port}`, authorization }
    expect(proxy.requests).toEqual([request, request, request])
    expect(await receiver.until(1, path)).toHaveLength(1)
  })

  it('waits for the rate of its host without using up attempts', async () => {
    // More than the burst that the rate allows, which is one second of it.
    const waiting = 4 * HOST_RATE
    const jobs = await Promise.all(Array.from({ length: HOST_RATE + waiting }, () =>
      startJob('200', '127.0.0.4')))
    const got = await Promise.all(jobs.map(({ path }) => receiver.until(1, path)))
    const times = got.map(([one]) => one!.atMs)
    // Each of the others needs a token, and the first may be seen a second late.
    expect(Math.max(...times) - Math.min(...times))
      .toBeGreaterThanOrEqual((waiting / HOST_RATE - 1) * 1_000)
    for (const { id } of jobs) {
      expect(outcomes(await historyOf(id, 1))).toEqual([[1, 'delivered', '', 200]])
    }
  })
})

/** Asks the interface about the deliveries of a job. */
async function ask (path: string, { method = 'GET', key = demo.keys.test } = {}) {
  const response = await fetch(`${services.baseUrl}/jobs/${path}`, {
    method, headers: { authorization: `Bearer ${key}` },
  })
  const text = await response.text()
  return { status: response.status, text, json: JSON.parse(text) }
}

describe.concurrent('the interface', () => {
  it('lists the attempts of a webhook, newest first, and resends it', async () => {
    const { id, path, event } = await startJob('500,200,503')
    await historyOf(id, 2)
    const listed = await ask(`${id}/deliveries`)
    expect(listed.status).toBe(200)
    expect(listed.json.data).toMatchObject([
      { deliveryId: event, attempt: 2, outcome: 'delivered', statusCode: 200, reason: null },
      { deliveryId: event, attempt: 1, outcome: 'failed', statusCode: 500, reason: 'status' },
    ])
    expect(listed.text).not.toContain(path)
    expect(listed.text).not.toContain('127.0.0.1')
    const resent = await ask(`${id}/deliveries/${event}/resend`, { method: 'POST' })
    expect([resent.status, resent.json]).toEqual([202, { deliveryId: event, status: 'queued' }])
    const got = await receiver.until(3, path)
    expect(new Set(got.map(({ headers }) => headers['webhook-id']))).toEqual(new Set([event]))
    expect(new Set(got.map(({ body }) => body)).size).toBe(1)
    await historyOf(id, 3)
    expect((await ask(`${id}/deliveries`)).json.data[0])
      .toMatchObject({ attempt: 3, outcome: 'exhausted', statusCode: 503, reason: 'status' })
  })

  it('returns no deliveries of others, of other events, or without an address', async () => {
    const { id, event } = await startJob('200')
    await historyOf(id, 1)
    const codes = async (job: string, delivery: string, key = demo.keys.test) => {
      const list = await ask(`${job}/deliveries`, { key })
      const resend = await ask(`${job}/deliveries/${delivery}/resend`, { method: 'POST', key })
      return [list, resend].map(({ status, json }) => [status, json.error?.code])
    }
    const unknown = [404, 'job_not_found']
    expect(await codes(id, event, demo.keys.live)).toEqual([unknown, unknown])
    const other = deriveEventId(id, 'job.failed')
    expect(await codes(id, other)).toEqual([[200, undefined], [404, 'not_found']])
    const silent = await client.createJob({ service: 'phone-validation', inputs: ['no'] })
    await client.waitForEnd(silent.id)
    expect(await codes(silent.id, deriveEventId(silent.id, 'job.completed')))
      .toEqual([[200, undefined], [404, 'not_found']])
  })
})

/** Ends the service that delivers, and lets the leases of what it had under way run out. */
async function killDeliver (): Promise<void> {
  const find = () => services.list().find(({ name }) => name === 'deliver-1')
  const pid = find()?.pid
  services.kill('deliver-1', 'SIGKILL')
  await eventually(() => expect(find()?.pid).not.toBe(pid))
  const leases = await state.zrange('leases:{deliveries}', '0', '-1')
  for (const event of leases) await state.zadd('leases:{deliveries}', 'XX', '0', event)
  await services.untilReady()
}

it('a deliver process that crashes ' +
  'leaves pending attempts, attempts in flight and the history to the next one', async () => {
  const waits = await startJob('500,500,500,200')
  const under = await startJob('hang,200', '127.0.0.9')
  await receiver.until(1, waits.path)
  await receiver.until(1, under.path)
  await killDeliver()
  const attempts = await historyUntilDelivered(waits.id)
  // The outcome of an attempt under way at the kill is unknown: it is repeated, unrecorded.
  const attemptCount = attempts.length
  expect([3, 4]).toContain(attemptCount)
  expect(outcomes(attempts)).toEqual(attempts.map((_, index) => index === attemptCount - 1
    ? [attemptCount, 'delivered', '', 200]
    : [index + 1, 'failed', 'status', 500]))
  expect(await receiver.until(4, waits.path)).toHaveLength(4)
  expect(outcomes(await historyUntilDelivered(under.id))).toEqual([[1, 'delivered', '', 200]])
  expect(await receiver.until(2, under.path)).toHaveLength(2)
})

describe.concurrent('webhook endpoints', () => {
  const startCustomer = () => startEndpointCustomer({
    env, state, baseUrl: services.baseUrl, port: receiver.port,
  })

  const post = (customer: Client, ...more: readonly string[]) =>
    customer.createJob({ service: 'phone-validation', inputs: ['nonsense', ...more] })

  const eventsOf = (got: readonly Received[], secret: string) => got.map(one => {
    expect(bothSchemes(one, secret).map(({ ok }) => ok)).toEqual([true, true])
    return JSON.parse(one.body) as EventBody
  })

  it('get the events they want of every job, each signed with its own secret', async () => {
    const { customer, create } = await startCustomer()
    const [all, off] = [await create(), await create({ enabled: false })]
    const ends = await create({ events: ['job.completed'] })
    // No provider runs, so this job stays at half of its rows.
    const open = await post(customer, '+12127365000')
    const ended = await post(customer)
    const events = eventsOf(await receiver.until(5, all.path), all.secret)
    const idOf = ({ data }: EventBody) => 'jobId' in data ? data.jobId : data.id
    expect(events.map(event => [event.type, idOf(event)]).toSorted()).toEqual([
      ['balance.low', open.id], ['job.accepted', ended.id], ['job.accepted', open.id],
      ['job.completed', ended.id], ['job.progress', open.id],
    ].toSorted())
    const dataOf = (type: EventType, id = open.id) =>
      events.find(event => event.type === type && idOf(event) === id)?.data
    expect(dataOf('balance.low')).toEqual({
      thresholdMicros: 40_000, availableMicros: 38_000, currency: 'USD', jobId: open.id,
    })
    const none = { valid: 0, invalid: 0, risky: 0, unknown: 0 }
    expect(dataOf('job.accepted'))
      .toMatchObject({ status: 'queued', pendingRecords: 2, verdicts: none })
    expect(dataOf('job.progress')).toMatchObject({
      progressPercent: 50, verdicts: { ...none, invalid: 1 },
    })
    expect(dataOf('job.completed', ended.id)).toEqual(await customer.job(ended.id))
    const [end, ...more] = eventsOf(await receiver.until(1, ends.path), ends.secret)
    expect([end, more]).toEqual([events.find(({ type }) => type === 'job.completed'), []])
    expect(receiver.received.filter(({ path }) => path === off.path)).toEqual([])
  })

  it('get the events of a job that is posted right after they were created', async () => {
    const { customer, create } = await startCustomer()
    const old = await create({ events: ['job.completed'] })
    await post(customer)
    // Every process has just read the endpoints.
    await receiver.until(1, old.path)
    const fresh = await create()
    const { id } = await post(customer)
    const events = eventsOf(await receiver.until(2, fresh.path), fresh.secret)
    expect(events.map(({ type, data }) => [type, data]).toSorted())
      .toMatchObject([['job.accepted', { id }], ['job.completed', { id }]])
  })

  it('list their deliveries by pages, and get an event again', async () => {
    const { customer, create, attemptsOf } = await startCustomer()
    const endpoint = await create({ events: ['job.completed'] })
    const ids = [(await post(customer)).id, (await post(customer)).id]
    await receiver.until(2, endpoint.path)
    const list = () => attemptsOf(endpoint.id)
    const attempts = await eventually(async () => {
      const found = await list()
      expect(found).toHaveLength(2)
      return found
    })
    expect(attempts.map(({ jobId }) => jobId)).toEqual(ids.toReversed())
    const [newest] = attempts
    expect(await customer.deliveries(ids[1]!)).toEqual([newest])
    await customer.resend(ids[1]!, newest!.deliveryId)
    const [, , again] = await receiver.until(3, endpoint.path)
    expect(again?.headers['webhook-id']).toBe(deriveEventId(ids[1]!, 'job.completed'))
    await eventually(async () => {
      expect((await list()).map(({ attempt }) => attempt)).toEqual([2, 1, 1])
    })
    await customer.deleteWebhookEndpoint(endpoint.id)
    await expect(list()).rejects.toThrow('webhook_endpoint_not_found')
  })

  it('have deliveries without a breach for an audit', async () => {
    const { customer, create, attemptsOf, audit } = await startCustomer()
    const { id: endpoint } = await create()
    await post(customer)
    await eventually(async () => {
      expect((await attemptsOf(endpoint)).map(({ type }) => type).toSorted())
        .toEqual(['job.accepted', 'job.completed'])
    })
    expect(await audit()).toMatchObject({ breaches: [], tenants: [{ closedJobs: 1 }] })
  })
})
