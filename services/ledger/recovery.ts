import type { Redis } from 'ioredis'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { Sleep } from '../platform/retry.ts'
import { moneyKeys, REPLAYING_KEY } from '../money/redis-keys.ts'
import { IDLE_AFTER_MS, type Tenants } from '../money/tenants.ts'
import { compare, type CompareDeps, type Compared, type Comparison } from './compare.ts'
import type { LeaderTerm, Step } from './recovery-store.ts'
import { withHeld } from './journal-fold.ts'
import { endedOf, rebuildEnded, rebuildOpen } from './rebuild-jobs.ts'
import { repairKeys, type Lacking, type RepairKeysDeps } from './restore-keys.ts'
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

/** Tenants that are let in at the same time. */
const AT_ONCE = 32
const PROGRESS_EVERY_MS = 5_000

/**
 * Compares every tenant that is not let in with the journal, brings what Redis lacks, and lets it
 * in, the busiest first: the one way in for a tenant with a past. Snapshots are believed as far as
 * nothing contradicts them; whoever is left is compared with the whole journal behind the others.
 * Each step may be repeated, and letting in is the last one, so a crash anywhere leaves a tenant
 * that waits for the next recovery. Returns every tenant that the journal has entries of or that
 * was compared. `onWaiting` hears how many still wait.
 * @throws InfrastructureError when Redis, Kafka or the archive cannot be read.
 */
export async function recover (
  deps: RecoveryDeps, fence: string, { signal, onWaiting = () => {} }: RecoverOptions
): Promise<ReadonlySet<string>> {
  const admit = async ({ compared, doubtful }: Comparison) => {
    const progress = createProgress(deps, compared.length + doubtful.size, onWaiting)
    await admitAll(deps, fence, { compared, progress, signal })
  }
  const base = await readSnapshots(deps, signal)
  const first = await compare(deps, { fence, base, signal, onWaiting })
  await admit(first)
  const { doubtful } = first
  if (doubtful.size > 0) {
    const some = [...doubtful].slice(0, 10)
    deps.log.warn({ tenants: doubtful.size, some }, 'tenants whose state does not continue ' +
      'their last snapshot are compared with the whole journal')
    const options = { fence, base: NO_BASE, signal, onWaiting, only: doubtful }
    await admit(await compare(deps, options))
  }
  return first.known
}

type RecoverOptions = {
  readonly signal: AbortSignal
  readonly onWaiting?: (tenants: number) => void
}

/** Tells how many tenants are left, and logs it once in a while. */
function createProgress (
  { clock, log }: Pick<RecoveryDeps, 'clock' | 'log'>, all: number,
  onWaiting: (tenants: number) => void
) {
  let left = all
  let loggedAtMs = clock.now()
  return (letIn: number) => {
    left -= letIn
    onWaiting(left)
    if (clock.now() - loggedAtMs < PROGRESS_EVERY_MS) return
    loggedAtMs = clock.now()
    log.info({ waiting: left, of: all }, 'tenants are let in')
  }
}

async function admitAll (
  deps: RecoveryDeps, fence: string,
  { compared, progress, signal }: Pick<Comparison, 'compared'> & {
    readonly progress: (letIn: number) => void, readonly signal: AbortSignal,
  }
): Promise<void> {
  const run = compared[0]?.standing.run
  await repairKeys(deps, { run, lacking: lackingOf(compared) }, signal)
  const waiting = compared.toSorted(byWork)
  for (let from = 0; from < waiting.length; from += AT_ONCE) {
    signal.throwIfAborted()
    const some = waiting.slice(from, from + AT_ONCE)
    await Promise.all(some.map(one => letIn(deps, { run: one.standing.run, fence }, one)))
    progress(some.length)
  }
}

/** Those with most open jobs, then those whose money moved last. */
const byWork = ({ fold: one }: Compared, { fold: other }: Compared) =>
  other.open.size - one.open.size || other.at - one.at

/** Jobs that reserved after what Redis knows, so that it may lack their data keys. */
function lackingOf (compared: readonly Compared[]): ReadonlyMap<string, Lacking> {
  return new Map(compared.flatMap(({ standing: { tenant, seq }, fold, uncounted }) => {
    const ended = [...fold.ended.values()].map(({ reserve, end }) => reserve ?? end)
    return [...fold.open.values(), ...uncounted, ...ended].filter(entry => entry.seq > seq)
      .map(({ job, at }) => [job, { tenant, atMs: at }] as const)
  }))
}

