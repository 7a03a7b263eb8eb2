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
import { measureIdle } from '../idle.ts'
import { phones } from '../jobs.ts'
import { richKey, WIDE_LIMITS, type BenchStack } from '../services.ts'
import { forgetPeaks, usages } from '../usage.ts'
import { createHistory, type History } from './history.ts'

export type RecoveryStep = {
  /** Entries of the journal, and tenants they are of. */
  readonly entries: number
  readonly tenants: number
  /** From the kill of the state Redis to the first 202, and until the last tenant is unlocked. */
  readonly firstMs: number
  readonly lastMs: number
  /** Of `ledger`, meanwhile. */
  readonly peakMb: number
}

export type RecoveryFigures = {
  /** Nothing lost, with longer and longer journals. */
  readonly killed: readonly RecoveryStep[]
  /** All files of the state Redis deleted, with the longest of them. */
  readonly emptied: RecoveryStep
  /** Of `ledger`, the highest of all. */
  readonly peakMb: number
  /** CPU of `ledger` with so many tenants while nothing is under way, at last; of a core. */
  readonly idlePercent: number
  readonly idleTenants: number
}

export type RecoveryOptions = {
  readonly overrides: Readonly<Record<string, string>>
  /** Of the longest journal. */
  readonly entries: number
  readonly show: (line: string) => void
}

const MIN_ENTRIES = 10_000
const MAX_TENANTS = 10_000
/** More often than usual, as the longest wait of all is for them. */
const SNAPSHOTS = { SNAPSHOT_EVERY_MS: '2000', SNAPSHOT_BEHIND_MS: '0' }
const ASK_EVERY_MS = 50
/** A ledger that leads is done by then with what it does once, and with its first snapshots. */
const UNDER_WAY_MS = 40_000
const LEADER_POLL_MS = 200
const QUIET_LOOKS = 5

type Environment = {
  readonly env: BenchStack['env']
  readonly part: Part
  readonly files: string
  readonly redis: ReturnType<typeof connectRedis>
  readonly services: RunningServices
  readonly apiKey: string
  readonly history: History
}

/**
 * How long it takes after a restart of the state Redis until jobs are accepted: it is killed and
 * started on its files with ten times as many entries each time, and at last without files.
 */
export async function measureRecovery (
  stack: BenchStack, options: RecoveryOptions
): Promise<RecoveryFigures> {
  const { entries, show } = options
  return await withEnvironment(stack, options, async environment => {
    const tenants = environment.history.tenants.length
    const killed: RecoveryStep[] = []
    for (const some of stepsTo(entries)) {
      show(`recovery: a journal of ${some} entries of ${tenants} tenants`)
      await grow(environment, some)
      killed.push({ entries: some, tenants, ...await restart(environment) })
    }
    const usual = { ...environment, services: await restartServices(environment, options) }
    try {
      await untilCopied(usual.services)
      show('recovery: the longest journal without any file of the state Redis')
      const lost = await restart(usual, empty)
      const peakMb = Math.max(...[...killed, lost].map(step => step.peakMb))
      show(`recovery: ${2 * tenants} tenants, idle`)
      const idlePercent = await measureTwice(usual)
      const emptied = { entries, tenants, ...lost }
      return { killed, emptied, peakMb, idlePercent, idleTenants: 2 * tenants }
    } finally {
      await usual.services.stop()
    }
  })
}

/** CPU of an idle `ledger` with twice as many tenants: the others have nothing but a top-up. */
async function measureTwice (environment: Environment): Promise<number> {
  const { env, redis, services, history: { tenants } } = environment
  const more = createHistory({ env, redis, tenants: tenants.length, prefix: 'idle' })
  try {
    await more.grow(tenants.length)
    await restart({ ...environment, history: { ...more, tenants: [...tenants, ...more.tenants] } })
    await delay(UNDER_WAY_MS)
    await untilCopied(services)
    return await measureIdle(ledgersOf(services))
  } finally {
    await more.close()
  }
}

/** Services that are set as usual, in place of those that take snapshots all the time. */
async function restartServices (
  { env, services }: Environment, { overrides }: RecoveryOptions
): Promise<RunningServices> {
  await services.stop()
  return await startAll({ env, overrides: { ...overrides, ...WIDE_LIMITS } })
}

