import type { Journal } from '../../schemas/types.ts'
import type { Clock } from '../runtime/platform/clock.ts'
import { isInfrastructure } from '../runtime/platform/errors.ts'
import type { Sleep } from '../runtime/platform/retry.ts'
import type { Tenants } from '../money/tenants.ts'
import type { JournalCopy } from '../money/journal-copy.ts'
import type { RecoveryStore, WalletSnapshot } from './recovery-store.ts'
import {
  applyEntry, createJournalState, type JournalDeps, type JournalRetention, type JournalState,
  readJournal, type Recent, takeEnded, type TrackedJournal,
} from './journal-state.ts'
import { endedOf, type RebuildDeps, rebuildEnded } from './rebuild-jobs.ts'
import {
  type Base, NO_BASE, snapshotIn, type SnapshotWriteDeps, writeSnapshots,
} from './snapshots.ts'
import {
  AMOUNTS, type Amounts, areEqual, formatAmounts, post, ZERO_AMOUNTS,
} from '../money/prices.ts'

export type CompareDeps = JournalDeps & RebuildDeps & SnapshotWriteDeps & {
  readonly tenants: Pick<Tenants, 'all' | 'add'>
  readonly recoveryStore: Pick<RecoveryStore, 'snapshotWallet' | 'unlock' | 'rebuild'>
  readonly journal: Pick<JournalCopy, 'lengths' | 'readNewest'>
  /** Redis time. */
  readonly clock: Clock
  readonly sleep: Sleep
  /** The journal is read a second time, this long after the start of the comparison. */
  readonly graceMs: number
}

/** A locked wallet and its journal. `uncounted`: entries of jobs whose blocks must be recounted. */
export type Compared = {
  readonly wallet: WalletSnapshot
  readonly journal: JournalState
  readonly verdict: Reconciliation
  readonly uncounted: readonly Journal[]
}

export type Comparison = {
  readonly compared: readonly Compared[]
  /** Tenants that contradict the base, or that it covers too little of. */
  readonly suspect: ReadonlySet<string>
  /** Every tenant with entries in the journal or a locked wallet. */
  readonly known: ReadonlySet<string>
  /** Tenants on a server that cannot execute scripts now. */
  readonly unreachable: ReadonlySet<string>
}

