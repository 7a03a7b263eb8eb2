import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SERVICES } from '../../deploy/local/launcher/layout.ts'
import { createClient, type Client, type JobStatusResource } from '../../services/client/client.ts'
import { PAUSED_KEY } from '../../services/runtime/engine/pause.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { readRootKeyHolders } from '../../services/runtime/crypto/root-keys.ts'
import { createDemo } from '../../services/admin/demo.ts'
import { mixedPhones } from '../bench/jobs.ts'
import {
  breachesOf, parseCsv, runJob, startEnvironment, type Environment,
} from '../support/stacks/environment.ts'
import { eventually } from '../support/eventually.ts'
import { sumOf } from '../support/metrics.ts'
import { messagesIn } from '../support/kafka/offsets.ts'
import { startAlone, type RunningServices } from '../support/stacks/services.ts'
import { testStack } from '../support/stacks/stack.ts'

const ROWS = 12_000

async function expectAllRows (
  client: Client, job: JobStatusResource, inputs: readonly string[]
): Promise<void> {
  expect(job).toMatchObject({ status: 'completed', totalRows: inputs.length })
  const rows = parseCsv(await client.results(job.id))
  expect(rows.map(row => row.input)).toEqual(inputs)
}

describe('a process that hosts every stage but ingest, killed in the middle of a job', () => {
  let environment: Environment
  beforeAll(async () => { environment = await startEnvironment() })
  afterAll(async () => { await environment.stop() })

  /** Kills the host when the job is as far as it should be; the client keeps waiting. */
  async function survive (
    from: number, untilKill: (accepted: Promise<string>) => Promise<unknown>
  ) {
    const { live, services } = environment
    const restarts = () => services.list().find(({ name }) => name === 'pipeline-1')?.restarts ?? 0
    const before = restarts()
    const inputs = mixedPhones(ROWS, from)
    const request = { service: 'phone-validation', inputs, countryCode: 'US', forceFresh: true }
    const key = randomUUID()
    const accepted = eventually(async () => (await live.createJob(request, key)).id)
    await untilKill(accepted)
    services.kill('pipeline-1', 'SIGKILL')
    const job = await live.waitForEnd(await accepted)
    await eventually(() => expect(restarts()).toBe(before + 1))
    await expectAllRows(live, job, inputs)
  }

  it('loses nothing before the job is accepted', async () => {
    const { env } = environment
    const topic = 'rows.normalized.bulk'
    const before = await messagesIn(env, topic)
    await survive(8_000_000, () => eventually(async () =>
      expect(await messagesIn(env, topic)).toBeGreaterThan(before)))
    expect(await environment.breaches()).toEqual([])
  })

  it('loses nothing while rows are verified and settled', async () => {
    const inTheMiddle = ({ progressPercent }: JobStatusResource) => {
      if (progressPercent > 10) throw new Error('in the middle')
    }
    await survive(9_000_000, async accepted => {
      const waiting = environment.live.waitForEnd(
        await accepted, { pollEveryMs: 10, onProgress: inTheMiddle })
      await expect(waiting).rejects.toThrow('in the middle')
    })
    expect(await environment.breaches()).toEqual([])
  })
})

describe('one process that hosts every stage and the page', () => {
  const { env, servicesDir } = testStack()
  let services: RunningServices
  let client: Client
  let clientWithoutRetries: Client
  let orgId: string
  beforeAll(async () => {
    services = await startAlone({ env, servicesDir, processes: 1, stages: SERVICES })
    const demo = await createDemo(env)
    orgId = demo.orgId
    const access = { baseUrl: services.baseUrl, apiKey: demo.keys.live }
    client = createClient(access)
    clientWithoutRetries = createClient({ ...access, retries: 0 })
  })
  afterAll(async () => { await services.stop() })

  it('runs a job of each lane, and reports each stage ready', async () => {
    expect(services.list().map(({ name }) => name)).toEqual(['all-1'])
    for (const rows of [3, ROWS]) {
      const inputs = mixedPhones(rows, 10_000_000 + rows)
      const { job } = await runJob(client, { service: 'phone-validation', inputs })
      await expectAllRows(client, job, inputs)
    }
    for (const stage of SERVICES) {
      expect([stage, await sumOf(services.list(), 'service_ready', { stage })]).toEqual([stage, 1])
    }
    const page = await fetch(`${services.pageUrl}/sign-in`)
    expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('<html')])
    expect(await breachesOf(env, orgId)).toEqual([])
  })

  it('publishes the root keys that it has under its name', async () => {
    const redis = openRedis(env['REDIS_STATE_URL'] ?? '')
    try {
      await eventually(async () =>
        expect((await readRootKeyHolders(redis)).map(holder => holder.process)).toContain('all-1'))
    } finally {
      redis.disconnect()
    }
  })

  it('pauses one stage and goes on with the others', async () => {
    const redis = openRedis(env['REDIS_STATE_URL'] ?? '')
    try {
      await redis.hset(PAUSED_KEY, 'verify', '{}')
      const pausedOf = (stage: string) => sumOf(services.list(), 'stage_paused', { stage })
      await eventually(async () => expect(await pausedOf('verify')).toBe(1))
      expect(await pausedOf('lookup')).toBe(0)
      // Accepted, so normalize and lookup work.
      const { id } = await client.createJob({
        service: 'phone-validation', inputs: ['+12127365000'], forceFresh: true,
      })
      expect((await client.job(id)).status).not.toBe('completed')
      await redis.hdel(PAUSED_KEY, 'verify')
      expect((await client.waitForEnd(id)).status).toBe('completed')
    } finally {
      await redis.hdel(PAUSED_KEY, 'verify')
      redis.disconnect()
    }
  })

  it('is ended and started again to restart one of its services', async () => {
    const [before] = services.list()
    expect([await services.end('ledger'), services.list()]).toEqual([['all-1'], []])
    expect(await services.end('ledger')).toEqual([])
    await services.setLayout({})
    const [after] = services.list()
    expect(after?.name).toBe('all-1')
    expect(after?.pid).not.toBe(before?.pid)
  })

  it('answers a request under way at SIGTERM, and the next start continues', async () => {
    const inputs = mixedPhones(ROWS, 11_000_000)
    const before = await messagesIn(env, 'rows.normalized.bulk')
    const creating = clientWithoutRetries.createJob({ service: 'phone-validation', inputs })
    await eventually(async () =>
      expect(await messagesIn(env, 'rows.normalized.bulk')).toBeGreaterThan(before))
    services.kill('all-1', 'SIGTERM')
    const { id } = await creating
    await eventually(() => expect(services.list()[0]?.restarts).toBe(1))
    await services.untilReady()
    await expectAllRows(client, await client.waitForEnd(id), inputs)
    expect(await breachesOf(env, orgId)).toEqual([])
  })
})
