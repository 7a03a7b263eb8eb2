import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { openPortBook } from '../../../deploy/local/ports.ts'
import { redisPart } from '../../../deploy/local/redis.ts'
import { connectRedis } from '../../../services/platform/redis.ts'
import { moneyKeys } from '../../../services/money/redis-keys.ts'
import { createPart, type Part } from '../../faults/part.ts'
import { sumOf } from '../../support/metrics.ts'
import { startAll, type RunningServices } from '../../support/services.ts'
import { measureIdleCpu } from '../idle.ts'
import { freshPhones } from '../jobs.ts'
import { createFundedKey, RAISED_LIMITS, type BenchStack } from '../services.ts'
import { resetPeaks, usagesOf } from '../usage.ts'
import { createJournalGenerator, type JournalGenerator } from './journal-generator.ts'

export type RecoveryStep = {
  /** Total length of the journals, and their tenants. */
  readonly entries: number
  readonly tenants: number
  /** From the start of the state Redis to the first 202, and until all tenants are unlocked. */
  readonly firstAcceptedMs: number
  readonly allUnlockedMs: number
  /** Peak memory of `ledger` during the recovery. */
  readonly peakMb: number
}

export type RecoveryFigures = {
  /** After kills without data loss, with increasing lengths of the journals. */
  readonly afterKill: readonly RecoveryStep[]
  /** After the deletion of all files of the state Redis, with the longest journals. */
  readonly afterDataLoss: RecoveryStep
  /** The highest peak memory of `ledger` of all steps. */
  readonly peakMb: number
  /** CPU of `ledger` with this many tenants without any load, in percent of one core. */
  readonly idlePercent: number
  readonly idleTenants: number
}

export type RecoveryOptions = {
  readonly overrides: Readonly<Record<string, string>>
  /** Total length of the longest journals. */
  readonly entries: number
  readonly log: (line: string) => void
}

const MIN_ENTRIES = 10_000
const MAX_TENANTS = 10_000
/** More frequent than the defaults: waiting for snapshots takes most of the time. */
const FREQUENT_SNAPSHOTS = { SNAPSHOT_EVERY_MS: '2000', SNAPSHOT_BEHIND_MS: '0' }
const RETRY_EVERY_MS = 50
/** By then, a new leader has ended its initial work and its first snapshots. */
const LEADER_START_MS = 40_000
const POLL_EVERY_MS = 200
const IDLE_POLLS = 5

type Environment = {
  readonly env: BenchStack['env']
  readonly redisProcess: Part
  readonly redisFolder: string
  readonly redis: ReturnType<typeof connectRedis>
  readonly services: RunningServices
  readonly apiKey: string
  readonly journals: JournalGenerator
}

/**
 * Measures the time from a restart of the state Redis until jobs are accepted. Kills it and
 * restarts it on its files, each time with ten times as many journal entries; finally restarts it
 * without its files.
 */
export async function measureRecovery (
  stack: BenchStack, options: RecoveryOptions
): Promise<RecoveryFigures> {
  const { entries, log } = options
  return await withEnvironment(stack, options, async environment => {
    const tenants = environment.journals.tenants.length
    const afterKill: RecoveryStep[] = []
    for (const size of stepsTo(entries)) {
      log(`recovery: journals of ${tenants} tenants with ${size} entries`)
      await growJournals(environment, size)
      afterKill.push({ entries: size, tenants, ...await restartRedis(environment) })
    }
    const services = await restartServices(environment, options)
    const defaults = { ...environment, services }
    try {
      await waitUntilStored(services)
      log('recovery: the longest journals, without the files of the state Redis')
      const dataLoss = await restartRedis(defaults, deleteFiles)
      const peakMb = Math.max(...[...afterKill, dataLoss].map(step => step.peakMb))
      log(`recovery: ${2 * tenants} idle tenants`)
      const idlePercent = await measureIdleLedger(defaults)
      const afterDataLoss = { entries, tenants, ...dataLoss }
      return { afterKill, afterDataLoss, peakMb, idlePercent, idleTenants: 2 * tenants }
    } finally {
      await services.stop()
    }
  })
}

/** CPU of an idle `ledger` with twice as many tenants; the additional ones have only a top-up. */
async function measureIdleLedger (environment: Environment): Promise<number> {
  const { env, redis, services, journals: { tenants } } = environment
  const added = createJournalGenerator({ env, redis, tenants: tenants.length, prefix: 'idle' })
  try {
    await added.growTo(tenants.length)
    const journals = { ...added, tenants: [...tenants, ...added.tenants] }
    await restartRedis({ ...environment, journals })
    await delay(LEADER_START_MS)
    await waitUntilStored(services)
    return await measureIdleCpu(ledgersOf(services))
  } finally {
    await added.close()
  }
}

/** Replaces the services that take frequent snapshots by services with the default interval. */
async function restartServices (
  { env, services }: Environment, { overrides }: RecoveryOptions
): Promise<RunningServices> {
  await services.stop()
  return await startAll({ env, overrides: { ...overrides, ...RAISED_LIMITS } })
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

/** Runs work on services that share the stack, except for a separate state Redis. */
async function withEnvironment<T> (
  { env: stackEnv }: BenchStack, { overrides, entries }: RecoveryOptions,
  work: (environment: Environment) => Promise<T>
): Promise<T> {
  const dataDir = mkdtempSync(join(tmpdir(), 'verification-jobs-bench-'))
  const { spec, url } = await redisPart({
    dataDir, ports: openPortBook(dataDir), say: () => {}, role: 'state',
  })
  const env = { ...stackEnv, REDIS_STATE_URL: url }
  const [redisProcess, redis] = [createPart(spec), connectRedis(url)]
  const cleanups: (() => unknown)[] = [
    () => rmSync(dataDir, { recursive: true }), () => redisProcess.stop(),
  ]
  try {
    await redisProcess.up()
    cleanups.push(() => redis.disconnect())
    const services = await startAll({
      env, overrides: { ...overrides, ...RAISED_LIMITS, ...FREQUENT_SNAPSHOTS },
    })
    cleanups.push(services.stop)
    const tenants = Math.min(MAX_TENANTS, Math.ceil(entries / 100))
    const journals = createJournalGenerator({ env, redis, tenants })
    cleanups.push(journals.close)
    const redisFolder = join(dataDir, 'redis-state')
    const apiKey = await createFundedKey(env)
    return await work({ env, redisProcess, redisFolder, redis, services, apiKey, journals })
  } finally {
    for (const cleanup of cleanups.reverse()) await cleanup()
  }
}

/** Resolves when `ledger` has a snapshot of each tenant that includes the new entries. */
async function growJournals (
  { services, journals }: Environment, entries: number
): Promise<void> {
  const countSnapshots = () => sumOf(services.list(), 'snapshots_total')
  const before = await countSnapshots()
  await journals.growTo(entries)
  while (await countSnapshots() < before + journals.tenants.length) await delay(POLL_EVERY_MS)
  for (let count = 0; count !== await countSnapshots();) {
    count = await countSnapshots()
    await delay(2 * Number(FREQUENT_SNAPSHOTS.SNAPSHOT_EVERY_MS))
  }
}

function deleteFiles (folder: string): void {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
}

/** Kills the state Redis, changes its files while it is down, starts it and times the recovery. */
async function restartRedis (
  { redisProcess, redisFolder, redis, services, apiKey, journals }: Environment,
  changeFiles: (folder: string) => void = () => {}
): Promise<Omit<RecoveryStep, 'entries' | 'tenants'>> {
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
