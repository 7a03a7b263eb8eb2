import { afterAll, describe, expect, it } from 'vitest'
import { createClient } from '../../services/client/client.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { runAudit } from '../support/audit.ts'
import { filesOfStores } from '../support/bytes.ts'
import { compactAtOnce } from '../support/kafka/compaction.ts'
import { eventually } from '../support/eventually.ts'
import { createOrganizationWith } from '../support/organizations.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'
import { openWorkspaceCommands } from '../support/workspace.ts'
import { ask, runJob, startEnvironment } from '../support/stacks/environment.ts'
import { stackEnv, testStack } from '../support/stacks/stack.ts'

const env = stackEnv()
const folder = testStack().dataDir
const redis = closeAfterAll(openRedis(env.REDIS_STATE_URL ?? ''))
const { workspace } = openWorkspaceCommands(env)
const receiver = await startReceiver()

afterAll(await compactAtOnce((env.KAFKA_BROKERS ?? '').split(',')))
const environment = closeAfterAll(await startEnvironment())

const codeOf = async (mode: 'live' | 'test', path: string, method = 'GET') => {
  const { status, json } = await ask(
    `${environment.baseUrl}${path}`, { key: environment.keys[mode], method })
  return [status, json.error?.code]
}

type Erasure =
  { readonly done: boolean, readonly aof: string, readonly jobs: readonly object[] }

const erase = (mode: 'live' | 'test', ...jobs: readonly string[]) => workspace<Erasure>(env,
  'job', 'erase', '--org', environment.orgId, '--job', jobs.join(), '--mode', mode,
  '--wait-minutes', '6')

/** What is erased must have been found before. */
const places = (wrapped: readonly Buffer[]) => filesOfStores(folder, wrapped)

/** The wrapped key of a job, once every store has it. */
async function wrappedKeyOf (tenant: string, job: string): Promise<Buffer> {
  const { dataKey } = jobRedisKeys(tenant, job)
  const bytes = await redis.getBuffer(dataKey) ?? Buffer.alloc(0)
  await eventually(async () => expect(places([bytes]).clickhouse).toBeGreaterThan(0))
  expect(places([bytes]).redis).toBe(1)
  expect(places([bytes]).kafka).toBeGreaterThan(0)
  return bytes
}

const GONE = {
  copiesInRedis: 0, copiesInTopic: 0, copiesInClickhouse: 0, copiesInDeadLetters: 0,
}

