import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { openPortBook } from '../../../deploy/local/ports.ts'
import { redisPart } from '../../../deploy/local/redis.ts'
import { emptyFolder } from '../../support/folder.ts'
import { openRedis } from '../../support/redis/open-redis.ts'
import { moneyKeys, LEADER_KEY } from '../../../services/money/redis-keys.ts'
import { createPart, type Part } from '../../support/stacks/processes.ts'
import { sumOf } from '../../support/metrics.ts'
import { startAll, type RunningServices } from '../../support/stacks/services.ts'
import { measureIdleCpu, resetPeaks, usagesOf } from '../usage.ts'
import { freshPhones, repeat, withDeadline } from '../jobs.ts'
import { RAISED_LIMITS, type BenchStack, TOP_UP } from '../services.ts'
import { createJournalGenerator, type JournalGenerator } from './journal-generator.ts'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import { createClient } from '../../../services/client/client.ts'
import { openJobIn } from '../../../services/jobs/job-record.ts'
import { createDemo } from '../../../services/admin/demo.ts'
import { withWorkspace } from '../../../services/admin/deps.ts'

type RecoveryStep = {
  /** Total length of the journals, and their tenants. */
  readonly entries: number
  /** How many of these entries are of jobs that went through the whole service. */
  readonly realEntries: number
  readonly tenants: number
  /** From the start of the state Redis to the first 202, and until all tenants are unlocked. */
  readonly firstAcceptedMs: number
  readonly allUnlockedMs: number
  /** Peak memory of `ledger` during the recovery. */
  readonly peakMb: number
}

export type RecoveryOptions = {
  readonly overrides: Readonly<Record<string, string>>
  /** Total length of the longest journals. */
  readonly entries: number
  /** A tenth of the entries is of real jobs, as long as these are not more than this number. */
  readonly maxJobs: number
  readonly log: (line: string) => void
}

const MIN_ENTRIES = 10_000
const MAX_TENANTS = 10_000
const OPEN_JOBS = 100
const ENTRIES_PER_JOB = 2
/** More frequent than the defaults: waiting for snapshots takes most of the time. */
const FREQUENT_SNAPSHOTS = { SNAPSHOT_EVERY_MS: '2000', SNAPSHOT_BEHIND_MS: '0' }
const RETRY_EVERY_MS = 50
const POLL_EVERY_MS = 200
const IDLE_POLLS = 5

type Environment = {
  readonly env: BenchStack['env']
  readonly redisProcess: Part
  readonly redisFolder: string
  readonly redis: ReturnType<typeof openRedis>
  readonly jobs: Awaited<ReturnType<typeof createRealJobs>>
  readonly journals: JournalGenerator
}
type Running = Environment & { readonly services: RunningServices }
type Timing = Pick<RecoveryStep, 'firstAcceptedMs' | 'allUnlockedMs' | 'peakMb'>

/**
 * Measures the time from a restart of the state Redis until jobs are accepted. Kills it and
 * restarts it on its files, each time with ten times as many journal entries; restarts it without
 * its files when the journals have a million entries, or all of them.
 */
export async function measureRecovery (stack: BenchStack, options: RecoveryOptions) {
  return await withEnvironment(stack, options, async environment => {
    const tenants = environment.journals.tenants.length
    const sizes = stepsTo(options.entries)
    const { bytesPerJob, ...killed } = await withServices(
      environment, { ...options.overrides, ...FREQUENT_SNAPSHOTS },
      running => measureKills(running, sizes, options))
    const last = killed.steps.at(-1) as RecoveryStep
    const { dataLoss, idlePercent } = await withServices(environment, options.overrides,
      running => measureDataLoss(running, options))
    return {
      /** After kills without data loss, with increasing lengths of the journals. */
      afterKill: killed.steps,
      /** After the deletion of all files of the state Redis, beside `openJobs` running jobs. */
      afterDataLoss: { ...last, ...dataLoss },
      openJobs: OPEN_JOBS,
      /** Of `ledger`, the highest of all steps. */
      peakMb: Math.max(...[...killed.steps, dataLoss].map(step => step.peakMb)),
      /** CPU of `ledger` with this many tenants without any load, in percent of one core. */
      idlePercent,
      idleTenants: 2 * tenants,
      /** Bytes that the state Redis needs for a job an hour after its end. */
      bytesPerJob,
    }
  })
}

/** Kills with journals of these sizes, of which a tenth is of real jobs. */
async function measureKills (
  running: Running, sizes: readonly number[], { maxJobs, log }: RecoveryOptions
): Promise<{ readonly steps: readonly RecoveryStep[], readonly bytesPerJob: number }> {
  const tenants = running.journals.tenants.length
  const steps: RecoveryStep[] = []
  let [realJobs, bytesPerJob] = [0, NaN]
  for (const entries of sizes) {
    const wanted = Math.min(maxJobs, Math.floor(entries / 10 / ENTRIES_PER_JOB))
    const count = Math.max(wanted - realJobs, 0)
    realJobs += count
    const realEntries = realJobs * ENTRIES_PER_JOB
    log(`recovery: journals of ${tenants} tenants with ${entries} entries, ` +
      `${realEntries} of them by real jobs`)
    await growJournals(running, entries - realEntries)
    if (count > 0) bytesPerJob = await measureBytesPerJob(running, count)
    steps.push({ entries, realEntries, tenants, ...await restartRedis(running) })
  }
  return { steps, bytesPerJob }
}

