import type { Clock } from '../platform/clock.ts'
import type { RedisClient } from '../platform/redis.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { createRepeat, retryForever } from '../platform/retry.ts'
import { LOCKED_TENANTS_CHANNEL } from '../money/redis-keys.ts'
import { IDLE_AFTER_MS, MARK_LASTS_MS, type Tenants } from '../money/tenants.ts'
import { type AccountsDeps, restoreAccounts, restoreLostKeys, shipAccounts } from './accounts.ts'
import type { RecoveryStore } from './recovery-store.ts'
import {
  recordDeliveries, restoreDeliveries, type RestoreDeliveriesDeps,
} from './restore-deliveries.ts'
import { recordErased } from './restore-keys.ts'
import { recover, reportFrozen, type RecoveryDeps } from './recovery.ts'
import { recountLostJobs, restoreMarks, type RecountDeps } from './recount.ts'
import { readSnapshots, takeSnapshots, type Base, type WalletSnapshotDeps } from './snapshots.ts'

export type LeaderDeps = RecoveryDeps & RecountDeps & WalletSnapshotDeps & AccountsDeps &
  RestoreDeliveriesDeps & {
    readonly recoveryStore: Pick<RecoveryStore,
      'lead' | 'check' | 'countWaiting' | 'isAnyResponding'>
    readonly tenants: Pick<Tenants, 'all' | 'active' | 'deactivate'>
    /** A connection of its own: once subscribed it serves nothing else. */
    readonly subscriber: Pick<RedisClient, 'on' | 'subscribe'>
    readonly clock: Clock
    readonly log: Pick<Log, 'info' | 'warn' | 'error'>
    readonly metrics: Pick<Metrics, 'count' | 'watch'>
    readonly name: string
    readonly leaseMs: number
    readonly pollMs: number
    /** Pause between two checks of the sums of all active wallets. */
    readonly checkEveryMs: number
    readonly snapshotEveryMs: number
  }

export type Leader = {
  /** False while this ledger leads and has not compared all wallets. */
  readonly ready: () => boolean
  /** True while this ledger is the leader. */
  readonly isLeader: () => boolean
  readonly stop: () => Promise<void>
}

/** Commands that change an account wait until it is in the topic. */
const MAX_SHIPPING_POLL_MS = 100

/** The run of the server with the global keys, the fencing token, and the runs of all servers. */
type Term = { readonly run: string, readonly fence: string, readonly runs: ReadonlySet<string> }

/** The term in which all wallets were compared. */
type LeaderState = Term & {
  readonly known: Set<string>
  /** When to compare again, because tenants were unreachable; else `Infinity`. */
  readonly retryAtMs: number
}

/**
 * Elects one ledger as leader. Every `pollMs` it renews its lease and reads the run ids of the
 * servers; if it has become the leader or one is new, it compares all locked wallets with the
 * journal. In between it unlocks tenants on request, recounts jobs whose tally was lost, and checks
 * sums. A round that fails is logged and retried.
 */
export function startLeader (deps: LeaderDeps): Leader {
  const stopping = new AbortController()
  const { signal } = stopping
  const requests = listen(deps, signal)
  const state: State = {
    current: undefined,
    healthy: false,
    recovering: false,
    frozen: 0,
    withoutKeys: 0,
    waiting: 0,
    checkedAt: -Infinity,
    checkAllUntilMs: -Infinity,
    step: 'unlock',
  }
  deps.metrics.watch('tenants_frozen', {}, () => state.frozen)
  deps.metrics.watch('organizations_without_keys', {}, () => state.withoutKeys)
  deps.metrics.watch('tenants_waiting', {}, () => state.waiting)
  const repeatRenewal = createRepeat(signal, err => fail(deps, state, { err, step: 'renew' }))
  const renewing = repeatRenewal(deps.pollMs, async () => {
    await renew(deps, state)
    requests.wake()
  })
  const repeatRound = createRepeat(signal, err => fail(deps, state, { err, step: state.step }))
  const working = repeatRound(0, async () => {
    await requests.next(signal)
    await runOnce(deps, state, { requests, signal })
  })
  const repeatSnapshot = createRepeat(signal, error => deps.log.warn({ err: error },
    'failed to write wallet snapshots: the next recovery reads more of the journal'))
  const snapshotting = repeatSnapshot(
    deps.snapshotEveryMs, () => snapshot(deps, state, signal))
  const repeatShipping = createRepeat(signal, error => deps.log.warn({ err: error },
    'failed to send account changes to topic accounts, retrying; do not restart Redis until this ' +
    'succeeds'))
  const shipping = repeatShipping(Math.min(deps.pollMs, MAX_SHIPPING_POLL_MS), async () => {
    if (state.current !== undefined) await shipAccounts(deps, signal)
  })
  return {
    ready: () => state.healthy,
    isLeader: () => state.term !== undefined,
    stop: async () => {
      stopping.abort()
      await Promise.all([renewing, working, snapshotting, shipping])
    },
  }
}

