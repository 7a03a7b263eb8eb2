import type { Redis } from 'ioredis'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { retryForever, sleep } from '../platform/retry.ts'
import { LOCKED_TENANTS_CHANNEL } from '../money/redis-keys.ts'
import { IDLE_AFTER_MS, type Tenants } from '../money/tenants.ts'
import { restoreAccounts, shipAccounts, type AccountsDeps } from './accounts.ts'
import type { RecoveryStore } from './recovery-store.ts'
import { recordErased } from './restore-keys.ts'
import { recover, reportFrozen, type RecoveryDeps } from './recovery.ts'
import { recountLostJobs, type RecountDeps } from './recount.ts'
import { readSnapshots, takeSnapshots, type Base, type WalletSnapshotDeps } from './snapshots.ts'

export type LeaderDeps = RecoveryDeps & RecountDeps & WalletSnapshotDeps & AccountsDeps & {
  readonly recoveryStore: Pick<RecoveryStore, 'lead' | 'check' | 'countWaiting'>
  readonly tenants: Pick<Tenants, 'all' | 'active' | 'deactivate'>
  /** A connection of its own: once subscribed it serves nothing else. */
  readonly subscriber: Pick<Redis, 'on' | 'subscribe'>
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

/** The run of the server and the leader term in which all wallets were compared. */
type LeaderState = { readonly run: string, readonly fence: string, readonly known: Set<string> }

/**
 * Elects one ledger as leader. Every `pollMs` it renews its lease and reads the run id of the
 * server; if either has changed, the leader compares all wallets with the journal. In between it
 * unlocks tenants on request, recounts jobs whose tally was lost, and checks sums. A round that
 * fails is logged and retried.
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
    waiting: 0,
    checkedAt: -Infinity,
    step: 'unlock',
  }
  deps.metrics.watch('tenants_frozen', {}, () => state.frozen)
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

type LeaderStep = 'renew' | 'unlock' | 'accounts' | 'recover' | 'recount' | 'check'

type State = {
  current: LeaderState | undefined
  term?: { readonly run: string, readonly fence: string } | undefined
  healthy: boolean
  /** True while wallets are compared with the journal. */
  recovering: boolean
  frozen: number
  waiting: number
  checkedAt: number
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
  const { run, fence } = await recoveryStore.lead(name, leaseMs)
  state.term = fence === undefined ? undefined : { run, fence }
  if (fence !== undefined) return
  Object.assign(state, { current: undefined, healthy: true, frozen: 0, waiting: 0 })
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
  const isNew = term.run !== state.current?.run || term.fence !== state.current.fence
  const toRecover = isNew
    ? requested
    : await unlockNew(deps, state.current as LeaderState, requested)
  if (isNew || toRecover.length > 0) {
    // If Redis has lost everything, a previous term of this leader still knows the tenants.
    const known = new Set([...await deps.tenants.all(), ...state.current?.known ?? []])
    state.waiting = await deps.recoveryStore.countWaiting([...known], term.run)
    state.step = 'accounts'
    if (isNew) await restoreAccounts(deps, term.run, signal)
    state.step = 'recover'
    if (toRecover.length > 0) await deps.tenants.activate(toRecover)
    const onWaiting = (tenants: number) => { state.waiting = tenants }
    state.base = undefined
    state.recovering = true
    try {
      const compared = await recover(deps, term.fence, { signal, onWaiting })
      state.current = { ...term, known: new Set(compared) }
    } finally {
      state.recovering = false
    }
  }
  state.step = 'recount'
  await recountLostJobs(deps, signal)
  state.step = 'check'
  if (deps.clock.now() - state.checkedAt >= deps.checkEveryMs) {
    state.checkedAt = deps.clock.now()
    state.frozen = await checkAll(deps, signal)
    await recordErased(deps)
  }
  state.healthy = true
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
    if (wallet === undefined || wallet === 'fenced') continue
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
 * while. Returns how many are frozen; a frozen tenant stays active.
 */
async function checkAll (
  { tenants, recoveryStore, clock, log, metrics }: LeaderDeps, signal: AbortSignal
): Promise<number> {
  let frozen = 0
  for (const one of await tenants.active()) {
    signal.throwIfAborted()
    const { tenant, sinceMs } = one
    const { kind, reason } = await recoveryStore.check(tenant)
    if (kind === 'idle' && clock.now() - sinceMs >= IDLE_AFTER_MS) await tenants.deactivate(one)
    if (kind === 'frozen' || kind === 'inconsistent') frozen += 1
    if (kind !== 'inconsistent') continue
    reportFrozen({ log, metrics }, tenant, reason)
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

/** Repeats an action with a pause in between, until the signal is aborted. */
function createRepeat (signal: AbortSignal, onError: (error: unknown) => void) {
  return async (everyMs: number, action: () => Promise<void>): Promise<void> => {
    while (!signal.aborted) {
      try {
        await action()
      } catch (error) {
        if (signal.aborted) return
        onError(error)
      }
      if (everyMs > 0) await sleep(everyMs, signal).catch(() => {})
    }
  }
}
