import type { Redis } from 'ioredis'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { sleep } from '../platform/retry.ts'
import { LOCKED_TENANTS_CHANNEL } from '../money/redis-keys.ts'
import { IDLE_AFTER_MS, type Tenants } from '../money/tenants.ts'
import { restoreAccounts, shipAccounts, type AccountsDeps } from './accounts.ts'
import type { RecoveryStore } from './recovery-store.ts'
import { recordErased } from './re-erase.ts'
import { recover, type RecoveryDeps } from './recovery.ts'
import { replay, type ReplayDeps } from './replay.ts'
import { readSnapshots, takeSnapshots, type Base, type SnapshotDeps } from './snapshots.ts'

export type LeadingDeps = RecoveryDeps & ReplayDeps & SnapshotDeps & AccountsDeps & {
  readonly recoveryStore: Pick<RecoveryStore, 'lead' | 'check' | 'countWaiting'>
  readonly tenants: Pick<Tenants, 'all' | 'active' | 'deactivate'>
  /** A connection of its own: once subscribed it serves nothing else. */
  readonly subscriber: Pick<Redis, 'on' | 'subscribe'>
  readonly clock: Clock
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>
  readonly metrics: Pick<Metrics, 'count' | 'watch'>
  readonly name: string
  readonly leaseMs: number
  readonly lookEveryMs: number
  /** Pause between two times that all active tenants are added up. */
  readonly checkEveryMs: number
  readonly snapshotEveryMs: number
}

export type Leading = {
  /** False while this ledger leads and has not compared all there is. */
  readonly ready: () => boolean
  /** True while this ledger is the one that compares and mends. */
  readonly leads: () => boolean
  readonly stop: () => Promise<void>
}

/** What is known of one term: a run of the server, and this ledger at its head. */
type LeaderState = { readonly run: string, readonly fence: string, readonly known: Set<string> }

/**
 * One ledger at a time compares and mends. Every second it makes sure of its lead and of the run of
 * the server: with another one of either it compares all tenants with the journal. In between it
 * lets in those that ask for it, counts jobs again whose tally was lost, and adds tenants up. A
 * look that fails is logged and tried again by the next one.
 */
export function startLeading (deps: LeadingDeps): Leading {
  const stopping = new AbortController()
  const { signal } = stopping
  const asking = listen(deps)
  const state: State = {
    current: undefined, healthy: false, frozen: 0, waiting: 0, checkedAt: -Infinity,
  }
  deps.metrics.watch('tenants_frozen', {}, () => state.frozen)
  deps.metrics.watch('tenants_waiting', {}, () => state.waiting)
  const repeat = createRepeat(signal, error => fail(deps, state, error))
  const renewing = repeat(deps.lookEveryMs, async () => {
    await renew(deps, state)
    asking.wake()
  })
  const working = repeat(0, async () => {
    await asking.next(signal)
    await look(deps, state, { asking, signal })
  })
  const repeatSnapshot = createRepeat(signal, error => deps.log.warn({ err: error },
    'snapshots of wallets could not be written: the next recovery reads more of the journal'))
  const snapshotting = repeatSnapshot(
    deps.snapshotEveryMs, () => snapshot(deps, state, signal))
  const repeatShipping = createRepeat(signal, error => deps.log.warn({ err: error },
    'changes of accounts could not be shipped to their topic: they are in Redis alone'))
  const shipping = repeatShipping(deps.lookEveryMs, async () => {
    if (state.current !== undefined) await shipAccounts(deps, signal)
  })
  return {
    ready: () => state.healthy,
    leads: () => state.term !== undefined,
    stop: async () => {
      stopping.abort()
      await Promise.all([renewing, working, snapshotting, shipping])
    },
  }
}

type State = {
  current: LeaderState | undefined
  term?: { readonly run: string, readonly fence: string } | undefined
  healthy: boolean
  frozen: number
  waiting: number
  checkedAt: number
  /** What the last snapshots of this leader say, and those before them. */
  base?: Base | undefined
}

function fail ({ log }: LeadingDeps, state: State, error: unknown): void {
  state.healthy = false
  log.warn({ err: error }, 'money could not be compared with the journal')
}

/** Leads, or goes on leading, unless another ledger does. */
async function renew ({ recoveryStore, name, leaseMs }: LeadingDeps, state: State): Promise<void> {
  const { run, fence } = await recoveryStore.lead(name, leaseMs)
  state.term = fence === undefined ? undefined : { run, fence }
  if (fence !== undefined) return
  Object.assign(state, { current: undefined, healthy: true, frozen: 0, waiting: 0 })
}

