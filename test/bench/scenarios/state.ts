import { randomBytes, randomUUID } from 'node:crypto'
import { newJobId } from '../../../services/jobs/job.ts'
import { jobRedisKeys } from '../../../services/jobs/job-record.ts'
import { createJobStore, type JobStore } from '../../../services/jobs/store.ts'
import { createWallet } from '../../../services/money/wallet.ts'
import { openRedis } from '../../support/redis/open-redis.ts'
import { acceptRequest, blockOf } from '../../support/jobs.ts'
import { keepUnlockedAt } from '../../support/redis/unlock.ts'
import { TOP_UP, type BenchStack } from '../services.ts'
import { usageOf } from '../usage.ts'

const TENANTS = 20
const CLIENTS = 96
const WARM_UP_MS = 3_000
const MEASURED_MS = 20_000
/** As in a one-row job: a wrapped data key, and sealed blocks that wait for the insert. */
const WRAPPED_KEY_BYTES = 61
const ATTACHED_BYTES = 700

/**
 * The most one-row jobs that one state Redis takes, with every step of the services against it and
 * nothing else: claim, data key, accept, announce, status for verify, tally of two blocks, close.
 * Runs while no service does.
 */
export async function measureState (
  { env, infrastructure }: BenchStack, log: (line: string) => void
) {
  const pid = infrastructure.find(({ name }) => name === 'redis-state')?.pid
  const url = env['REDIS_STATE_URL'] ?? ''
  if (pid === undefined) throw new Error('the state Redis is not a process of this machine')
  log(`state: ${MEASURED_MS / 1_000} s of one-row jobs against the state Redis alone`)
  const stopUnlocking = await keepUnlockedAt(url)
  const redis = openRedis(url)
  try {
    const tenants = Array.from({ length: TENANTS }, () => `org_${randomUUID()}.live`)
    const wallet = createWallet(redis)
    for (const tenant of tenants) await wallet.topUp(tenant, TOP_UP)
    const run = (ms: number) => runJobs(createJobStore(redis), { redis, tenants, ms })
    await run(WARM_UP_MS)
    const cpuBefore = usageOf(pid).cpuSeconds
    const clientBefore = process.cpuUsage()
    const startedAt = performance.now()
    const jobs = await run(MEASURED_MS)
    const seconds = (performance.now() - startedAt) / 1_000
    const client = process.cpuUsage(clientBefore)
    const cpuSeconds = usageOf(pid).cpuSeconds - cpuBefore
    return {
      jobs,
      jobsPerSecond: jobs / seconds,
      /** CPU of the state Redis per job. */
      cpuMsPerJob: cpuSeconds * 1_000 / jobs,
      /** The same in percent of a core; the rest are waits, for the disk or the client. */
      corePercent: cpuSeconds / seconds * 100,
      /** CPU of the client in percent of a core: near 100, the state Redis takes more. */
      clientPercent: (client.user + client.system) / 1e6 / seconds * 100,
    }
  } finally {
    redis.disconnect()
    stopUnlocking()
  }
}

type Redis = ReturnType<typeof openRedis>

/** Clients that run one job after another until the time is over; resolves to their number. */
async function runJobs (
  store: JobStore,
  { redis, tenants, ms }:
  { readonly redis: Redis, readonly tenants: readonly string[], readonly ms: number }
): Promise<number> {
  const endsAt = performance.now() + ms
  let jobs = 0
  const client = async (index: number) => {
    const tenant = tenants[index % tenants.length] ?? ''
    while (performance.now() < endsAt) {
      await runJob(store, redis, tenant)
      jobs++
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, (_, index) => client(index)))
  return jobs
}

async function runJob (store: JobStore, redis: Redis, tenant: string): Promise<void> {
  const job = newJobId(Date.now())
  const idempotencyKey = randomUUID()
  const claim = await store.claim(tenant, {
    job,
    idempotencyKey,
    fingerprint: randomBytes(32).toString('hex'),
    acceptWithinMs: 25_000,
    wrappedKey: randomBytes(WRAPPED_KEY_BYTES),
    owner: 'bench',
    apiKey: 'bench',
  })
  if (claim.kind !== 'new') throw new Error(`a new idempotency key was answered "${claim.kind}"`)
  await redis.getBuffer(jobRedisKeys(tenant, job).dataKey)
  const { acceptByMs } = claim
  const request = acceptRequest(job, {
    freshChecks: 1, idempotencyKey, acceptByMs, maxActiveJobs: 1_000_000,
  })
  const accepted = await store.accept(tenant, request)
  if (accepted.kind === 'refused') throw new Error(`refused: ${accepted.refusal.code}`)
  await store.announce(tenant, job, accepted.entry?.seq)
  await store.batchAction(tenant, job)
  const place = { job, chunkRows: 1 }
  const blocks = [blockOf({ ...place, inputs: true }, {}), blockOf(place, { live: [0] })]
  const text = 'x'.repeat(ATTACHED_BYTES)
  const last = (await store.tallyAll(tenant, blocks, { text, keeps: true })).at(-1)
  if (last?.kind !== 'counted' || !last.ended) throw new Error(`job ${job} has not ended`)
  await store.close(tenant, job, last.entry?.seq)
}
