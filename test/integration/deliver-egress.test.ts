import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { createClient, type Client } from '../../services/client/client.ts'
import { createDemo } from '../../services/admin/demo.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { eventually } from '../support/eventually.ts'
import { startHttpProxy } from '../support/webhooks/http-proxy.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'
import { startAlone, type RunningServices } from '../support/stacks/services.ts'
import { testStack } from '../support/stacks/stack.ts'

const { env, history } = connectAll()
const HOST_RATE = 5
/** More than the burst that the rate allows. */
const JOBS = 3 * HOST_RATE

const receiver = await startReceiver()
/** Refuses the first tunnel and closes the second. */
const proxy = await startHttpProxy({
  behave: count => count === 1 ? 403 : count === 2 ? 'close' : 'open',
  only: `127.0.0.1:${receiver.port}`,
})

let services: RunningServices
let client: Client
let tenant: string
beforeAll(async () => {
  services = await startAlone({
    env,
    // No provider runs here.
    stages: ['ingest', 'normalize', 'lookup', 'settle', 'deliver', 'ledger'],
    servicesDir: testStack().servicesDir,
    overrides: {
      WEBHOOK_ALLOW_HTTP: 'true',
      WEBHOOK_ALLOW_LOOPBACK: 'true',
      WEBHOOK_PROXY: `http://user:secret@127.0.0.1:${proxy.port}`,
      WEBHOOK_HOST_RATE: String(HOST_RATE),
      WEBHOOK_WAITS_MS: '[50,50,50]',
      WEBHOOK_POLL_MS: '20',
    },
  })
  const { keys, orgId } = await createDemo(env)
  client = createClient({ baseUrl: services.baseUrl, apiKey: keys.test })
  tenant = tenantOf(orgId, 'test')
})
afterAll(async () => { await services?.stop() })

/** A job without fresh rows, which ends at once. */
async function startJob (): Promise<{ readonly id: string, readonly path: string }> {
  const path = `/${randomUUID()}`
  const webhookUrl = `http://localhost:${receiver.port}${path}`
  const { id } = await client.createJob({
    service: 'phone-validation', inputs: ['nonsense'], webhook_url: webhookUrl,
  })
  return { id, path }
}

const attemptsOf = async (job: string) => (await history.list(tenant, job))
  .map(({ attempt, outcome, reason }) => [attempt, outcome, reason])

describe('a webhook with an egress proxy', () => {
  it('is retried while the proxy fails, and arrives through the proxy', async () => {
    const { id, path } = await startJob()
    await receiver.until(1, path)
    await eventually(async () => expect(await attemptsOf(id)).toEqual([
      [1, 'failed', 'proxy_error'], [2, 'failed', 'proxy_error'], [3, 'delivered', ''],
    ]))
    const authorization = `Basic ${Buffer.from('user:secret').toString('base64')}`
    const request = { to: `127.0.0.1:${receiver.port}`, authorization }
    expect(proxy.requests).toEqual([request, request, request])
    expect(receiver.connections()).toBe(1)
  })

  it('waits for the rate of its host without using up attempts', async () => {
    const before = receiver.received.length
    const startedAtMs = Date.now()
    const jobs = await Promise.all(Array.from({ length: JOBS }, startJob))
    const got = (await receiver.until(before + JOBS)).slice(before)
    // The burst is one second of the rate; the others need a token each, however late they arrive.
    expect(got.at(-1)!.atMs - startedAtMs)
      .toBeGreaterThanOrEqual((JOBS - HOST_RATE - 1) / HOST_RATE * 1_000)
    await eventually(async () => expect(await Promise.all(jobs.map(({ id }) => attemptsOf(id))))
      .toEqual(jobs.map(() => [[1, 'delivered', '']])))
  })
})