async function look (
  deps: LeadingDeps, state: State,
  { asking, signal }: { readonly asking: Asking, readonly signal: AbortSignal }
): Promise<void> {
  if (state.term === undefined) return
  const asked = asking.take()
  // Whoever asks may do so because everything is gone, the lead as well.
  if (asked.length > 0) await renew(deps, state)
  const { term } = state
  if (term === undefined) return
  const isNew = term.run !== state.current?.run || term.fence !== state.current.fence
  const strangers = isNew ? asked : await welcome(deps, state.current as LeaderState, asked)
  if (isNew) {
    // Of a Redis that has lost everything, a leader that was one before knows the tenants.
    const known = new Set([...await deps.tenants.all(), ...state.current?.known ?? []])
    state.waiting = await deps.recoveryStore.countWaiting([...known], term.run)
    await restoreAccounts(deps, term.run, signal)
  }
  if (isNew || strangers.length > 0) {
    if (strangers.length > 0) await deps.tenants.activate(strangers)
    const onWaiting = (tenants: number) => { state.waiting = tenants }
    state.base = undefined
    const known = await recover(deps, term.fence, { signal, onWaiting })
    state.current = { ...term, known: new Set(known) }
  }
  await replay(deps, signal)
  if (deps.clock.now() - state.checkedAt >= deps.checkEveryMs) {
    state.checkedAt = deps.clock.now()
    state.frozen = await checkAll(deps, signal)
    await recordErased(deps)
  }
  state.healthy = true
}

async function snapshot (deps: LeadingDeps, state: State, signal: AbortSignal): Promise<void> {
  if (state.term === undefined) state.base = undefined
  // A recovery is not to wait for it, nor to read what it writes.
  if (state.term === undefined || !state.healthy) return
  state.base = await takeSnapshots(deps, state.base ?? await readSnapshots(deps, signal), signal)
}

/** Lets in whoever has no past; returns those that have one and are to be compared first. */
async function welcome (
  deps: LeadingDeps, { known, fence }: LeaderState, asked: readonly string[]
): Promise<readonly string[]> {
  const strangers: string[] = []
  for (const tenant of asked) {
    const standing = await deps.recoveryStore.snapshotWallet(tenant, fence)
    if (standing === undefined || standing === 'fenced') continue
    const { run, seq, outbox, openJobs } = standing
    const isNew = !known.has(tenant) && seq === 0 && outbox.length + openJobs.length === 0
    if (!isNew) {
      strangers.push(tenant)
      continue
    }
    // Whatever it does from now on is in the journal that this term has not read.
    known.add(tenant)
    await deps.tenants.activate([tenant])
    await deps.recoveryStore.unlock(tenant, { run, fence }, { seq })
  }
  return strangers
}

/**
 * Adds every active tenant up, and takes the mark from those that have been idle for a while;
 * returns how many are frozen. A frozen tenant stays active.
 */
async function checkAll (
  { tenants, recoveryStore, clock, log, metrics }: LeadingDeps, signal: AbortSignal
): Promise<number> {
  let frozen = 0
  for (const one of await tenants.active()) {
    signal.throwIfAborted()
    const { tenant, sinceMs } = one
    const { kind, reason } = await recoveryStore.check(tenant)
    if (kind === 'idle' && clock.now() - sinceMs >= IDLE_AFTER_MS) await tenants.deactivate(one)
    if (kind === 'frozen' || kind === 'broken') frozen += 1
    if (kind !== 'broken') continue
    metrics.count('recovery_actions_total', { kind: 'frozen' })
    log.error({ tenant, reason }, 'the wallet of a tenant is frozen')
  }
  return frozen
}

type Asking = {
  readonly wake: () => void
  /** Resolves when there is something to look at. */
  readonly next: (signal: AbortSignal) => Promise<void>
  /** The tenants that have asked since the last time. */
  readonly take: () => readonly string[]
}

/** Tenants that ask to be let in, heard at once. */
function listen ({ subscriber, log }: LeadingDeps): Asking {
  let asked = new Set<string>()
  let waiting = Promise.withResolvers<void>()
  const wake = () => waiting.resolve()
  subscriber.on('message', (_channel: string, tenant: string) => {
    asked.add(tenant)
    wake()
  })
  subscriber.subscribe(LOCKED_TENANTS_CHANNEL).catch((error: unknown) =>
    log.warn({ err: error }, 'tenants that ask to be let in are not heard yet'))
  return {
    wake,
    next: async signal => {
      signal.addEventListener('abort', wake, { once: true })
      await waiting.promise
      signal.removeEventListener('abort', wake)
      waiting = Promise.withResolvers<void>()
    },
    take: () => {
      const taken = [...asked]
      asked = new Set()
      return taken
    },
  }
}

/** Does something over and over, with a pause in between, until the signal is aborted. */
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
