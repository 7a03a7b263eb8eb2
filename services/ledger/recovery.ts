import type { Redis } from 'ioredis'
import type { Clock } from '../runtime/platform/clock.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { Sleep } from '../runtime/platform/retry.ts'
import { moneyKeys, RECOUNTING_KEY } from '../money/redis-keys.ts'
import { IDLE_AFTER_MS, type Tenants } from '../money/tenants.ts'
import { compare, type CompareDeps, type Compared, type Comparison } from './compare.ts'
import type { LeaderTerm, Step } from './recovery-store.ts'
import { withEntriesAfterGap } from './journal-state.ts'
import { endedOf, rebuildEnded, rebuildOpen } from './rebuild-jobs.ts'
import { repairKeys, type MissingKey, type RepairKeysDeps } from './restore-keys.ts'
import { NO_BASE, readSnapshots } from './snapshots.ts'

export type RecoveryDeps = CompareDeps & RepairKeysDeps & {
  readonly redis: Pick<Redis, 'sadd' | 'hset' | 'hsetnx'>
  readonly tenants: Pick<Tenants, 'activate'>
  /** Redis time. */
  readonly clock: Clock
  readonly sleep: Sleep
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>
  readonly metrics: Pick<Metrics, 'count'>
}

/** Tenants that are unlocked concurrently. */
const AT_ONCE = 32
const PROGRESS_EVERY_MS = 5_000

/**
 * Compares every locked wallet with the journal, restores what Redis lacks, and unlocks it, the
 * busiest first. Wallets that contradict their snapshots are compared with the whole journal
 * afterwards. Each step is idempotent and the unlock is the last one, so a crash leaves a wallet
 * locked for the next recovery. `onWaiting` is called with the number of wallets that are still
 * locked.
 * @throws InfrastructureError when Redis, Kafka or the archive cannot be read.
 */
export async function recover (
  deps: RecoveryDeps, fence: string, { signal, onWaiting = () => {} }: RecoverOptions
): Promise<Recovered> {
  const unlock = async ({ compared, suspect, unreachable }: Comparison) => {
    const waiting = compared.length + suspect.size + unreachable.size
    const progress = createProgress(deps, waiting, onWaiting)
    await unlockAll(deps, fence, { compared, progress, signal })
  }
  const base = await readSnapshots(deps, signal)
  const first = await compare(deps, { fence, base, signal, onWaiting })
  await unlock(first)
  const { suspect, known, unreachable } = first
  if (suspect.size > 0) {
    const some = [...suspect].slice(0, 10)
    deps.log.warn({ tenants: suspect.size, some }, 'tenants contradict their snapshots: ' +
      'comparing them with the whole journal')
    const options = { fence, base: NO_BASE, signal, onWaiting, only: suspect }
    await unlock(await compare(deps, options))
  }
  return { known, unreachable }
}

/**
 * `known`: every tenant with entries in the journal or a wallet that was compared. `unreachable`:
 * those on a server that cannot execute scripts now; they stay locked.
 */
type Recovered = Pick<Comparison, 'known' | 'unreachable'>

type RecoverOptions = {
  readonly signal: AbortSignal
  readonly onWaiting?: (tenants: number) => void
}

/** Reports how many tenants are still locked, and logs it every few seconds. */
function createProgress (
  { clock, log }: Pick<RecoveryDeps, 'clock' | 'log'>, all: number,
  onWaiting: (tenants: number) => void
) {
  let left = all
  let loggedAtMs = clock.now()
  return (unlocked: number) => {
    left -= unlocked
    onWaiting(left)
    if (clock.now() - loggedAtMs < PROGRESS_EVERY_MS) return
    loggedAtMs = clock.now()
    log.info({ locked: left, total: all }, 'tenants unlocked')
  }
}

async function unlockAll (
  deps: RecoveryDeps, fence: string,
  { compared, progress, signal }: Pick<Comparison, 'compared'> & {
    readonly progress: (unlocked: number) => void, readonly signal: AbortSignal,
  }
): Promise<void> {
  await repairKeys(deps, missingKeysOf(compared), signal)
  const waiting = compared.toSorted(byWork)
  for (let from = 0; from < waiting.length; from += AT_ONCE) {
    signal.throwIfAborted()
    const some = waiting.slice(from, from + AT_ONCE)
    await Promise.all(some.map(one => unlockTenant(deps, { run: one.wallet.run, fence }, one)))
    progress(some.length)
  }
}

/** Most open jobs first, then the latest movement. */
const byWork = ({ journal: one }: Compared, { journal: other }: Compared) =>
  other.open.size - one.open.size || other.at - one.at

/** Jobs whose reservations Redis has lost, so that it may lack their data keys. */
function missingKeysOf (compared: readonly Compared[]): ReadonlyMap<string, MissingKey> {
  return new Map(compared.flatMap(({ wallet: { tenant, seq }, journal, uncounted }) => {
    const ended = [...journal.ended.values()].map(({ reserve, end }) => reserve ?? end)
    return [...journal.open.values(), ...uncounted, ...ended].filter(entry => entry.seq > seq)
      .map(({ job, at }) => [job, { tenant, atMs: at }] as const)
  }))
}