type LeaderStep = 'renew' | 'unlock' | 'accounts' | 'recover' | 'deliveries' | 'recount' | 'check'

type State = {
  current: LeaderState | undefined
  term?: Term | undefined
  healthy: boolean
  /** True while wallets are compared with the journal. */
  recovering: boolean
  frozen: number
  withoutKeys: number
  waiting: number
  checkedAt: number
  /** Until then all tenants are checked, as marks of active ones may be lost. */
  checkAllUntilMs: number
  /** What the current round does, for logs. */
  step: LeaderStep
  /** The latest snapshots. */
  base?: Base | undefined
}

function fail (
  { log }: LeaderDeps, state: State, fields: { readonly err: unknown, readonly step: LeaderStep }
): void {
  state.healthy = false
  log.warn(fields, 'leader round failed, retrying; locked wallets stay locked')
}

/** Acquires or renews the leadership, unless another ledger has it. */
async function renew ({ recoveryStore, name, leaseMs }: LeaderDeps, state: State): Promise<void> {
  const { run, fence, runs } = await recoveryStore.lead(name, leaseMs)
  state.term = fence === undefined ? undefined : { run, fence, runs }
  if (fence !== undefined) return
  Object.assign(state, {
    current: undefined, healthy: true, frozen: 0, withoutKeys: 0, waiting: 0,
  })
}

async function runOnce (
  deps: LeaderDeps, state: State,
  { requests, signal }: { readonly requests: UnlockRequests, readonly signal: AbortSignal }
): Promise<void> {
  if (state.term === undefined) return
  state.step = 'unlock'
  const requested = requests.take()
  // A request may mean that Redis has lost everything, the lease included.
  if (requested.length > 0) await renew(deps, state)
  const { term } = state
  if (term === undefined) return
  const isNew = isNewTerm(deps, state.current, term)
  const toRecover = isNew
    ? requested
    : await unlockNew(deps, state.current as LeaderState, requested)
  if (isNew || toRecover.length > 0) {
    // If Redis has lost everything, a previous term of this leader still knows the tenants.
    const known = new Set([...await deps.tenants.all(), ...state.current?.known ?? []])
    state.waiting = await deps.recoveryStore.countWaiting([...known], term.runs)
    state.step = 'accounts'
    if (isNew) await restoreAccounts(deps, signal)
    state.step = 'recover'
    if (toRecover.length > 0) await deps.tenants.activate(toRecover)
    await recoverAll(deps, state, { term, signal })
  }
  await runEach(state, {
    recount: () => recountLostJobs(deps, signal),
    deliveries: () => restoreDeliveries(deps, signal),
    check: async () => {
      if (deps.clock.now() - state.checkedAt < deps.checkEveryMs) return
      state.checkedAt = deps.clock.now()
      state.frozen = await checkAll(deps, state, signal)
      state.withoutKeys = await restoreLostKeys(deps, signal)
      await recordErased(deps)
      await recordDeliveries(deps)
    },
  })
  state.healthy = true
}

/** Runs all steps, as they may use different servers, and throws the first failure. */
async function runEach (
  state: State, steps: Readonly<Partial<Record<LeaderStep, () => Promise<unknown>>>>
): Promise<void> {
  const failures: { readonly step: LeaderStep, readonly error: unknown }[] = []
  for (const [step, work] of Object.entries(steps) as [LeaderStep, () => Promise<unknown>][]) {
    state.step = step
    await work().catch(error => { failures.push({ step, error }) })
  }
  const [first] = failures
  if (first === undefined) return
  state.step = first.step
  throw first.error
}

/** Whether there is something to compare that no request names. A server may be gone for long. */
function isNewTerm (
  { clock }: Pick<LeaderDeps, 'clock'>, current: LeaderState | undefined,
  { run, fence, runs }: Term
): boolean {
  if (current?.run !== run || current.fence !== fence) return true
  return clock.now() >= current.retryAtMs || [...runs].some(one => !current.runs.has(one))
}