describe('erasing jobs on demand', () => {
  it.concurrent('by the customer leaves no copy of the key, and money and usage', async () => {
    const { orgId, keys } = await createOrganizationWith(env, { availableMicros: 1_000_000 })
    const { baseUrl, test } = environment
    const live = createClient({ baseUrl, apiKey: keys.live })
    const request = {
      service: 'phone-validation', inputs: ['+12127360111', '+12127360112'], metadata: { a: 'b' },
    }
    const { job } = await runJob(live, request)
    const { created: { preflight } } = await runJob(live, request)
    expect(preflight.cacheHits).toBe(2)
    const wrapped = await wrappedKeyOf(`${orgId}.live`, job.id)
    const before = [await live.balance(), await live.usage({ group_by: 'key' })]
    // Its check is unavailable for a quarter of an hour.
    const running = await test.createJob({
      service: 'phone-validation', inputs: ['+12127360005'],
    })
    await expect(test.eraseJob(running.id)).rejects.toThrow(
      expect.objectContaining({ status: 409, code: 'job_not_ended' }))
    await test.cancel(running.id)

    const erased = await live.eraseJob(job.id, { cache: true })
    expect(erased).toEqual({
      ...job, metadata: {}, erasedAt: expect.any(String), erasureCompletedAt: null,
    })
    await expect(live.results(job.id)).rejects.toThrow(
      expect.objectContaining({ status: 410, code: 'results_erased' }))
    expect((await live.eraseJob(job.id)).erasedAt).toBe(erased.erasedAt)
    const ended = await eventually(async () => {
      const found = await live.job(job.id)
      expect(found.erasureCompletedAt).not.toBeNull()
      return found
    })
    expect(await live.eraseJob(job.id)).toEqual(ended)
    expect((await live.jobsPage({ limit: 2 })).data[1]).toEqual(ended)
    await eventually(async () =>
      expect(places([wrapped])).toEqual({ redis: 0, kafka: 0, clickhouse: 0 }))
    expect((await live.quote(request)).preflight.cacheHits).toBe(0)
    expect([await live.balance(), await live.usage({ group_by: 'key' })])
      .toEqual([before[0], { ...before[1] as object, to: expect.any(String) }])
    const [first] = (await live.usage({ group_by: 'key' })).data
    expect([first?.key, first?.jobs]).toEqual([expect.stringMatching(/^key_[0-9a-f]{16}$/), 2])
    await expect(test.eraseJob(job.id)).rejects.toThrow(
      expect.objectContaining({ status: 404, code: 'job_not_found' }))
    expect((await runAudit(env, { only: [`${orgId}.live`] })).breaches).toEqual([])
  })

  it.concurrent('makes all unreadable, leaves no copy of their keys, and their money', async () => {
    const metadata = { campaign: 'spring' }
    const address = `http://127.0.0.1:${receiver.port}/hook`
    const done = await runJob(environment.live, {
      service: 'phone-validation',
      inputs: ['+12127360101', 'nonsense'],
      metadata,
      webhook_url: address,
    })
    // Its check is unavailable for a quarter of an hour.
    const { id: running } = await environment.test.createJob({
      service: 'phone-validation', inputs: ['+12127360005', '+12127360102'], metadata,
    })
    const { id } = done.created
    const { id: further } = (await runJob(environment.live, {
      service: 'phone-validation', inputs: ['+12127360103'],
    })).created
    await receiver.until(1)
    const { orgId } = environment
    const [first, second] = await Promise.all([
      wrappedKeyOf(`${orgId}.live`, id), wrappedKeyOf(`${orgId}.test`, running),
    ])
    const before = await environment.live.balance()

    const erased = await Promise.all([erase('live', id, further), erase('test', running)])
    expect(erased.map(({ done, aof }) => [done, aof]))
      .toEqual([[true, 'rewritten'], [true, 'rewritten']])
    expect(erased.flatMap(({ jobs }) => jobs)).toEqual([
      { job: id, status: 'completed', ...GONE },
      { job: further, status: 'completed', ...GONE },
      { job: running, status: 'cancelled', ...GONE },
    ])
    expect(places([first, second]).redis).toBe(0)
    await eventually(async () =>
      expect(places([first, second])).toEqual({ redis: 0, kafka: 0, clickhouse: 0 }))

    for (const [mode, job] of [['live', id], ['live', further], ['test', running]] as const) {
      const gone = [410, 'results_erased']
      expect(await codeOf(mode, `/jobs/${job}/results`)).toEqual(gone)
      expect(await codeOf(mode, `/jobs/${job}/results?format=json`)).toEqual(gone)
      expect(await codeOf(mode, `/jobs/${job}/results`, 'HEAD')).toEqual([410, undefined])
    }
    const time = expect.stringMatching(/^2/)
    expect(await environment.live.job(id)).toEqual({
      ...done.job, metadata: {}, erasedAt: time, erasureCompletedAt: time,
    })
    const cancelled = await environment.test.job(running)
    expect(cancelled).toMatchObject({ status: 'cancelled', metadata: {}, totalRows: 2 })
    expect(await environment.live.balance()).toEqual(before)
    const only = [`${environment.orgId}.live`, `${environment.orgId}.test`]
    expect((await runAudit(env, { only })).breaches).toEqual([])

    await expect(erase('test', id)).rejects.toThrow(`has no job ${id} in mode test`)
  })
})
