import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { createLog } from '../../services/runtime/platform/log.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import { createBacklog, Owners, Takeover } from '../../services/ledger/takeover.ts'
import { createAdminClient } from '../../services/runtime/kafka/client.ts'
import { fetchLags, TOPOLOGY_GROUPS } from '../../services/runtime/kafka/admin.ts'
import { createRepositories } from '../../services/jobs/results/finish-job.ts'
import { createEmitter } from '../../services/runtime/engine/stage.ts'
import { createJobMessageCodec } from '../../services/jobs/message-codec.ts'
import { LostResultsError } from '../../services/jobs/results/results.ts'
import { skipAll } from '../support/dead.ts'
import { eventually } from '../support/eventually.ts'
import { rootKeysIn } from '../support/keys/organization-keys.ts'
import { newOrganization } from '../support/organizations.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { parseCsv } from '../support/stacks/environment.ts'
import { acceptClaimed, acceptRequest } from '../support/jobs.ts'
import { textOf } from '../support/clickhouse/results.ts'

const {
  archive, brokers, bus, clock, connected, env, keys, results, state: redis, store, wallet,
} = connectAll()

/** Takes one orphaned job of 3 rows over; `lose` may remove some of its state before. */
async function takenJob (lose: (dataKey: string) => Promise<unknown> = async () => {}) {
  const tenant = tenantOf(await newOrganization(env), 'live')
  const job = `job_${randomUUID()}`
  await wallet.topUp(tenant, { id: 'first', amountMicros: 50_000, reason: 'test' })
  const messageCodec = createJobMessageCodec(connected, rootKeysIn(env))
  const admin = createAdminClient({ brokers }, 'owners-test')
  // A coordinator answers nothing while it loads its groups, right after its broker has started.
  await eventually(() => admin.use(client => fetchLags(client)))
  const accepted = await acceptClaimed(store, tenant, {
    ...acceptRequest(job, { freshChecks: 3 }),
    service: 'telegram',
    lane: 'bulk',
    wrappedKey: (await keys.create(tenant, job)).wrapped,
  })
  expect(accepted.kind).toBe('accepted')
  await lose(jobRedisKeys(tenant, job).dataKey)
  const repositories = createRepositories(connected)
  const takeover = new Takeover({
    ...repositories,
    messageCodec,
    codec: connected.codec,
    redis: connected.state,
    clock,
    emitter: createEmitter({ messageCodec, producerOf: bus.producer }),
    owners: new Owners({
      readOffsets: groups => admin.use(client =>
        fetchLags(client, TOPOLOGY_GROUPS.filter(({ group }) => groups.includes(group)))),
      now: () => performance.now(),
    }),
    tenants: { active: async () => [{ tenant, sinceMs: 0 }] },
    outbox: { ...repositories.outbox, tenantsWithPending: async () => [tenant] },
    backlog: { mayContain: async () => false },
    log: createLog('ledger-test', { level: 'silent' }),
    metrics: createMetrics(),
    orphanAgeMs: 0,
    stalledAfterMs: 0,
  })
  // No stage has begun anything: what the first run sees has no owner in the second.
  await takeover.run()
  await takeover.run()
  await admin.close()
  expect(await repositories.outbox.pending(tenant)).toEqual([])
  return { tenant, job }
}

describe('an orphaned job', () => {
  it('is failed with a complete result file, and its reserve is released', async () => {
    const { tenant, job } = await takenJob()
    const found = await store.read(tenant, job)
    expect(found).toMatchObject({ status: 'failed', closed: true, chargedMicros: 0 })
    expect(await wallet.balance(tenant))
      .toMatchObject({ availableMicros: 50_000, reservedMicros: 0 })
    const archived = await archive.find(tenant, job)
    const csv = await textOf(results.csvStream(archived!.job, archived!.manifest))
    expect(parseCsv(csv).map(row => [row['row'], row['status'], row['reason']])).toEqual([
      ['1', 'unknown', 'internal'], ['2', 'unknown', 'internal'], ['3', 'unknown', 'internal'],
    ])
  })

  it('without its key fails as well; its results are reported as lost', async () => {
    const { tenant, job } = await takenJob(dataKey => redis.del(dataKey))
    expect(await store.read(tenant, job))
      .toMatchObject({ status: 'failed', closed: true, chargedMicros: 0, releasedMicros: 6_000 })
    expect(await wallet.balance(tenant))
      .toMatchObject({ availableMicros: 50_000, reservedMicros: 0 })
    expect(await store.openJobs(tenant)).toEqual([])
    const archived = await archive.find(tenant, job)
    await expect(textOf(results.csvStream(archived!.job, archived!.manifest)))
      .rejects.toThrow(LostResultsError)
  })
})

it('the backlog is reported by lane and service, retried batches included', async () => {
  const backlog = createBacklog({ connection: { brokers }, clientId: 'backlog-test', clock })
  const whatsapp = { lane: 'bulk', service: 'whatsapp', idleMs: 0 } as const
  await skipAll(brokers, 'verify.bulk.whatsapp', 'rows.retry.bulk.whatsapp')
  await skipAll(brokers, 'verify.bulk.carrier-single', 'rows.to-verify.bulk.carrier-single')
  expect(await backlog.mayContain(whatsapp)).toBe(false)
  await bus.producer('test').send([{
    topic: 'rows.retry.bulk.whatsapp', key: 'a', value: null, headers: {},
  }])
  expect(await backlog.mayContain(whatsapp)).toBe(true)
  expect(await backlog.mayContain({ ...whatsapp, service: 'telegram' })).toBe(false)
  const later = { now: () => Date.now() + 120_000 }
  const fromLater = createBacklog({
    connection: { brokers }, clientId: 'backlog-test', clock: later,
  })
  await bus.producer('test').send([{
    topic: 'rows.to-verify.bulk.carrier-single', key: 'a', value: null, headers: {},
  }])
  const carrier = { lane: 'bulk', service: 'carrier-single', idleMs: 0 } as const
  expect(await backlog.mayContain(carrier)).toBe(false)
  expect(await fromLater.mayContain(carrier)).toBe(true)
  // No row waits that long: the young message is of another job.
  const longIdle = { ...whatsapp, idleMs: 51 * 3_600_000 }
  expect(await backlog.mayContain(longIdle)).toBe(false)
  expect(await fromLater.mayContain(longIdle)).toBe(true)
})