/** Compares all locked wallets and restores what the server with the global keys may have lost. */
async function recoverAll (
  deps: LeaderDeps, state: State,
  { term, signal }: { readonly term: Term, readonly signal: AbortSignal }
): Promise<void> {
  const { current } = state
  const onWaiting = (tenants: number) => { state.waiting = tenants }
  state.base = undefined
  state.recovering = true
  try {
    const { known, unreachable } = await recover(deps, term.fence, { signal, onWaiting })
    const hasLostGlobalKeys = current?.run !== term.run || current.fence !== term.fence
    // A single server has lost them only together with the wallets, which were compared.
    if (term.runs.size > 1 && hasLostGlobalKeys) {
      await restoreMarks(deps.redis, [...known].filter(tenant => !unreachable.has(tenant)))
      state.checkAllUntilMs = deps.clock.now() + MARK_LASTS_MS + 2 * deps.checkEveryMs
    }
    const retryAtMs = deps.clock.now() + await retryAfterMs(deps, [...unreachable])
    const runs = new Set([...current?.runs ?? [], ...term.runs])
    state.current = { ...term, runs, known: new Set(known), retryAtMs }
  } finally {
    state.recovering = false
  }
}

const RETRY_MS = 2_000
const RETRY_SILENT_MS = 30_000

/** When to compare tenants again that were unreachable: soon if their server is starting. */
async function retryAfterMs (
  { recoveryStore }: LeaderDeps, unreachable: readonly string[]
): Promise<number> {
  if (unreachable.length === 0) return Infinity
  return await recoveryStore.isAnyResponding(unreachable) ? RETRY_MS : RETRY_SILENT_MS
}

async function snapshot (deps: LeaderDeps, state: State, signal: AbortSignal): Promise<void> {
  if (state.term === undefined) state.base = undefined
  // A recovery reads the same topics, and clients wait for it.
  if (state.term === undefined || !state.healthy || state.recovering) return
  state.base = await takeSnapshots(deps, state.base ?? await readSnapshots(deps, signal), signal)
}

/** Unlocks new tenants; returns those with a history, which must be compared first. */
async function unlockNew (
  deps: LeaderDeps, { known, fence }: LeaderState, requested: readonly string[]
): Promise<readonly string[]> {
  const toRecover: string[] = []
  for (const tenant of requested) {
    const wallet = await deps.recoveryStore.snapshotWallet(tenant, fence)
    // A request of a tenant that is not reached is repeated.
    if (wallet === undefined || typeof wallet === 'string') continue
    const { run, seq, outbox, openJobs } = wallet
    const isNew = !known.has(tenant) && seq === 0 && outbox.length + openJobs.length === 0
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

/**
 * Checks the sums of every active wallet, and removes the mark of those that have been idle for a
 * while; of all wallets while marks may be lost, which it restores. Returns how many are frozen; a
 * frozen tenant stays active.
 */
async function checkAll (deps: LeaderDeps, state: State, signal: AbortSignal): Promise<number> {
  const { tenants, recoveryStore, clock } = deps
  const active = new Map((await tenants.active()).map(one => [one.tenant, one]))
  const all = clock.now() < state.checkAllUntilMs ? await tenants.all() : []
  let frozen = 0
  for (const tenant of new Set([...active.keys(), ...all])) {
    signal.throwIfAborted()
    const { kind, reason } = await recoveryStore.check(tenant)
    const mark = active.get(tenant)
    const isIdle = mark !== undefined && clock.now() - mark.sinceMs >= IDLE_AFTER_MS
    if (kind === 'idle' && isIdle) await tenants.deactivate(mark)
    if (kind !== 'idle' && mark === undefined) await tenants.activate([tenant])
    if (kind === 'frozen' || kind === 'inconsistent') frozen += 1
    if (kind === 'inconsistent') reportFrozen(deps, tenant, reason)
  }
  return frozen
}

type UnlockRequests = {
  readonly wake: () => void
  /** Resolves on the next wake-up or request. */
  readonly next: (signal: AbortSignal) => Promise<void>
  /** The tenants requested since the last call. */
  readonly take: () => readonly string[]
}

/** Subscribes to tenants that wait to be unlocked; retries until the signal is aborted. */
function listen ({ subscriber, log }: LeaderDeps, signal: AbortSignal): UnlockRequests {
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
    next: async signal => {
      signal.addEventListener('abort', wake, { once: true })
      await waiting.promise
      signal.removeEventListener('abort', wake)
      waiting = Promise.withResolvers<void>()
    },
    take: () => {
      const taken = [...requested]
      requested = new Set()
      return taken
    },
  }
}