async function unlockTenant (deps: RecoveryDeps, term: LeaderTerm, one: Compared): Promise<void> {
  const { tenant } = one.wallet
  const { faults, missing } = one.verdict
  if (missing.length > 0) await writeMissing(deps, one)
  // Jobs of a frozen wallet are rebuilt as well: their rows are finished, and a stage that finds no
  // job would drop them.
  const { open, ended } = withEntriesAfterGap(one.journal)
  const known = new Map(one.wallet.openJobs.map(job => [job.job, job]))
  const rebuiltOpen = await rebuildOpen(deps, term, { open, known })
  const rebuiltEnded = await rebuildEnded(deps, endedOf(ended, { term, openJobs: known }))
  if (rebuiltOpen.superseded || rebuiltEnded.superseded) return
  const uncounted = [...one.uncounted, ...rebuiltOpen.uncounted, ...rebuiltEnded.uncounted]
  const verdict = { ...one.verdict, faults: [...faults, ...rebuiltOpen.faults] }
  const found = { ...one, verdict, uncounted }
  // A restored backup may contain work without a mark.
  if (isActive(found, deps.clock.now())) await deps.tenants.activate([tenant])
  if (verdict.faults.length > 0) return await freeze(deps, term, found)
  if (await restore(deps, term, found) === 'superseded') return
  deps.metrics.count('recovery_actions_total', { kind: 'tenant' })
  const { seq } = one.wallet
  const jobsMade = rebuiltOpen.made + rebuiltEnded.made
  const details = { tenant, seq, journal: one.journal.seq, jobsMade }
  if (one.verdict.behind) deps.log.warn(details, 'wallet restored from journal')
  else deps.log.info(details, 'tenant unlocked')
}

/** Whether a takeover must visit the tenant. */
const isActive = ({ wallet, journal, verdict, uncounted }: Compared, nowMs: number) =>
  nowMs - journal.at < IDLE_AFTER_MS || [
    wallet.outbox, wallet.openJobs, uncounted, verdict.faults,
  ].some(({ length }) => length > 0)

/** Appends reconstructed entries to the journal, or every later comparison would find the gap. */
async function writeMissing (
  { emitter, log }: RecoveryDeps, { wallet: { tenant }, verdict: { missing } }: Compared
): Promise<void> {
  await emitter.emit(missing.map(value =>
    ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
  log.warn({ tenant, seqs: missing.map(({ seq }) => seq) }, 'missing journal entries ' +
    'reconstructed from later balances; verify them with "npm run ops -- audit --full"')
}

async function restore (
  { redis, recoveryStore }: RecoveryDeps, term: LeaderTerm, one: Compared
): Promise<Step> {
  const { wallet: { tenant, seq }, journal, verdict } = one
  const { posted, recounts } = moneyKeys(tenant)
  if (verdict.behind) {
    await Promise.all(journal.posted.map(one =>
      redis.hsetnx(posted, one.id, `${one.seq}:${one.amountMicros}`)))
  }
  // The tally of a running job may be lost as well, so its blocks are recounted.
  const since = sinceOf(one)
  if (since.size > 0) {
    await redis.sadd(RECOUNTING_KEY, tenant)
    await redis.hset(recounts, Object.fromEntries(since))
  }
  const restored = verdict.behind ? { seq: journal.seq, amounts: journal.amounts } : undefined
  return await recoveryStore.unlock(tenant, term, { seq, restored })
}

/** Jobs whose blocks must be recounted, and from which time on. */
function sinceOf (
  { wallet: { openJobs }, journal, uncounted }: Compared
): ReadonlyMap<string, number> {
  const running = openJobs.filter(({ job, state }) =>
    (state === 'running' || state === 'settled') && !journal.endedOpen.has(job))
  return new Map([
    ...running.map(({ job, sinceMs }) => [job, sinceMs] as const),
    ...uncounted.map(({ job, at }) => [job, at] as const),
  ])
}

async function freeze (
  { recoveryStore, log, metrics }: RecoveryDeps, term: LeaderTerm, { wallet, verdict }: Compared
): Promise<void> {
  const { tenant, seq } = wallet
  const frozen = verdict.faults.join('; ').slice(0, 1_000)
  if (await recoveryStore.unlock(tenant, term, { seq, frozen }) === 'superseded') return
  reportFrozen({ log, metrics }, tenant, frozen)
}

/** Counts and logs that a wallet was frozen. */
export function reportFrozen (
  { log, metrics }: Pick<RecoveryDeps, 'log' | 'metrics'>, tenant: string, reason: string
): void {
  metrics.count('recovery_actions_total', { kind: 'frozen' })
  log.error({ tenant, reason }, 'wallet frozen: no money of this tenant moves until ' +
    '"npm run workspace -- thaw"; see TenantsFrozen in the runbook')
}