/** Loses all files of Redis while jobs are open, which have to end afterwards; then rests. */
async function measureDataLoss (
  running: Running, { log }: RecoveryOptions
): Promise<{ readonly dataLoss: Timing, readonly idlePercent: number }> {
  const { services, jobs, journals: { tenants } } = running
  await waitUntilStored(services)
  log(`recovery: ${OPEN_JOBS} open jobs, without the files of the state Redis`)
  await services.setScale({ verify: 0 })
  await jobs.create(services.baseUrl, OPEN_JOBS)
  const dataLoss = await restartRedis(running, emptyFolder)
  await services.setScale({})
  await withDeadline('the end of the open jobs', jobs.untilClosed())
  log(`recovery: ${2 * tenants.length} idle tenants`)
  return { dataLoss, idlePercent: await measureIdleLedger(running) }
}

/**
 * CPU of an idle `ledger` with twice as many tenants; the additional ones have only a top-up. It is
 * idle once it has a snapshot of them, which it takes when their entries are a minute old.
 */
async function measureIdleLedger (running: Running): Promise<number> {
  const { env, redis, services, journals: { tenants } } = running
  const added = await createJournalGenerator(
    { env, redis, tenants: tenants.length, prefix: 'idle' })
  try {
    const all = await countSnapshots(services) + added.tenants.length
    await added.growTo(tenants.length)
    const journals = { ...added, tenants: [...tenants, ...added.tenants] }
    await restartRedis({ ...running, journals })
    while (await countSnapshots(services) < all) await delay(POLL_EVERY_MS)
    await waitUntilStored(services)
    return await measureIdleCpu(ledgersOf(services))
  } finally {
    await added.close()
  }
}

async function withServices<T> (
  environment: Environment, overrides: RecoveryOptions['overrides'],
  work: (running: Running) => Promise<T>
): Promise<T> {
  const services = await startAll({
    env: environment.env, overrides: { ...overrides, ...RAISED_LIMITS }, processes: 9,
  })
  try {
    return await work({ ...environment, services })
  } finally {
    await services.stop()
  }
}

/** Waits until `ledger` has stored the whole journal in ClickHouse. */
async function waitUntilStored (services: RunningServices): Promise<void> {
  const ageSeconds = () =>
    sumOf(services.list(), 'stage_oldest_age_seconds', { stage: 'ledger' })
  for (let idlePolls = 0; idlePolls < IDLE_POLLS; await delay(1_000)) {
    idlePolls = await ageSeconds() === 0 ? idlePolls + 1 : 0
  }
}

const ledgersOf = (services: RunningServices) =>
  services.list().filter(({ name }) => name.startsWith('ledger'))

function stepsTo (entries: number): readonly number[] {
  const steps: number[] = []
  for (let size = MIN_ENTRIES; size < entries; size *= 10) steps.push(size)
  return [...steps, entries]
}

/** Runs work for services that share the stack, except for a separate state Redis. */
async function withEnvironment<T> (
  { env: stackEnv }: BenchStack, { entries }: RecoveryOptions,
  work: (environment: Environment) => Promise<T>
): Promise<T> {
  const dataDir = mkdtempSync(join(tmpdir(), 'verification-jobs-bench-'))
  const { spec, url } = await redisPart({
    dataDir, ports: openPortBook(dataDir), say: () => {}, role: 'state',
  })
  const env = { ...stackEnv, REDIS_STATE_URL: url }
  const [redisProcess, redis] = [createPart(spec), openRedis(url)]
  const cleanups: (() => unknown)[] = [
    () => rmSync(dataDir, { recursive: true }), () => redisProcess.stop(),
  ]
  try {
    await redisProcess.up()
    cleanups.push(() => redis.disconnect())
    const tenants = Math.min(MAX_TENANTS, Math.ceil(entries / 100))
    const journals = await createJournalGenerator({ env, redis, tenants })
    cleanups.push(journals.close)
    const redisFolder = join(dataDir, 'redis-state')
    const jobs = await createRealJobs({ env, redis })
    return await work({ env, redisProcess, redisFolder, redis, jobs, journals })
  } finally {
    for (const cleanup of cleanups.reverse()) await cleanup()
  }
}

const countSnapshots = (services: RunningServices) => sumOf(services.list(), 'snapshots_total')

/** Resolves when `ledger` has a snapshot of each tenant that includes the new entries. */
async function growJournals (
  { services, journals }: Running, entries: number
): Promise<void> {
  const before = await countSnapshots(services)
  await journals.growTo(entries)
  while (await countSnapshots(services) < before + journals.tenants.length) {
    await delay(POLL_EVERY_MS)
  }
  for (let count = 0; count !== await countSnapshots(services);) {
    count = await countSnapshots(services)
    await delay(2 * Number(FREQUENT_SNAPSHOTS.SNAPSHOT_EVERY_MS))
  }
}

