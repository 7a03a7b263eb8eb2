import type { Journal } from '../../schemas/types.ts'
import type { Clock } from '../platform/clock.ts'
import { isInfrastructure } from '../platform/errors.ts'
import type { Sleep } from '../platform/retry.ts'
import type { Tenants } from '../money/tenants.ts'
import type { JournalCopy } from '../money/journal-copy.ts'
import type { RecoveryStore } from './recovery-store.ts'
import { readJournal, type Followed, type JournalDeps } from './journal.ts'
import { beginFold, type Fold, type Recent } from './journal-fold.ts'
import { interestOf, reconcile, type WalletSnapshot, type Verdict } from './reconcile.ts'
import { endedOf, rebuildEnded, type RebuildDeps } from './rebuild-jobs.ts'
import { NO_BASE, writeSnapshots, type Base, type WritingDeps } from './snapshots.ts'

export type CompareDeps = JournalDeps & RebuildDeps & WritingDeps & {
  readonly tenants: Pick<Tenants, 'all' | 'add'>
  readonly recoveryStore: Pick<RecoveryStore, 'snapshotWallet' | 'unlock' | 'rebuild'>
  readonly journal: Pick<JournalCopy, 'lengths' | 'readNewest'>
  /** Redis time. */
  readonly clock: Clock
  readonly sleep: Sleep
  /** After a restart of Redis the journal is read once more so much later. */
  readonly graceMs: number
}

/** A tenant that waits, beside its journal. `uncounted`: jobs to be counted to their ends again. */
export type Compared = {
  readonly standing: WalletSnapshot
  readonly fold: Fold
  readonly verdict: Verdict
  readonly uncounted: readonly Journal[]
}

export type Comparison = {
  readonly compared: readonly Compared[]
  /** Tenants that the base says too little of, or something that cannot be. */
  readonly doubtful: ReadonlySet<string>
  /** Every tenant that the journal has entries of, or that waits. */
  readonly known: ReadonlySet<string>
}

type CompareOptions = {
  readonly fence: string
  readonly base: Base
  readonly signal: AbortSignal
  /** Hears how many tenants wait, as far as is known by then. */
  readonly onWaiting?: (tenants: number) => void
  /** The tenants to compare; all that wait when left out. */
  readonly only?: ReadonlySet<string>
}

/** Jobs that ended longer ago have no key that could be sent again. */
const REMEMBERED_MS = 25 * 3_600_000
/** Ended jobs are told to Redis so many at a time, and then forgotten. */
const ENDED_AT_ONCE = 1_000
const SURVEYED_AT_ONCE = 100

/**
 * Compares tenants that wait with the journal, from the base on. Redis keeps an order: a tenant
 * whose last movement is part of the base has lost nothing older than that, so the entries behind
 * the base tell everything. Of one that has lost all of it the entries of a day are read as well.
 * @throws InfrastructureError when Redis, Kafka or the archive cannot be read.
 */
export async function compare (
  deps: CompareDeps, options: CompareOptions
): Promise<Comparison> {
  const { base, signal, only } = options
  const met = createMeeting(deps, options)
  const all = new Set(await deps.tenants.all())
  await met.meet(only ?? new Set([...all, ...base.byTenant.keys()]))
  const reading = {
    meet: async (tenants: ReadonlySet<string>) => {
      if (only === undefined) await met.meet(tenants)
    },
    followedOf: met.followedOf,
    onTaken: met.onTaken,
    signal,
  }
  const { followed, doubtful } = met
  const from = await readJournal(deps, { ...reading, from: base.from, sinceMs: met.sinceMs() })
  if (followed.size > 0) {
    // What Redis has lost may still be on its way to the journal, sent by whoever had its answer,
    // and may be all that it has lost.
    await deps.sleep(deps.graceMs, signal)
    await readJournal(deps, { ...reading, from })
  }
  await deps.tenants.add([...followed.keys()].filter(tenant => !all.has(tenant)))
  // A snapshot that is contradicted would have the whole journal read each time.
  if (only !== undefined) {
    const folds = [...followed].map(([tenant, { fold }]) => [tenant, fold] as const)
    await writeSnapshots(deps, folds, NO_BASE.from)
  }
  const compared = await Promise.all([...followed.values()].map(async one =>
    ({ ...one, verdict: await verdictOf(deps, one) })))
  if (isInUse(base)) {
    const faulty = compared.filter(({ verdict }) => verdict.faults.length > 0)
    for (const { standing: { tenant } } of faulty) doubtful.add(tenant)
    for (const tenant of await askCopy(deps, compared, met.known)) doubtful.add(tenant)
  }
  return {
    compared: compared.filter(({ standing: { tenant } }) => !doubtful.has(tenant)),
    doubtful,
    known: met.known,
  }
}

type Waiting = Followed & { readonly standing: WalletSnapshot, readonly uncounted: Journal[] }