type CompareOptions = {
  readonly fence: string
  readonly base: Base
  readonly signal: AbortSignal
  /** Called with the number of locked tenants known so far. */
  readonly onWaiting?: (tenants: number) => void
  /** The tenants to compare; by default all locked ones. */
  readonly only?: ReadonlySet<string>
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
 * @throws InfrastructureError when Redis, Kafka or the archive cannot be read.
 */
export async function compare (
  deps: CompareDeps, options: CompareOptions
): Promise<Comparison> {
  const { base, signal, only } = options
  const tracker = createTracker(deps, options)
  const grace = deps.sleep(deps.graceMs, signal)
  // It may reject before it is awaited.
  grace.catch(() => {})
  const all = new Set(await deps.tenants.all())
  await tracker.track(only ?? new Set([...all, ...base.byTenant.keys()]))
  const reading = {
    onTenants: async (tenants: ReadonlySet<string>) => {
      if (only === undefined) await tracker.track(tenants)
    },
    trackedOf: tracker.trackedOf,
    onApplied: tracker.onApplied,
    signal,
  }
  const { tracked, suspect } = tracker
  const from = await readJournal(deps, { ...reading, from: base.from, sinceMs: tracker.sinceMs() })
  if (tracked.size > 0) {
    // An entry that Redis has lost may still be on its way to the journal, sent by the process that
    // got the reply, and may be the only one lost.
    await grace
    await readJournal(deps, { ...reading, from })
  }
  // The server with the list may have lost it alone, so it may lack unlocked tenants as well.
  await deps.tenants.add([...tracker.known].filter(tenant => !all.has(tenant)))
  // Replaces contradicted snapshots, so that the next recovery does not read the whole journal.
  if (only !== undefined) {
    const journals = [...tracked].map(([tenant, { journal }]) => [tenant, journal] as const)
    await writeSnapshots(deps, journals, NO_BASE.from)
  }
  const compared = await Promise.all([...tracked.values()].map(async one =>
    ({ ...one, verdict: await verdictOf(deps, one) })))
  if (isInUse(base)) {
    const contradicted = compared.filter(({ verdict }) => verdict.faults.length > 0)
    for (const { wallet: { tenant } } of contradicted) suspect.add(tenant)
    for (const tenant of await compareWithCopy(deps, compared, tracker.known)) suspect.add(tenant)
  }
  return {
    compared: compared.filter(({ wallet: { tenant } }) => !suspect.has(tenant)),
    suspect,
    known: tracker.known,
    unreachable: tracker.unreachable,
  }
}

type Tracked = TrackedJournal & { readonly wallet: WalletSnapshot, readonly uncounted: Journal[] }

/** Tracks tenants, found by name or by an entry, with their wallets in Redis. */
function createTracker (
  deps: CompareDeps, { fence, base, onWaiting = () => {} }: CompareOptions
) {
  const known = new Set<string>()
  const suspect = new Set<string>()
  const unreachable = new Set<string>()
  const tracked = new Map<string, Tracked>()
  const recent: Recent = new Map()
  const endedSinceMs = deps.clock.now() - RETAINED_MS
  let oldestMs = Infinity
  const add = (wallet: WalletSnapshot) => {
    const { tenant, seq, trustsJournal } = wallet
    const snapshot = snapshotIn(base, tenant)
    const isBehind = snapshot !== undefined && seq < snapshot.seq
    if ((trustsJournal && isInUse(base)) || (isBehind && seq > 0)) {
      suspect.add(tenant)
      return
    }
    if (isBehind) {
      oldestMs = Math.min(oldestMs, endedSinceMs, ...snapshot.open.map(({ at }) => at))
    }
    const retention = chooseRetention(wallet, endedSinceMs)
    const journal = createJournalState(retention, snapshot, recent)
    tracked.set(tenant, { wallet, retention, journal, uncounted: [] })
  }
  const track = async (tenants: ReadonlySet<string>) => {
    const untracked = [...tenants].filter(tenant => !known.has(tenant))
    if (untracked.length === 0) return
    for (let from = 0; from < untracked.length; from += SNAPSHOTS_PER_BATCH) {
      const some = untracked.slice(from, from + SNAPSHOTS_PER_BATCH)
      const snapshots = await Promise.all(
        some.map(tenant => deps.recoveryStore.snapshotWallet(tenant, fence)))
      for (const [index, wallet] of snapshots.entries()) {
        const tenant = some[index] ?? ''
        known.add(tenant)
        if (wallet === 'unreachable') unreachable.add(tenant)
        else if (wallet !== undefined && wallet !== 'fenced') add(wallet)
      }
    }
    onWaiting(tracked.size + suspect.size + unreachable.size)
  }
  return {
    known,
    suspect,
    unreachable,
    tracked,
    track,
    trackedOf: (tenant: string) => tracked.get(tenant),
    onApplied: createEndedFlush(deps, { fence, tracked }),
    /** The time from which entries before the base are read; undefined if none are needed. */
    sinceMs: () => oldestMs === Infinity ? undefined : oldestMs,
  }
}

/** Writes ended jobs to Redis in batches, so that memory does not grow with the journal. */
function createEndedFlush (
  deps: CompareDeps,
  { fence, tracked }:
  { readonly fence: string, readonly tracked: ReadonlyMap<string, Tracked> }
) {
  const full = new Set<Tracked>()
  return async (tenants: ReadonlySet<string>) => {
    for (const tenant of tenants) {
      const one = tracked.get(tenant)
      if (one !== undefined && one.journal.ended.size > 0) full.add(one)
    }
    const jobs = [...full].reduce((sum, { journal }) => sum + journal.ended.size, 0)
    if (jobs < MAX_ENDED_JOBS) return
    const ended = [...full].flatMap(({ journal, retention, wallet: { run } }) =>
      endedOf(takeEnded(journal), { term: { run, fence }, openJobs: retention.openJobs }))
    full.clear()
    const { uncounted } = await rebuildEnded(deps, ended)
    for (const entry of uncounted) tracked.get(entry.tenant)?.uncounted.push(entry)
  }
}

/**
 * Compares a wallet with its journal. A journal that an operator trusts over Redis must be
 * complete: one that lost entries would restore an old balance.
 */
async function verdictOf (
  deps: Pick<CompareDeps, 'journal'>, { wallet, journal, retention }: Tracked
): Promise<Reconciliation> {
  const verdict = reconcile(wallet, journal, retention)
  if (!wallet.trustsJournal || verdict.faults.length > 0) return verdict
  const { tenant, seq } = wallet
  try {
    const [newest] = await deps.journal.readNewest(tenant, { limit: 1 })
    const copied = newest?.seq ?? 0
    if (journal.seq >= Math.max(seq, copied)) return verdict
    return faulty(`the journal of ${tenant} has ${journal.seq} entries, its copy in ClickHouse ` +
      `${copied}, Redis ${seq}: a journal that lost entries is not trusted; restore it by ` +
      '"npm run ops -- journal restore", then thaw again')
  } catch (error) {
    if (!isInfrastructure(error)) throw error
    return faulty(`the copy of the journal of ${tenant} in ClickHouse cannot be read, so ` +
      'the journal cannot be proven complete: thaw again when ClickHouse answers')
  }
}

const faulty = (fault: string): Reconciliation => ({ behind: false, faults: [fault], missing: [] })

const isInUse = ({ byTenant }: Base) => byTenant.size > 0

/**
 * Checks the base against the copy of the journal for wallets that are empty in Redis, which cannot
 * contradict an old or deleted snapshot themselves. Returns the tenants that the copy contradicts,
 * or all empty ones without a snapshot if the copy cannot be read.
 * @throws InfrastructureError when it cannot be read and an empty wallet has a snapshot.
 */
async function compareWithCopy (
  deps: CompareDeps, compared: readonly Compared[], known: ReadonlySet<string>
): Promise<readonly string[]> {
  const empty = compared.filter(({ wallet }) => wallet.seq === 0)
  if (empty.length === 0) return []
  try {
    const lengths = await deps.journal.lengths()
    const isContinued = ({ wallet: { tenant }, journal }: Compared) => {
      const copied = lengths.get(tenant) ?? 0
      return copied >= journal.base && copied <= journal.seq
    }
    const contradicted = empty.filter(one => !isContinued(one))
    const unknown = [...lengths.keys()].filter(tenant => !known.has(tenant))
    return [...contradicted.map(({ wallet: { tenant } }) => tenant), ...unknown]
  } catch (error) {
    if (!isInfrastructure(error) || empty.some(({ journal }) => journal.base > 0)) throw error
    return empty.map(({ wallet: { tenant } }) => tenant)
  }
}

/**
 * `behind`: Redis lacks movements of the journal.
 * `faults`: contradictions, which freeze the wallet.
 * `missing`: reconstructed entries that must be appended to the journal.
 */
type Reconciliation = {
  readonly behind: boolean
  readonly faults: readonly string[]
  readonly missing: readonly Journal[]
}

/** Shared, as most tenants have no open jobs. */
const NO_JOBS: ReadonlySet<string> = new Set()

/** What the journal state must retain to be compared with this wallet. */
export function chooseRetention (
  { seq, openJobs, trustsJournal }: WalletSnapshot, sinceMs: number
): JournalRetention {
  const jobs = openJobs.length === 0 ? NO_JOBS : new Set(openJobs.map(({ job }) => job))
  return { seq: trustsJournal ? 0 : seq, openJobs: jobs, sinceMs }
}

/**
 * Compares a wallet with its journal, and applies the outbox to the journal state. The journal
 * wins if Redis is behind it; any contradiction is a fault, which an operator must resolve.
 */
export function reconcile (
  wallet: WalletSnapshot, journal: JournalState, retention: JournalRetention
): Reconciliation {
  for (const entry of wallet.outbox) applyEntry(journal, entry, retention)
  // A gap blocks even then: the next entries would get numbers that are taken.
  if (wallet.trustsJournal) {
    const missing = fillGaps(journal, retention)
    return { behind: true, faults: gapFaults(journal), missing }
  }
  const behind = wallet.seq < journal.seq
  const faults = [
    ...journal.faults, ...gapFaults(journal), ...walletFaults(wallet, journal),
    ...sumFaults(journal), ...unknownJobFaults(wallet, journal),
  ]
  return { behind, faults, missing: [] }
}

/** Applies reconstructed entries until no gap can be filled; returns them. */
function fillGaps (journal: JournalState, retention: JournalRetention): readonly Journal[] {
  const missing: Journal[] = []
  for (let entry = missingEntry(journal); entry !== undefined; entry = missingEntry(journal)) {
    missing.push(entry)
    applyEntry(journal, entry, retention)
  }
  return missing
}

function gapFaults ({ afterGap, seq }: JournalState): readonly string[] {
  if (afterGap.size === 0) return []
  const first = Math.min(...afterGap.keys())
  return [`entries ${seq + 1} to ${first - 1} are missing before entry ${first}`]
}

function walletFaults ({ seq, amounts }: WalletSnapshot, journal: JournalState): readonly string[] {
  if (seq > journal.seq) {
    return [`Redis has ${seq} movements, journal and outbox have ${journal.seq}`]
  }
  const expected = journal.amountsAtWalletSeq
  if (expected === undefined || areEqual(expected, amounts)) return []
  return [`after movement ${seq} Redis has ${formatAmounts(amounts)}, ` +
    `the journal ${formatAmounts(expected)}`]
}

function sumFaults ({ amounts, open }: JournalState): readonly string[] {
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = amounts
  const maxima = [...open.values()].reduce((sum, { amountMicros }) => sum + amountMicros, 0)
  return [
    ...AMOUNTS.filter(name => amounts[name] < 0).map(name => `${name} is ${amounts[name]}`),
    ...availableMicros + reservedMicros + chargedMicros === fundedMicros
      ? []
      : [`the amounts do not add up: ${formatAmounts(amounts)}`],
    ...maxima === reservedMicros
      ? []
      : [`${reservedMicros} are reserved, open jobs reserved ${maxima}`],
  ]
}

/** Running jobs without a reservation; no money of a settled job can move any more. */
function unknownJobFaults (
  { openJobs }: WalletSnapshot, { open, endedOpen }: JournalState
): readonly string[] {
  return openJobs
    .filter(({ job, state }) => state !== 'settled' && state !== 'ended' &&
      !open.has(job) && !endedOpen.has(job))
    .map(({ job }) => `job ${job} runs without a reservation`)
}

type Movement = Pick<Journal, 'entryId' | 'type' | 'job' | 'amountMicros' | 'chargeMicros'>

/**
 * Reconstructs the single missing entry of a gap from the balances before and after it: a top-up or
 * adjustment, or the end of the only job with that reservation. Returns undefined when several
 * entries are missing or the movement is another one. Deterministic.
 */
export function missingEntry (journal: JournalState): Journal | undefined {
  const seq = journal.seq + 1
  const next = journal.afterGap.get(seq + 1)
  if (next === undefined) return undefined
  const before = subtract(next, post(ZERO_AMOUNTS, next))
  const movement = missingMovement(journal, seq, subtract(before, journal.amounts))
  if (movement === undefined || !areEqual(post(journal.amounts, movement), before)) return undefined
  const reason = `reconstructed from entry ${next.seq}: the entry itself is lost`
  const { tenant, at } = next
  return { ...movement, ...before, tenant, seq, at, reason, header: null }
}

function missingMovement (
  { open }: JournalState, seq: number, moved: Amounts
): Movement | undefined {
  const { fundedMicros, reservedMicros, chargedMicros } = moved
  if (fundedMicros !== 0) {
    const amounts = { amountMicros: fundedMicros, chargeMicros: 0 }
    return { entryId: `missing:${seq}`, type: 'adjust', job: '', ...amounts }
  }
  const amountMicros = -reservedMicros
  const [ended, ...others] =
    [...open.values()].filter(reserve => reserve.amountMicros === amountMicros)
  const isEnd = amountMicros > 0 && chargedMicros >= 0 && chargedMicros <= amountMicros
  if (!isEnd || ended === undefined || others.length > 0) return undefined
  const { job } = ended
  const amounts = { amountMicros, chargeMicros: chargedMicros }
  return { entryId: `${job}:settle`, type: 'settle', job, ...amounts }
}

function subtract (amounts: Amounts, taken: Amounts): Amounts {
  const differences = AMOUNTS.map(name => [name, amounts[name] - taken[name]])
  return Object.fromEntries(differences) as Amounts
}
