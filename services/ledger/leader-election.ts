import { type Clock, createRepeat, retryForever } from '../runtime/platform/retry.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { LOCKED_TENANTS_CHANNEL } from '../money/redis-keys.ts'
import { IDLE_AFTER_MS, MARK_LASTS_MS, type Tenants } from '../money/wallet.ts'
import {
  type AccountsDeps, restoreAccounts, restoreLostKeys, shipAccounts,
} from '../accounts/account-topics.ts'
import type { RecoveryStore } from './recovery-store.ts'
import { LostDeliveries, type RestoreDeliveriesDeps } from './restore-deliveries.ts'
import { recordErased } from './restore-keys.ts'
import { recover, reportFrozen, type RecoveryDeps } from './recovery.ts'
import { recountLostJobs, restoreMarks, type RecountDeps } from './rebuild-jobs.ts'
import { type Base, readSnapshots, takeSnapshots, type SnapshotDeps } from './snapshots.ts'

export type LeaderDeps = RecoveryDeps & RecountDeps & SnapshotDeps & AccountsDeps &
  RestoreDeliveriesDeps & {
    readonly recoveryStore: Pick<RecoveryStore,
      'lead' | 'check' | 'countWaiting' | 'isAnyResponding'>
    readonly tenants: Pick<Tenants, 'all' | 'active' | 'deactivate'>
    /** A connection of its own: once subscribed it serves nothing else. */
    readonly subscriber: RedisClient
    readonly clock: Clock
    readonly log: Log
    readonly metrics: Pick<Metrics, 'count' | 'watch'>
    readonly name: string
    readonly leaseMs: number
    readonly pollMs: number
    /** Pause between two checks of the sums of all active wallets. */
    readonly checkEveryMs: number
    readonly snapshotEveryMs: number
  }

/** Commands that change an account wait until it is in the topic. */
const MAX_SHIPPING_POLL_MS = 250

/** The run of the server with the global keys, the fencing token, and the runs of all servers. */
type Term = { readonly run: string, readonly fence: string, readonly runs: ReadonlySet<string> }

/** The term in which all wallets were compared. */
type ComparedTerm = Term & {
  readonly known: Set<string>
  /** When to compare again, because tenants were unreachable; else `Infinity`. */
  readonly retryAtMs: number
  /** Tenants that are compared soon, so that their requests need not be served before. */
  readonly retriedSoon: ReadonlySet<string>
}

type LeaderStep = 'renew' | 'unlock' | 'accounts' | 'recover' | 'deliveries' | 'recount' | 'check'

const RETRY_MS = 2_000
const RETRY_SILENT_MS = 30_000

/**
 * Elects one ledger as leader. Every `pollMs` it renews its lease and reads the run ids of the
 * servers; if it has become the leader or one is new, it compares all locked wallets with the
 * journal. In between it unlocks tenants on request, recounts jobs whose tally was lost, and checks
 * sums. A round that fails is logged and retried.
 */
export class Leader {
  readonly #deps: LeaderDeps
  readonly #lostDeliveries: LostDeliveries
  readonly #stopping = new AbortController()
  readonly #requests: ReturnType<typeof listen>
  readonly #loops: readonly Promise<void>[]
  /** Of this ledger, while it has the lease. */
  #term: Term | undefined
  #compared: ComparedTerm | undefined
  #isHealthy = false
  /** True while wallets are compared with the journal. */
  #isRecovering = false
  #frozen = 0
  #withoutKeys = 0
  #waiting = 0
  #checkedAtMs = -Infinity
  /** When to recount jobs again that lacked keys. */
  #recountAtMs = -Infinity
  /** Until then all tenants are checked, as marks of active ones may be lost. */
  #checkAllUntilMs = -Infinity
  /** What the current round does, for logs. */
  #step: LeaderStep = 'unlock'
  /** The latest snapshots. */
  #base: Base | undefined
  /** How many recoveries have begun. */
  #recoveries = 0