/** The tenants that are met, by name or by an entry, each as Redis has it. */
function createMeeting (
  deps: CompareDeps, { fence, base, onWaiting = () => {} }: CompareOptions
) {
  const known = new Set<string>()
  const doubtful = new Set<string>()
  const followed = new Map<string, Waiting>()
  const recent: Recent = new Map()
  const endedSinceMs = deps.clock.now() - REMEMBERED_MS
  let oldestMs = Infinity
  const follow = (standing: WalletSnapshot) => {
    const { tenant, seq, trustsJournal } = standing
    const snapshot = base.byTenant.get(tenant)
    const isBehind = snapshot !== undefined && seq < snapshot.seq
    if ((trustsJournal && isInUse(base)) || (isBehind && seq > 0)) {
      doubtful.add(tenant)
      return
    }
    if (isBehind) {
      oldestMs = Math.min(oldestMs, endedSinceMs, ...snapshot.open.map(({ at }) => at))
    }
    const interest = interestOf(standing, endedSinceMs)
    const fold = beginFold(interest, snapshot, recent)
    followed.set(tenant, { standing, interest, fold, uncounted: [] })
  }
  const meet = async (tenants: ReadonlySet<string>) => {
    const strangers = [...tenants].filter(tenant => !known.has(tenant))
    if (strangers.length === 0) return
    for (let from = 0; from < strangers.length; from += SURVEYED_AT_ONCE) {
      const some = strangers.slice(from, from + SURVEYED_AT_ONCE)
      const snapshots = await Promise.all(
        some.map(tenant => deps.recoveryStore.snapshotWallet(tenant, fence)))
      for (const [index, standing] of snapshots.entries()) {
        known.add(some[index] ?? '')
        if (standing !== undefined && standing !== 'fenced') follow(standing)
      }
    }
    onWaiting(followed.size + doubtful.size)
  }
  return {
    known,
    doubtful,
    followed,
    meet,
    followedOf: (tenant: string) => followed.get(tenant),
    onTaken: createEnding(deps, { fence, followed }),
    /** From when on entries are read besides those behind the base. */
    sinceMs: () => oldestMs === Infinity ? undefined : oldestMs,
  }
}

/** Tells Redis of ended jobs once there are many, so that a long journal takes no memory. */
function createEnding (
  deps: CompareDeps,
  { fence, followed }:
  { readonly fence: string, readonly followed: ReadonlyMap<string, Waiting> }
) {
  const full = new Set<Waiting>()
  return async (tenants: ReadonlySet<string>) => {
    for (const tenant of tenants) {
      const one = followed.get(tenant)
      if (one !== undefined && one.fold.ended.size > 0) full.add(one)
    }
    const jobs = [...full].reduce((sum, { fold }) => sum + fold.ended.size, 0)
    if (jobs < ENDED_AT_ONCE) return
    const ended = [...full].flatMap(({ fold, interest, standing: { run } }) =>
      endedOf(fold.ended, { term: { run, fence }, openJobs: interest.openJobs }))
    for (const { fold } of full) fold.ended.clear()
    full.clear()
    const { uncounted } = await rebuildEnded(deps, ended)
    for (const entry of uncounted) followed.get(entry.tenant)?.uncounted.push(entry)
  }
}

/**
 * People may trust a journal against Redis; not one that lost entries, as it would have the balance
 * of an earlier day, or none.
 */
async function verdictOf (
  { journal }: Pick<CompareDeps, 'journal'>, { standing, fold, interest }: Waiting
): Promise<Verdict> {
  const verdict = reconcile(standing, fold, interest)
  if (!standing.trustsJournal || verdict.faults.length > 0) return verdict
  const { tenant, seq } = standing
  try {
    const [newest] = await journal.readNewest(tenant, { limit: 1 })
    const copied = newest?.seq ?? 0
    if (fold.seq >= Math.max(seq, copied)) return verdict
    return refused(`the journal of ${tenant} has ${fold.seq} entries, its copy in ClickHouse ` +
      `${copied}, Redis ${seq}: a journal that lost entries is not trusted; restore it by ` +
      '"npm run ops -- journal restore", then thaw again')
  } catch (error) {
    if (!isInfrastructure(error)) throw error
    return refused(`the copy of the journal of ${tenant} in ClickHouse cannot be read, so ` +
      'nothing proves that the journal is whole: thaw again when ClickHouse answers')
  }
}

const refused = (fault: string): Verdict => ({ behind: false, faults: [fault], missing: [] })

const isInUse = ({ byTenant }: Base) => byTenant.size > 0

/**
 * Redis contradicts a snapshot that is too old or was deleted, unless it has nothing of the tenant:
 * then the copy of the journal has to say the same. Returns the tenants of which it says something
 * else; where it cannot be asked, those that are empty and of which no snapshot is known.
 * @throws InfrastructureError when it cannot be asked about a tenant that has lost everything.
 */
async function askCopy (
  { journal }: CompareDeps, compared: readonly Compared[], known: ReadonlySet<string>
): Promise<readonly string[]> {
  const empty = compared.filter(({ standing }) => standing.seq === 0)
  if (empty.length === 0) return []
  try {
    const lengths = await journal.lengths()
    const isContinued = ({ standing: { tenant }, fold }: Compared) => {
      const copied = lengths.get(tenant) ?? 0
      return copied >= fold.base && copied <= fold.seq
    }
    const contradicted = empty.filter(one => !isContinued(one))
    const unknown = [...lengths.keys()].filter(tenant => !known.has(tenant))
    return [...contradicted.map(({ standing: { tenant } }) => tenant), ...unknown]
  } catch (error) {
    if (!isInfrastructure(error) || empty.some(({ fold }) => fold.base > 0)) throw error
    return empty.map(({ standing: { tenant } }) => tenant)
  }
}