async function letIn (deps: RecoveryDeps, term: LeaderTerm, one: Compared): Promise<void> {
  const { tenant } = one.standing
  const { faults, missing } = one.verdict
  if (missing.length > 0) await writeMissing(deps, one)
  // Of a frozen tenant no money moves, and the rows of its jobs are finished all the same: whoever
  // finds no job drops them.
  const { open, ended } = withHeld(one.fold)
  const known = new Map(one.standing.openJobs.map(job => [job.job, job]))
  const begun = await rebuildOpen(deps, term, { open, known })
  const over = await rebuildEnded(deps, endedOf(ended, { term, openJobs: known }))
  if (begun.moved || over.moved) return
  const uncounted = [...one.uncounted, ...begun.uncounted, ...over.uncounted]
  const verdict = { ...one.verdict, faults: [...faults, ...begun.faults] }
  const found = { ...one, verdict, uncounted }
  // What comes back from a backup may have work and no mark.
  if (isActive(found, deps.clock.now())) await deps.tenants.activate([tenant])
  if (verdict.faults.length > 0) return await freeze(deps, term, found)
  if (await restore(deps, term, found) === 'moved') return
  deps.metrics.count('recovery_actions_total', { kind: 'tenant' })
  const { seq } = one.standing
  const details = { tenant, seq, journal: one.fold.seq, jobsMade: begun.made + over.made }
  if (one.verdict.behind) deps.log.warn(details, 'a wallet was brought to the end of the journal')
  else deps.log.info(details, 'a tenant was let in')
}

/** Whether sweeps have to visit the tenant: one that is idle would only cost them time. */
const isActive = ({ standing, fold, verdict, uncounted }: Compared, nowMs: number) =>
  nowMs - fold.at < IDLE_AFTER_MS || [
    standing.outbox, standing.openJobs, uncounted, verdict.faults,
  ].some(({ length }) => length > 0)

/** Without them every later comparison would find the gap once more. */
async function writeMissing (
  { emitter, log }: RecoveryDeps, { standing: { tenant }, verdict: { missing } }: Compared
): Promise<void> {
  log.warn({ tenant, seqs: missing.map(({ seq }) => seq) }, 'entries the journal lacked are told')
  await emitter.emit(missing.map(value =>
    ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
}

async function restore (
  { redis, recoveryStore }: RecoveryDeps, term: LeaderTerm, one: Compared
): Promise<Step> {
  const { standing: { tenant, seq }, fold, verdict } = one
  const { posted, replay } = moneyKeys(tenant)
  if (verdict.behind) {
    await Promise.all([...fold.posted.values()].map(one =>
      redis.hsetnx(posted, one.id, `${one.seq}:${one.amountMicros}`)))
  }
  // Whatever was counted of a running job may be lost as well: its blocks are counted again.
  const since = sinceOf(one)
  if (since.size > 0) {
    await redis.sadd(REPLAYING_KEY, tenant)
    await redis.hset(replay, Object.fromEntries(since))
  }
  const restored = verdict.behind ? { seq: fold.seq, amounts: fold.amounts } : undefined
  return await recoveryStore.unlock(tenant, term, { seq, restored })
}

/** Jobs whose blocks are to be counted again, and from when on. */
function sinceOf (
  { standing: { openJobs }, fold, uncounted }: Compared
): ReadonlyMap<string, number> {
  const running = openJobs.filter(({ job, state }) =>
    (state === 'running' || state === 'settled') && !fold.endedOpen.has(job))
  return new Map([
    ...running.map(({ job, sinceMs }) => [job, sinceMs] as const),
    ...uncounted.map(({ job, at }) => [job, at] as const),
  ])
}

async function freeze (
  { recoveryStore, log, metrics }: RecoveryDeps, term: LeaderTerm, { standing, verdict }: Compared
): Promise<void> {
  const { tenant, seq } = standing
  const frozen = verdict.faults.join('; ').slice(0, 1_000)
  if (await recoveryStore.unlock(tenant, term, { seq, frozen }) === 'moved') return
  metrics.count('recovery_actions_total', { kind: 'frozen' })
  log.error({ tenant, faults: verdict.faults }, 'the wallet of a tenant is frozen')
}