/** Until nothing of the journal is on its way to ClickHouse. */
async function untilCopied (services: RunningServices): Promise<void> {
  const age = () => sumOf(services.list(), 'stage_oldest_age_seconds', { stage: 'ledger' })
  for (let quiet = 0; quiet < QUIET_LOOKS; await delay(1_000)) {
    quiet = await age() === 0 ? quiet + 1 : 0
  }
}

const ledgersOf = (services: RunningServices) =>
  services.list().filter(({ name }) => name.startsWith('ledger'))

function stepsTo (entries: number): readonly number[] {
  const steps: number[] = []
  for (let some = MIN_ENTRIES; some < entries; some *= 10) steps.push(some)
  return [...steps, entries]
}

/** Services on the stack, but on a state Redis of their own. */
async function withEnvironment<T> (
  { env: outer }: BenchStack, { overrides, entries }: RecoveryOptions,
  work: (environment: Environment) => Promise<T>
): Promise<T> {
  const dataDir = mkdtempSync(join(tmpdir(), 'verification-jobs-bench-'))
  const { spec, url } = await redisPart({
    dataDir, ports: openPortBook(dataDir), say: () => {}, role: 'state',
  })
  const env = { ...outer, REDIS_STATE_URL: url }
  const [part, redis] = [createPart(spec), connectRedis(url)]
  const ends = [() => rmSync(dataDir, { recursive: true }), () => part.stop()] as (() => unknown)[]
  try {
    await part.up()
    ends.push(() => redis.disconnect())
    const settings = { ...overrides, ...WIDE_LIMITS, ...SNAPSHOTS }
    const services = await startAll({ env, overrides: settings })
    ends.push(services.stop)
    const tenants = Math.min(MAX_TENANTS, Math.ceil(entries / 100))
    const history = createHistory({ env, redis, tenants })
    ends.push(history.close)
    const files = join(dataDir, 'redis-state')
    return await work({
      env, part, files, redis, services, apiKey: await richKey(env), history,
    })
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

/** Ends when `ledger` has a snapshot of each tenant that includes what is new. */
async function grow ({ services, history }: Environment, entries: number): Promise<void> {
  const written = () => sumOf(services.list(), 'snapshots_total')
  const before = await written()
  await history.grow(entries)
  while (await written() < before + history.tenants.length) await delay(LEADER_POLL_MS)
  for (let known = 0; known !== await written();) {
    known = await written()
    await delay(2 * Number(SNAPSHOTS.SNAPSHOT_EVERY_MS))
  }
}

function empty (files: string): void {
  rmSync(files, { recursive: true, force: true })
  mkdirSync(files)
}

async function restart (
  { part, files, redis, services, apiKey, history }: Environment,
  change: (files: string) => void = () => {}
): Promise<Omit<RecoveryStep, 'entries' | 'tenants'>> {
  forgetPeaks(ledgersOf(services))
  await part.down()
  change(files)
  const startedAt = performance.now()
  await part.up()
  const passed = () => performance.now() - startedAt
  const accepted = firstAccepted(services.baseUrl, apiKey).then(passed)
  const over = (async () => {
    for (;;) {
      await delay(LEADER_POLL_MS)
      if (await areUnlocked(redis, history.tenants)) return passed()
    }
  })()
  const firstMs = await accepted
  const lastMs = Math.max(firstMs, await over)
  return { firstMs, lastMs, peakMb: usages(ledgersOf(services))[0]?.peakMb ?? NaN }
}

/** Whether all of these are unlocked for this run of the server. */
async function areUnlocked (
  redis: Environment['redis'], tenants: readonly string[]
): Promise<boolean> {
  const server = await redis.info('server')
  const gates = redis.pipeline()
  for (const tenant of tenants) gates.hget(moneyKeys(tenant).wallet, 'run')
  const runs = await gates.exec() ?? []
  return runs.every(([, run]) => server.includes(`run_id:${String(run)}`))
}

/** Posts a job again and again, whatever is answered, until one is accepted. */
async function firstAccepted (baseUrl: string, apiKey: string): Promise<void> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  for (;;) {
    const body = JSON.stringify({ service: 'phone-validation', inputs: phones(1) })
    const status = await fetch(`${baseUrl}/jobs`, { method: 'POST', headers, body })
      .then(async answer => {
        await answer.text()
        return answer.status
      }, () => 0)
    if (status === 202) return
    await delay(ASK_EVERY_MS)
  }
}
