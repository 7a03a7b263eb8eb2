import type { Redis } from 'ioredis'
import type { Journal } from '../../schemas/types.ts'
import { isTenant } from '../accounts/tenant.ts'
import { CHAIN_START, type JournalCopy } from '../money/journal.ts'
import { moneyKeys, RECOUNTING_KEY } from '../money/redis-keys.ts'
import { IDLE_AFTER_MS, type Tenants } from '../money/wallet.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import type { Clock, Sleep } from '../runtime/platform/retry.ts'
import { isInfrastructure, orIfUnavailable } from '../runtime/platform/errors.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import {
  chooseRetention, type JournalDeps, JournalState, lacksPosted, readJournal, type Recent, reconcile,
  type Reconciliation,
} from './journal-state.ts'
import { selectEnded, type RebuildDeps, rebuildEnded, rebuildOpen } from './rebuild-jobs.ts'
import type { LeaderTerm, RecoveryStore, Step, LockedWallet } from './recovery-store.ts'
import { repairKeys, type RepairKeysDeps } from './restore-keys.ts'
import {
  type Base, coversNothing, NO_BASE, readSnapshots, snapshotIn, type SnapshotWriteDeps,
  writeSnapshots,
} from './snapshots.ts'

export type RecoveryDeps = JournalDeps & RebuildDeps & RepairKeysDeps & SnapshotWriteDeps & {
  readonly redis: Pick<Redis, 'sadd' | 'hset'>
  readonly tenants: Pick<Tenants, 'all' | 'add' | 'activate'>
  readonly recoveryStore: Pick<RecoveryStore, 'fenceWallet' | 'unlock' | 'rebuild'>
  readonly journal: Pick<JournalCopy, 'lengths' | 'heads'>
  /** Redis time. */
  readonly clock: Clock
  readonly sleep: Sleep
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>
  readonly metrics: Pick<Metrics, 'count'>
  /** The journal is read a second time, this long after the start of the comparison. */
  readonly graceMs: number
}

type RecoverOptions = {
  readonly signal: AbortSignal
  /** Called with the number of wallets that are still locked. */
  readonly onWaiting?: (tenants: number) => void
}

/** Tenants that are unlocked concurrently. */
const AT_ONCE = 32
const PROGRESS_EVERY_MS = 5_000

/**
 * Compares every locked wallet with the journal, restores what Redis lacks, and unlocks it, the
 * busiest first. Wallets that contradict their snapshots are compared with the whole journal
 * afterwards. Each step is idempotent and the unlock is the last one, so a crash leaves a wallet
 * locked for the next recovery.
 * @throws InfrastructureError when Redis or Kafka cannot be read.
 */
export async function recover (
  deps: RecoveryDeps, fence: string, { signal, onWaiting = () => {} }: RecoverOptions
): Promise<Pick<Comparison, 'known' | 'unreachable'>> {
  const unreachable = new Set<string>()
  const unlock = async (comparison: Comparison) => {
    const { compared, suspect, contradicted } = comparison
    for (const tenant of comparison.unreachable) unreachable.add(tenant)
    const waiting = compared.length + suspect.size + contradicted.size + unreachable.size
    const progress = createProgress(deps, waiting, onWaiting)
    const left = await unlockAll(deps, fence, { compared, progress, signal })
    for (const tenant of left) unreachable.add(tenant)
  }
  const base = await readSnapshots(deps, signal)
  const first = await compare(deps, { fence, base, signal, onWaiting })
  await unlock(first)
  const { suspect, known } = first
  const contradicted = new Set(first.contradicted)
  const again = { fence, base: NO_BASE, signal, onWaiting }
  if (suspect.size > 0) {
    const some = [...suspect].slice(0, 10)
    deps.log.warn({ tenants: suspect.size, some }, 'snapshots do not suffice for some ' +
      'tenants: comparing them with the whole journal')
    const second = await compare(deps, { ...again, only: suspect })
    await unlock(second)
    for (const tenant of second.contradicted) contradicted.add(tenant)
  }
  if (contradicted.size > 0) {
    const some = [...contradicted].slice(0, 10)
    deps.log.warn({ tenants: contradicted.size, some }, 'journals contradict themselves, or are ' +
      'trusted over Redis: counting their movements by id')
    await unlock(await compare(deps, { ...again, only: contradicted, countsMovements: true }))
  }
  if (unreachable.size > 0) {
    const some = [...unreachable].slice(0, 10)
    deps.log.warn({ tenants: unreachable.size, some }, 'tenants stay locked: their server does ' +
      'not respond, or ClickHouse does not, from which they need what Redis has lost')
  }
  return { known, unreachable }
}