/** Kills the state Redis, changes its files while it is down, starts it and times the recovery. */
async function restartRedis (
  { redisProcess, redisFolder, redis, services, jobs: { apiKey }, journals }: Running,
  changeFiles: (folder: string) => void = () => {}
): Promise<Timing> {
  resetPeaks(ledgersOf(services))
  await redisProcess.down()
  changeFiles(redisFolder)
  const startedAt = performance.now()
  await redisProcess.up()
  const elapsedMs = () => performance.now() - startedAt
  const accepted = waitUntilAccepted(services.baseUrl, apiKey).then(elapsedMs)
  const unlocked = (async () => {
    for (;;) {
      await delay(POLL_EVERY_MS)
      if (await areUnlocked(redis, journals.tenants)) return elapsedMs()
    }
  })()
  const firstAcceptedMs = await accepted
  const allUnlockedMs = Math.max(firstAcceptedMs, await unlocked)
  const peakMb = usagesOf(ledgersOf(services))[0]?.peakMb ?? NaN
  return { firstAcceptedMs, allUnlockedMs, peakMb }
}

/** Whether all wallets are unlocked for the current run of the server. */
async function areUnlocked (
  redis: Environment['redis'], tenants: readonly string[]
): Promise<boolean> {
  const server = await redis.info('server')
  const pipeline = redis.pipeline()
  for (const tenant of tenants) pipeline.hget(moneyKeys(tenant).wallet, 'run')
  const runs = await pipeline.exec() ?? []
  return runs.every(([, run]) => server.includes(`run_id:${String(run)}`))
}

/** Posts jobs until one is accepted, whatever the other responses are. */
async function waitUntilAccepted (baseUrl: string, apiKey: string): Promise<void> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  for (;;) {
    const body = JSON.stringify({ service: 'phone-validation', inputs: freshPhones(1) })
    const status = await fetch(`${baseUrl}/jobs`, { method: 'POST', headers, body })
      .then(async response => {
        await response.text()
        return response.status
      }, () => 0)
    if (status === 202) return
    await delay(RETRY_EVERY_MS)
  }
}

const CLIENTS = 32
const OPEN_JOBS_POLL_MS = 100

/** One-row jobs of an organization with enough balance for all, through the whole service. */
async function createRealJobs ({ env, redis }: Pick<Environment, 'env' | 'redis'>) {
  const { orgId, keys: { live: apiKey } } = await createDemo(env)
  const tenant = tenantOf(orgId, 'live')
  await withWorkspace(env, ({ wallet }) => wallet.topUp(tenant, TOP_UP))
  return {
    apiKey,
    /** Creates jobs from concurrent clients of this address; resolves with the last 202. */
    create: async (baseUrl: string, count: number) => {
      const client = createClient({ baseUrl, apiKey })
      await repeat(count, CLIENTS, () => client.createJob(
        { service: 'phone-validation', inputs: freshPhones(1), countryCode: 'US' }))
    },
    /** Resolves when no job is open any more. */
    untilClosed: async () => {
      const isOpen = async () => (await redis.hkeys(moneyKeys(tenant).wallet))
        .some(field => openJobIn(field) !== undefined)
      while (await isOpen()) await delay(OPEN_JOBS_POLL_MS)
    },
  }
}

/** What is deleted within the hour after a job was closed. */
const HOUR_MS = 3_600_000
const KEYS_PER_SCAN = 1_000

/**
 * Creates jobs, and measures by how many bytes the memory of Redis has grown for each of them an
 * hour after its end: keys that expire within the hour are deleted now. The first half of the jobs
 * is not measured: it grows the table of all keys, which the jobs of the last minutes need.
 */
async function measureBytesPerJob (
  { redis, jobs, services: { baseUrl } }: Running, count: number
): Promise<number> {
  const run = async (some: number) => {
    await jobs.create(baseUrl, some)
    await jobs.untilClosed()
    return await usedBytes(redis)
  }
  const half = Math.floor(count / 2)
  const before = await run(count - half)
  return (await run(half) - before) / half
}

/** The memory of Redis without keys that expire within an hour, and without its buffers. */
async function usedBytes (redis: Redis): Promise<number> {
  for (let cursor = '0', isFirst = true; isFirst || cursor !== '0'; isFirst = false) {
    const [next, keys] = await redis.scan(cursor, 'COUNT', KEYS_PER_SCAN)
    const left = await Promise.all(keys.map(key => redis.pttl(key)))
    const expiring = keys.filter((key, index) =>
      key !== LEADER_KEY && left[index]! >= 0 && left[index]! <= HOUR_MS)
    if (expiring.length > 0) await redis.del(expiring)
    cursor = next
  }
  const info = await redis.info('memory')
  const bytesOf = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1])
  return bytesOf('used_memory') - bytesOf('mem_clients_normal') - bytesOf('mem_aof_buffer')
}