  /** Starts the election. */
  constructor (deps: LeaderDeps) {
    this.#deps = deps
    this.#lostDeliveries = new LostDeliveries(deps)
    const { log, metrics, pollMs, snapshotEveryMs } = deps
    const { signal } = this.#stopping
    this.#requests = listen(deps, signal)
    metrics.watch('tenants_frozen', {}, () => this.#frozen)
    metrics.watch('organizations_without_keys', {}, () => this.#withoutKeys)
    metrics.watch('tenants_waiting', {}, () => this.#waiting)
    const fail = (step: LeaderStep, err: unknown) => {
      this.#isHealthy = false
      log.warn({ err, step }, 'leader round failed, retrying; locked wallets stay locked')
    }
    this.#loops = [
      createRepeat(signal, error => fail('renew', error))(pollMs, async () => {
        await this.#renew()
        this.#requests.wake()
      }),
      createRepeat(signal, error => fail(this.#step, error))(0, async () => {
        await this.#requests.next(signal)
        await this.#runRound(signal)
      }),
      createRepeat(signal, error => log.warn({ err: error },
        'failed to write wallet snapshots: the next recovery reads more of the journal'),
      )(snapshotEveryMs, () => this.#takeSnapshots(signal)),
      createRepeat(signal, error => log.warn({ err: error },
        'failed to send account changes to topic accounts, retrying; do not restart Redis until ' +
        'this succeeds'),
      )(Math.min(pollMs, MAX_SHIPPING_POLL_MS), async () => {
        if (this.#compared !== undefined) await shipAccounts(deps, signal)
      }),
    ]
  }

  /** False while this ledger leads and has not compared all wallets. */
  ready (): boolean {
    return this.#isHealthy
  }

  /** True while this ledger is the leader. */
  isLeader (): boolean {
    return this.#term !== undefined
  }

  async stop (): Promise<void> {
    this.#stopping.abort()
    await Promise.all(this.#loops)
  }

  /** Acquires or renews the leadership, unless another ledger has it. */
  async #renew (): Promise<void> {
    const { recoveryStore, name, leaseMs } = this.#deps
    const { run, fence, runs } = await recoveryStore.lead(name, leaseMs)
    this.#term = fence === undefined ? undefined : { run, fence, runs }
    if (fence !== undefined) return
    this.#lostDeliveries.forget()
    this.#compared = undefined
    this.#isHealthy = true
    this.#frozen = 0
    this.#withoutKeys = 0
    this.#waiting = 0
  }

  async #runRound (signal: AbortSignal): Promise<void> {
    const deps = this.#deps
    if (this.#term === undefined) return
    this.#step = 'unlock'
    const requested = this.#requests.take()
    // A request may mean that Redis has lost everything, the lease included.
    if (requested.length > 0) await this.#renew()
    const term = this.#term
    if (term === undefined) return
    const compared = this.#compared
    const isNew = compared === undefined || this.#isNewTerm(compared, term)
    const toRecover = isNew ? requested : await unlockNew(deps, compared, requested)
    if (isNew || toRecover.length > 0) {
      // If Redis has lost everything, a previous term of this leader still knows the tenants.
      const tenants = new Set([...await deps.tenants.all(), ...this.#compared?.known ?? []])
      this.#waiting = await deps.recoveryStore.countWaiting([...tenants], term.runs)
      this.#step = 'accounts'
      if (!hasGlobalKeysOf(compared, term)) await restoreAccounts(deps, signal)
      this.#step = 'recover'
      if (toRecover.length > 0) await deps.tenants.activate(toRecover)
      await this.#recoverAll(term, signal)
    }
    await this.#runEach({
      recount: () => this.#recountIfDue(signal),
      deliveries: () => this.#lostDeliveries.restore(signal),
      check: () => this.#checkIfDue(signal),
    })
    this.#isHealthy = true
  }

  /** Whether there is something to compare that no request names. A server may be gone for long. */
  #isNewTerm (compared: ComparedTerm, term: Term): boolean {
    const { runs } = term
    if (!hasGlobalKeysOf(compared, term)) return true
    return this.#deps.clock.now() >= compared.retryAtMs ||
      [...runs].some(server => !compared.runs.has(server))
  }

  /** Compares locked wallets and restores what the server with the global keys may have lost. */
  async #recoverAll (term: Term, signal: AbortSignal): Promise<void> {
    const { redis, clock, recoveryStore, checkEveryMs } = this.#deps
    const compared = this.#compared
    const onWaiting = (tenants: number) => { this.#waiting = tenants }
    this.#base = undefined
    this.#recoveries += 1
    this.#recountAtMs = -Infinity
    this.#isRecovering = true
    try {
      const { known, unreachable } = await recover(this.#deps, term.fence, { signal, onWaiting })
      // A process that marked a tenant does not do so again for a while, whatever Redis has lost.
      if (!hasGlobalKeysOf(compared, term)) {
        await restoreMarks(redis, [...known].filter(tenant => !unreachable.has(tenant)))
        this.#checkAllUntilMs = clock.now() + MARK_LASTS_MS + 2 * checkEveryMs
      }
      const nowMs = clock.now()
      // Unreachable tenants are compared soon if their server is starting, or ClickHouse is away.
      const retryMs = unreachable.size === 0
        ? Infinity
        : await recoveryStore.isAnyResponding([...unreachable]) ? RETRY_MS : RETRY_SILENT_MS
      this.#compared = {
        ...term,
        runs: new Set([...compared?.runs ?? [], ...term.runs]),
        known: new Set(known),
        retryAtMs: nowMs + retryMs,
        // A silent server may be back long before, which a request shows.
        retriedSoon: retryMs === RETRY_MS ? unreachable : new Set(),
      }
    } finally {
      this.#isRecovering = false
    }
  }

  /** Runs all steps, as they may use different servers, and throws the first failure. */
  async #runEach (
    steps: Readonly<Partial<Record<LeaderStep, () => Promise<unknown>>>>
  ): Promise<void> {
    const failures: { readonly step: LeaderStep, readonly error: unknown }[] = []
    for (const [step, work] of Object.entries(steps) as [LeaderStep, () => Promise<unknown>][]) {
      this.#step = step
      await work().catch(error => { failures.push({ step, error }) })
    }
    const [first] = failures
    if (first === undefined) return
    this.#step = first.step
    throw first.error
  }

  async #recountIfDue (signal: AbortSignal): Promise<void> {
    const { clock, checkEveryMs } = this.#deps
    if (clock.now() < this.#recountAtMs) return
    const { left } = await recountLostJobs(this.#deps, signal)
    this.#recountAtMs = left === 0 ? -Infinity : clock.now() + checkEveryMs
  }

  async #checkIfDue (signal: AbortSignal): Promise<void> {
    const { clock, checkEveryMs } = this.#deps
    if (clock.now() - this.#checkedAtMs < checkEveryMs) return
    this.#checkedAtMs = clock.now()
    this.#frozen = await this.#checkAll(signal)
    this.#withoutKeys = await restoreLostKeys(this.#deps, signal)
    await recordErased(this.#deps)
    await this.#lostDeliveries.record()
  }

  /**
   * Checks the sums of every active wallet, and removes the mark of those that have been idle for a
   * while; of all wallets while marks may be lost, which it restores. Returns how many are frozen;
   * a frozen tenant stays active.
   */
  async #checkAll (signal: AbortSignal): Promise<number> {
    const { tenants, recoveryStore, clock } = this.#deps
    const active = new Map((await tenants.active()).map(mark => [mark.tenant, mark]))
    const all = clock.now() < this.#checkAllUntilMs ? await tenants.all() : []
    let frozen = 0
    for (const tenant of new Set([...active.keys(), ...all])) {
      signal.throwIfAborted()
      const { kind, reason } = await recoveryStore.check(tenant)
      const mark = active.get(tenant)
      const isIdle = mark !== undefined && clock.now() - mark.sinceMs >= IDLE_AFTER_MS
      if (kind === 'idle' && isIdle) await tenants.deactivate(mark)
      if (kind !== 'idle' && mark === undefined) await tenants.activate([tenant])
      if (kind === 'frozen' || kind === 'inconsistent') frozen += 1
      if (kind === 'inconsistent') reportFrozen(this.#deps, tenant, reason)
    }
    return frozen
  }

  async #takeSnapshots (signal: AbortSignal): Promise<void> {
    if (this.#term === undefined) this.#base = undefined
    // A recovery reads the same topics, and clients wait for it.
    if (this.#term === undefined || !this.#isHealthy || this.#isRecovering) return
    // A recovery that begins meanwhile writes snapshots that these do not know.
    const recoveries = this.#recoveries
    const base = this.#base ?? await readSnapshots(this.#deps, signal)
    if (this.#recoveries !== recoveries) return
    this.#base = base
    const next = await takeSnapshots(this.#deps, base, signal)
    if (this.#recoveries === recoveries) this.#base = next
  }
}

/**
 * Whether the server with the global keys, such as accounts, has lost none since wallets were
 * compared. Others may have restarted, or do not respond.
 */
function hasGlobalKeysOf (compared: ComparedTerm | undefined, { run, fence }: Term): boolean {
  return compared?.run === run && compared.fence === fence
}

/** Unlocks new tenants; returns those with a history, which must be compared first. */
async function unlockNew (
  deps: LeaderDeps, { known, fence, runs, retriedSoon }: ComparedTerm, requested: readonly string[]
): Promise<readonly string[]> {
  const toRecover: string[] = []
  for (const tenant of requested) {
    // Or each request of a client would have the topics read.
    if (retriedSoon.has(tenant)) continue
    const wallet = await deps.recoveryStore.fenceWallet(tenant, fence)
    // A request of a tenant that is not reached is repeated.
    if (wallet === undefined || typeof wallet === 'string') continue
    const { run, seq, outbox, openJobs } = wallet
    // A server that has restarted since the comparison may have lost all of a tenant.
    const isNew = runs.has(run) && !known.has(tenant) && seq === 0 &&
      outbox.length + openJobs.length === 0
    if (!isNew) {
      toRecover.push(tenant)
      continue
    }
    // From now on it has entries that this term has not read, so it is no longer new.
    known.add(tenant)
    await deps.tenants.activate([tenant])
    await deps.recoveryStore.unlock(tenant, { run, fence }, { seq })
  }
  return toRecover
}

/** Subscribes to tenants that wait to be unlocked; retries until the signal is aborted. */
function listen ({ subscriber, log }: LeaderDeps, signal: AbortSignal) {
  let requested = new Set<string>()
  let waiting = Promise.withResolvers<void>()
  const wake = () => waiting.resolve()
  subscriber.on('message', (_channel: string, tenant: string) => {
    requested.add(tenant)
    wake()
  })
  const onRetry = (error: unknown) => log.warn({ err: error },
    'failed to subscribe to unlock requests, retrying; locked tenants stay locked until then')
  retryForever(() => subscriber.subscribe(LOCKED_TENANTS_CHANNEL), { signal, onRetry })
    .catch(() => {})
  return {
    wake,

    /** Resolves on the next wake-up or request. */
    next: async (signal: AbortSignal): Promise<void> => {
      signal.addEventListener('abort', wake, { once: true })
      await waiting.promise
      signal.removeEventListener('abort', wake)
      waiting = Promise.withResolvers<void>()
    },

    /** The tenants requested since the last call. */
    take: (): readonly string[] => {
      const taken = [...requested]
      requested = new Set()
      return taken
    },
  }
}