/** Reports how many tenants are still locked, and logs it every few seconds. */
function createProgress (
  { clock, log }: RecoveryDeps, all: number, onWaiting: (tenants: number) => void
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

type CompareOptions = {
  readonly fence: string
  readonly base: Base
  readonly signal: AbortSignal
  /** Called with the number of locked tenants known so far. */
  readonly onWaiting: (tenants: number) => void
  /** The tenants to compare; by default all locked ones. */
  readonly only?: ReadonlySet<string>
  /** Count movements by their ids, which takes memory for each. */
  readonly countsMovements?: boolean
}

/** A locked wallet and its journal. `uncounted`: entries of jobs whose blocks must be recounted. */
type Compared = {
  readonly wallet: LockedWallet
  readonly journal: JournalState
  readonly verdict: Reconciliation
  readonly uncounted: readonly Journal[]
}

type Comparison = {
  readonly compared: readonly Compared[]
  /** Tenants that contradict the base, or that it covers too little of. */
  readonly suspect: ReadonlySet<string>
  /** Tenants whose journal contradicts itself or is trusted: their movements must be counted. */
  readonly contradicted: ReadonlySet<string>
  /** Every tenant with entries in the journal or a locked wallet. */
  readonly known: ReadonlySet<string>
  /**
   * Tenants that stay locked for now: their server cannot execute scripts, or ClickHouse cannot be
   * read, and Redis has lost all of them or ends of their jobs.
   */
  readonly unreachable: ReadonlySet<string>
}

/** Jobs that ended longer ago have no idempotency key that could be sent again. */
const RETAINED_MS = 25 * 3_600_000
/** Ended jobs in memory; above it they are written to Redis. */
const MAX_ENDED_JOBS = 1_000
const SNAPSHOTS_PER_BATCH = 100

/**
 * Compares locked wallets with the journal, from the base on. Redis loses only its latest writes: a
 * wallet whose last movement is part of the base has lost nothing older, so it needs only the
 * entries after the base. For a wallet that lost everything, the entries of a day are read as well.
 */
async function compare (deps: RecoveryDeps, options: CompareOptions): Promise<Comparison> {
  const { base, signal, only, countsMovements = false } = options
  const tracker = new Tracker(deps, options)
  // Before the journal is read, so that it has whatever the copy has, unless it was lost.
  const copied = deps.journal.lengths().catch((error: Error) => error)
  const grace = deps.sleep(deps.graceMs, signal)
  // It may reject before it is awaited.
  grace.catch(() => {})
  const all = new Set(await deps.tenants.all())
  await tracker.track(only ?? new Set([...all, ...base.byTenant.keys()]))
  const reading = {
    onTenants: async (tenants: ReadonlySet<string>) => {
      if (only === undefined) await tracker.track(tenants)
    },
    findJournal: (tenant: string) => tracker.tracked.get(tenant)?.journal,
    onApplied: (tenants: ReadonlySet<string>) => tracker.flushEnded(tenants),
    signal,
  }
  const { tracked, suspect, contradicted, known, unreachable } = tracker
  const from = await readJournal(deps, { ...reading, from: base.from, sinceMs: tracker.sinceMs() })
  if (tracked.size > 0) {
    // An entry that Redis has lost may still be on its way to the journal, sent by the process that
    // got the reply, and may be the only one lost.
    await grace
    await readJournal(deps, { ...reading, from })
  }
  // The server with the list may have lost it alone, so it may lack unlocked tenants as well.
  await deps.tenants.add([...known].filter(tenant => !all.has(tenant)))
  // Replaces contradicted snapshots, so that the next recovery does not read the whole journal.
  if (only !== undefined) {
    const journals = [...tracked].map(([tenant, { journal }]) => [tenant, journal] as const)
    // The positions of other snapshots may be behind a gap, however young it is.
    await writeSnapshots(deps, journals, { from: [], lostBeforeMs: Infinity })
  }
  const lengths = isInUse(base) || tracked.size === 0 ? undefined : await copied
  const compared: Compared[] = []
  for (const some of splitBatches([...tracked.values()], AT_ONCE)) {
    compared.push(...await Promise.all(some.map(async wallet =>
      ({ ...wallet, verdict: await judge(deps, wallet, lengths) }))))
  }
  if (isInUse(base)) {
    const faulty = compared.filter(({ verdict }) => verdict.faults.length > 0)
    for (const { wallet: { tenant } } of faulty) suspect.add(tenant)
    const byCopy = await compareWithCopy(copied, compared, known)
    for (const tenant of byCopy.contradicted) suspect.add(tenant)
    for (const tenant of byCopy.unproven) if (!suspect.has(tenant)) unreachable.add(tenant)
  }
  for (const { wallet: { tenant }, journal } of countsMovements ? [] : compared) {
    if (journal.faults.size > 0 && !suspect.has(tenant)) contradicted.add(tenant)
  }
  return {
    compared: compared.filter(({ wallet: { tenant } }) =>
      !suspect.has(tenant) && !contradicted.has(tenant) && !unreachable.has(tenant)),
    suspect,
    contradicted,
    known,
    unreachable,
  }
}

const isInUse = ({ byTenant }: Base) => byTenant.size > 0

type Tracked = {
  readonly wallet: LockedWallet
  readonly journal: JournalState
  readonly uncounted: Journal[]
}

/** Tracks tenants, found by name or by an entry, with their wallets in Redis. */
class Tracker {
  readonly known = new Set<string>()
  readonly suspect = new Set<string>()
  readonly contradicted = new Set<string>()
  readonly unreachable = new Set<string>()
  readonly tracked = new Map<string, Tracked>()
  readonly #deps: RecoveryDeps
  readonly #options: CompareOptions
  readonly #recent: Recent = new Map()
  readonly #endedSinceMs: number
  /** Those with ended jobs in memory. */
  readonly #withEnded = new Set<Tracked>()
  #oldestMs = Infinity

  constructor (deps: RecoveryDeps, options: CompareOptions) {
    this.#deps = deps
    this.#options = options
    this.#endedSinceMs = deps.clock.now() - RETAINED_MS
  }

  async track (tenants: ReadonlySet<string>): Promise<void> {
    const { fence, onWaiting } = this.#options
    const untracked = [...tenants].filter(tenant => !this.known.has(tenant))
    if (untracked.length === 0) return
    for (const some of splitBatches(untracked, SNAPSHOTS_PER_BATCH)) {
      const snapshots = await Promise.all(some.map(async tenant =>
        [tenant, await this.#deps.recoveryStore.fenceWallet(tenant, fence)] as const))
      for (const [tenant, wallet] of snapshots) {
        this.known.add(tenant)
        if (wallet === 'unreachable') this.unreachable.add(tenant)
        else if (wallet !== undefined && wallet !== 'fenced') this.#add(wallet)
      }
    }
    const { tracked, suspect, contradicted, unreachable } = this
    onWaiting(tracked.size + suspect.size + contradicted.size + unreachable.size)
  }

  #add (wallet: LockedWallet): void {
    const { base, countsMovements = false } = this.#options
    const { tenant, seq, trustsJournal } = wallet
    if (trustsJournal && !countsMovements) {
      this.contradicted.add(tenant)
      return
    }
    const snapshot = snapshotIn(base, tenant)
    const isBehind = snapshot !== undefined && seq < snapshot.seq
    // Redis may lack ids of top-ups that only the journal has.
    const isTooOld = isBehind && (seq > 0 || lacksPosted(snapshot))
    if (isTooOld || (snapshot !== undefined && coversNothing(snapshot))) {
      this.suspect.add(tenant)
      return
    }
    if (isBehind) {
      const openedMs = snapshot.open.map(({ at }) => at)
      this.#oldestMs = Math.min(this.#oldestMs, this.#endedSinceMs, ...openedMs)
    }
    const retention = chooseRetention(wallet, { sinceMs: this.#endedSinceMs, countsMovements })
    const journal = new JournalState(retention, snapshot, this.#recent)
    this.tracked.set(tenant, { wallet, journal, uncounted: [] })
  }

  /** The time from which entries before the base are read; undefined if none are needed. */
  sinceMs (): number | undefined {
    return this.#oldestMs === Infinity ? undefined : this.#oldestMs
  }

  /** Writes ended jobs to Redis in batches, so that memory does not grow with the journal. */
  async flushEnded (tenants: ReadonlySet<string>): Promise<void> {
    for (const tenant of tenants) {
      const tracked = this.tracked.get(tenant)
      if (tracked !== undefined && tracked.journal.ended.size > 0) this.#withEnded.add(tracked)
    }
    const jobs = [...this.#withEnded].reduce((sum, { journal }) => sum + journal.ended.size, 0)
    if (jobs < MAX_ENDED_JOBS) return
    const { fence } = this.#options
    const ended = [...this.#withEnded].flatMap(({ journal, wallet: { run, openJobs } }) =>
      selectEnded(journal.takeEnded(), { term: { run, fence }, openJobs }))
    this.#withEnded.clear()
    const rebuilt = await rebuildEnded(this.#deps, ended).catch(orIfUnavailable(undefined))
    for (const entry of rebuilt?.uncounted ?? []) {
      this.tracked.get(entry.tenant)?.uncounted.push(entry)
    }
    if (rebuilt !== undefined) return
    // Their jobs are no longer in memory, so they are compared again from the start.
    for (const { end: { tenant } } of ended) {
      this.tracked.delete(tenant)
      this.unreachable.add(tenant)
    }
  }
}

const LOST_ENTRIES = 'a journal that lost entries is not trusted; restore it by "npm run ' +
  'admin -- journal restore", then thaw again'
const LOST_EVERYWHERE = 'what only Redis has is not trusted, and no restore of the journal ' +
  'helps; see "A frozen tenant" in recovery.md'

/**
 * Compares a wallet with its journal. One that lost entries would restore an old balance, and their
 * numbers would be given again: the copy must have no more than a journal that was read in whole,
 * and a journal that an operator trusts over Redis must be proven complete.
 */
async function judge (
  deps: RecoveryDeps, { wallet, journal }: Tracked, lengths: CopiedLengths | undefined
): Promise<Reconciliation> {
  const verdict = reconcile(wallet, journal)
  const { tenant, seq, trustsJournal } = wallet
  const { length } = verdict
  // Forged rows count as well here.
  const isLonger = lengths instanceof Map && (lengths.get(tenant) ?? 0) > length
  if (verdict.faults.length > 0 || !(trustsJournal || isLonger)) return verdict
  const distrust = (fault: string): Reconciliation =>
    ({ ...verdict, faults: [fault], appended: [] })
  try {
    // Reads the signed entries behind the end of the journal.
    const heads = await deps.journal.heads(new Map([[tenant, { ...CHAIN_START, seq: length }]]))
    const copied = heads.get(tenant)?.seq ?? 0
    if (length >= Math.max(seq, copied)) return verdict
    const [inCopy, why] = copied > length ? [copied, LOST_ENTRIES] : ['no more', LOST_EVERYWHERE]
    return distrust(`the journal of ${tenant} has ${length} entries, its copy in ClickHouse ` +
      `${inCopy}, Redis ${seq}: ${why}`)
  } catch (error) {
    if (!isInfrastructure(error)) throw error
    if (!trustsJournal) return verdict
    return distrust(`the copy of the journal of ${tenant} in ClickHouse cannot be read, so ` +
      'the journal cannot be proven complete: thaw again when ClickHouse answers')
  }
}

/** What the copy of the journal says of its length by tenant, or why it cannot be read. */
type CopiedLengths = ReadonlyMap<string, number> | Error

/**
 * Checks the base against the copy of the journal: an old snapshot that took the place of a newer
 * one contradicts neither an empty wallet nor one from a file as old. `contradicted`: tenants that
 * have to be compared with the whole journal. Only empty wallets wait for the copy. If it cannot be
 * read, those with a snapshot are `unproven`, and those without one contradicted; other wallets are
 * unlocked without it, as most of them have lost nothing.
 */
async function compareWithCopy (
  copied: Promise<CopiedLengths>, compared: readonly Compared[], known: ReadonlySet<string>
): Promise<Readonly<Record<'contradicted' | 'unproven', readonly string[]>>> {
  const namesOf = (some: readonly Compared[]) => some.map(({ wallet: { tenant } }) => tenant)
  const empty = compared.filter(({ wallet }) => wallet.seq === 0)
  const lengths = empty.length > 0
    ? await copied
    : await Promise.race([copied, Promise.resolve(undefined)])
  if (lengths === undefined) return { contradicted: [], unproven: [] }
  if (lengths instanceof Error) {
    if (empty.length > 0 && !isInfrastructure(lengths)) throw lengths
    const { with: unproven = [], without = [] } = Object.groupBy(empty, ({ journal }) =>
      journal.base > 0 ? 'with' : 'without')
    return { contradicted: namesOf(without), unproven: namesOf(unproven) }
  }
  const contradicted = compared.filter(({ wallet: { tenant, seq }, journal }) => {
    const length = lengths.get(tenant) ?? 0
    return length > journal.seq || (seq === 0 && length < journal.base)
  })
  // Their MACs were not checked, so a row may name no tenant, which no reader of the list expects.
  const unknown = empty.length === 0
    ? []
    : [...lengths.keys()].filter(name => isTenant(name) && !known.has(name))
  return { contradicted: [...namesOf(contradicted), ...unknown], unproven: [] }
}

/** Unlocks tenants; returns those that stay locked, as ClickHouse cannot be read. */
async function unlockAll (
  deps: RecoveryDeps, fence: string,
  { compared, progress, signal }: {
    readonly compared: readonly Compared[],
    readonly progress: (unlocked: number) => void,
    readonly signal: AbortSignal,
  }
): Promise<readonly string[]> {
  // Jobs whose reservations Redis has lost, so that it may lack their data keys.
  const missing = compared.flatMap(({ wallet: { tenant, seq }, journal, verdict, uncounted }) => {
    const ended = [...journal.ended.values()].map(({ reserve, end }) => reserve ?? end)
    const isAny = journal.counted !== undefined && verdict.faults.length === 0
    return [...journal.open.values(), ...uncounted, ...ended]
      .filter(entry => isAny || entry.seq > seq)
      .map(({ job, at }) => [job, { tenant, atMs: at }] as const)
  })
  await repairKeys(deps, new Map(missing), signal)
  // Most open jobs first, then the latest movement.
  const waiting = compared.toSorted(({ journal: a }, { journal: b }) =>
    b.open.size - a.open.size || b.at - a.at)
  const left: string[] = []
  for (const some of splitBatches(waiting, AT_ONCE)) {
    signal.throwIfAborted()
    // A ClickHouse that hangs delays all others once.
    const isAway = left.length > 0
    const steps = await Promise.all(some.map(async tenant => isAway && tenant.journal.ended.size > 0
      ? 'unreachable'
      : await unlockTenant(deps, { run: tenant.wallet.run, fence }, tenant)))
    const locked = some.filter((_, index) => steps[index] === 'unreachable')
    left.push(...locked.map(({ wallet }) => wallet.tenant))
    progress(some.length - locked.length)
  }
  return left
}

async function unlockTenant (
  deps: RecoveryDeps, term: LeaderTerm, compared: Compared
): Promise<Step | 'unreachable'> {
  const { tenant, seq } = compared.wallet
  const { faults, appended, behind } = compared.verdict
  if (appended.length > 0) await append(deps, tenant, compared)
  // Jobs of a frozen wallet are rebuilt as well: their rows are finished, and a stage that finds no
  // job would drop them.
  const { open, ended } = compared.journal.withEntriesAfterGap()
  const { openJobs } = compared.wallet
  const rebuiltOpen = await rebuildOpen(deps, term, { open, openJobs })
  // A wallet that stays frozen knows those up to its last movement.
  const unknown = faults.length === 0
    ? ended
    : new Map([...ended].filter(([, { end }]) => end.seq > seq))
  const rebuiltEnded = await rebuildEnded(
    deps, selectEnded(unknown, { term, openJobs })).catch(orIfUnavailable(undefined))
  if (rebuiltEnded === undefined) return 'unreachable'
  if (rebuiltOpen.superseded || rebuiltEnded.superseded) return 'superseded'
  const rebuilt: Compared = {
    ...compared,
    verdict: { ...compared.verdict, faults: [...faults, ...rebuiltOpen.faults] },
    uncounted: [...compared.uncounted, ...rebuiltOpen.uncounted, ...rebuiltEnded.uncounted],
  }
  // A restored backup may contain work without a mark.
  if (isActive(rebuilt, deps.clock.now())) await deps.tenants.activate([tenant])
  if (rebuilt.verdict.faults.length > 0) return await freeze(deps, term, rebuilt)
  if (await restore(deps, term, rebuilt) === 'superseded') return 'superseded'
  deps.metrics.count('recovery_actions_total', { kind: 'tenant' })
  const jobsMade = rebuiltOpen.made + rebuiltEnded.made
  const details = { tenant, seq, journal: compared.journal.seq, jobsMade }
  if (behind) deps.log.warn(details, 'wallet restored from journal')
  else deps.log.info(details, 'tenant unlocked')
  return 'done'
}

/** Whether a takeover must visit the tenant. */
const isActive = ({ wallet, journal, verdict, uncounted }: Compared, nowMs: number) =>
  nowMs - journal.at < IDLE_AFTER_MS || [
    wallet.outbox, wallet.openJobs, uncounted, verdict.faults,
  ].some(({ length }) => length > 0)

/**
 * Appends entries to a journal that operators trust, or every later comparison would find the same
 * gap or contradiction. The snapshot spares it the whole journal.
 */
async function append (
  deps: RecoveryDeps, tenant: string, { journal, verdict: { appended } }: Compared
): Promise<void> {
  await deps.emitter.emit(appended.map(value =>
    ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
  deps.log.warn({ tenant, entries: appended.map(({ seq, entryId }) => `${seq} ${entryId}`) },
    'entries added to the journal: movements that it lacked, or whose numbers others have; ' +
    'verify them with "npm run admin -- audit --full"')
  await writeSnapshots(deps, [[tenant, journal]], { from: [], lostBeforeMs: Infinity })
}

async function restore (
  { redis, recoveryStore }: RecoveryDeps, term: LeaderTerm, compared: Compared
): Promise<Step> {
  const { wallet, journal, verdict, uncounted } = compared
  const { tenant, seq, openJobs, trustsJournal: trusts } = wallet
  const { posted, recounts } = moneyKeys(tenant)
  if (verdict.behind) {
    await Promise.all(journal.countedPosted().map(entry =>
      redis.hset(posted, entry.id, `${entry.seq}:${entry.amountMicros}`)))
  }
  // The tally of a running job may be lost as well, so its blocks are recounted from then on.
  const running = openJobs.filter(({ job, state }) =>
    (state === 'running' || state === 'settled') && !journal.endedOpen.has(job))
  const since = new Map([
    ...running.map(({ job, sinceMs }) => [job, sinceMs] as const),
    ...uncounted.map(({ job, at }) => [job, at] as const),
  ])
  if (since.size > 0) {
    await redis.sadd(RECOUNTING_KEY, tenant)
    await redis.hset(recounts, Object.fromEntries(since))
  }
  const restored = verdict.behind ? { seq: journal.seq, amounts: journal.amounts } : undefined
  return await recoveryStore.unlock(
    tenant, term, { seq, restored, trusts, dropped: verdict.dropped })
}

async function freeze (
  { recoveryStore, log, metrics }: RecoveryDeps, term: LeaderTerm, { wallet, verdict }: Compared
): Promise<Step> {
  const { tenant, seq, trustsJournal: trusts } = wallet
  const frozen = verdict.faults.join('; ').slice(0, 1_000)
  const step = await recoveryStore.unlock(tenant, term, { seq, frozen, trusts })
  if (step === 'done') reportFrozen({ log, metrics }, tenant, frozen)
  return step
}

/** Counts and logs that a wallet was frozen. */
export function reportFrozen (
  { log, metrics }: Pick<RecoveryDeps, 'log' | 'metrics'>, tenant: string, reason: string
): void {
  metrics.count('recovery_actions_total', { kind: 'frozen' })
  log.error({ tenant, reason }, 'wallet frozen: no money of this tenant moves until ' +
    '"npm run admin -- thaw"; see TenantsFrozen in the runbook')
}
