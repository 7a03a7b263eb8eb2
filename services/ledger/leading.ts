import type { Redis } from 'ioredis'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import type { Metrics } from '../lib/metrics.ts'
import { sleep } from '../lib/retry.ts'
import { UNBLESSED_CHANNEL } from '../money/redis-keys.ts'
import { IDLE_AFTER_MS, type Tenants } from '../money/tenants.ts'
import { restoreAccounts, shipAccounts, type AccountsParts } from './accounts.ts'
import type { Desk } from './desk.ts'
import { noteErased } from './erase-again.ts'
import { recover, type RecoveryParts } from './recovery.ts'
import { replay, type ReplayParts } from './replay.ts'
import { readSnapshots, takeSnapshots, type Base, type SnapshotParts } from './snapshots.ts'

export type LeadingParts = RecoveryParts & ReplayParts & SnapshotParts & AccountsParts & {
  readonly desk: Pick<Desk, 'lead' | 'check' | 'countWaiting'>
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

/** What is known of one reign: a run of the server, and this ledger at its head. */
type Reign = { readonly run: string, readonly fence: string, readonly known: Set<string> }

/**
 * One ledger at a time compares and mends. Every second it makes sure of its lead and of the run of
 * the server: with another one of either it compares all tenants with the journal. In between it
 * lets in those that ask for it, counts jobs again whose tally was lost, and adds tenants up. A
 * look that fails is logged and tried again by the next one.
 */
export function startLeading (parts: LeadingParts): Leading {
  const stopping = new AbortController()
  const { signal } = stopping
  const asking = listen(parts)
  const state: State = {
    reign: undefined, healthy: false, frozen: 0, waiting: 0, checkedAt: -Infinity,
  }
  parts.metrics.watch('tenants_frozen', {}, () => state.frozen)
  parts.metrics.watch('tenants_waiting', {}, () => state.waiting)
  const repeat = createRepeat(signal, error => fail(parts, state, error))
  const renewing = repeat(parts.lookEveryMs, async () => {
    await renew(parts, state)
    asking.wake()
  })
  const working = repeat(0, async () => {
    await asking.next(signal)
    await look(parts, state, { asking, signal })
  })
  const repeatSnapshot = createRepeat(signal, error => parts.log.warn({ err: error },
    'snapshots of wallets could not be written: the next recovery reads more of the journal'))
  const snapshotting = repeatSnapshot(
    parts.snapshotEveryMs, () => snapshot(parts, state, signal))
  const repeatShipping = createRepeat(signal, error => parts.log.warn({ err: error },
    'changes of accounts could not be shipped to their topic: they are in Redis alone'))
  const shipping = repeatShipping(parts.lookEveryMs, async () => {
    if (state.reign !== undefined) await shipAccounts(parts, signal)
  })
  return {
    ready: () => state.healthy,
    leads: () => state.mandate !== undefined,
    stop: async () => {
      stopping.abort()
      await Promise.all([renewing, working, snapshotting, shipping])
    },
  }
}

type State = {
  reign: Reign | undefined
  mandate?: { readonly run: string, readonly fence: string } | undefined
  healthy: boolean
  frozen: number
  waiting: number
  checkedAt: number
  /** What the last snapshots of this leader say, and those before them. */
  base?: Base | undefined
}

function fail ({ log }: LeadingParts, state: State, error: unknown): void {
  state.healthy = false
  log.warn({ err: error }, 'money could not be compared with the journal')
}

/** Leads, or goes on leading, unless another ledger does. */
async function renew ({ desk, name, leaseMs }: LeadingParts, state: State): Promise<void> {
  const { run, fence } = await desk.lead(name, leaseMs)
  state.mandate = fence === undefined ? undefined : { run, fence }
  if (fence !== undefined) return
  Object.assign(state, { reign: undefined, healthy: true, frozen: 0, waiting: 0 })
}

async function look (
  parts: LeadingParts, state: State,
  { asking, signal }: { readonly asking: Asking, readonly signal: AbortSignal }
): Promise<void> {
  if (state.mandate === undefined) return
  const asked = asking.take()
  // Whoever asks may do so because everything is gone, the lead as well.
  if (asked.length > 0) await renew(parts, state)
  const { mandate } = state
  if (mandate === undefined) return
  const isNew = mandate.run !== state.reign?.run || mandate.fence !== state.reign.fence
  const strangers = isNew ? asked : await welcome(parts, state.reign as Reign, asked)
  if (isNew) {
    // Of a Redis that has lost everything, a leader that was one before knows the tenants.
    const known = new Set([...await parts.tenants.all(), ...state.reign?.known ?? []])
    state.waiting = await parts.desk.countWaiting([...known], mandate.run)
    await restoreAccounts(parts, mandate.run, signal)
  }
  if (isNew || strangers.length > 0) {
    if (strangers.length > 0) await parts.tenants.activate(strangers)
    const onWaiting = (tenants: number) => { state.waiting = tenants }
    state.base = undefined
    const known = await recover(parts, mandate.fence, { signal, onWaiting })
    state.reign = { ...mandate, known: new Set(known) }
  }
  await replay(parts, signal)
  if (parts.clock.now() - state.checkedAt >= parts.checkEveryMs) {
    state.checkedAt = parts.clock.now()
    state.frozen = await checkAll(parts, signal)
    await noteErased(parts)
  }
  state.healthy = true
}

async function snapshot (parts: LeadingParts, state: State, signal: AbortSignal): Promise<void> {
  if (state.mandate === undefined) state.base = undefined
  // A recovery is not to wait for it, nor to read what it writes.
  if (state.mandate === undefined || !state.healthy) return
  state.base = await takeSnapshots(parts, state.base ?? await readSnapshots(parts, signal), signal)
}

/** Lets in whoever has no past; returns those that have one and are to be compared first. */
async function welcome (
  parts: LeadingParts, { known, fence }: Reign, asked: readonly string[]
): Promise<readonly string[]> {
  const strangers: string[] = []
  for (const tenant of asked) {
    const standing = await parts.desk.survey(tenant, fence)
    if (standing === undefined || standing === 'fenced') continue
    const { run, seq, outbox, openJobs } = standing
    const isNew = !known.has(tenant) && seq === 0 && outbox.length + openJobs.length === 0
    if (!isNew) {
      strangers.push(tenant)
      continue
    }
    // Whatever it does from now on is in the journal that this reign has not read.
    known.add(tenant)
    await parts.tenants.activate([tenant])
    await parts.desk.bless(tenant, { run, fence }, { seq })
  }
  return strangers
}

/**
 * Adds every active tenant up, and takes the mark from those that have been idle for a while;
 * returns how many are frozen. A frozen tenant stays active.
 */
async function checkAll (
  { tenants, desk, clock, log, metrics }: LeadingParts, signal: AbortSignal
): Promise<number> {
  let frozen = 0
  for (const one of await tenants.active()) {
    signal.throwIfAborted()
    const { tenant, sinceMs } = one
    const { kind, reason } = await desk.check(tenant)
    if (kind === 'idle' && clock.now() - sinceMs >= IDLE_AFTER_MS) await tenants.deactivate(one)
    if (kind === 'frozen' || kind === 'broken') frozen += 1
    if (kind !== 'broken') continue
    metrics.count('recovered_total', { what: 'frozen' })
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
function listen ({ subscriber, log }: LeadingParts): Asking {
  let asked = new Set<string>()
  let waiting = Promise.withResolvers<void>()
  const wake = () => waiting.resolve()
  subscriber.on('message', (_channel: string, tenant: string) => {
    asked.add(tenant)
    wake()
  })
  subscriber.subscribe(UNBLESSED_CHANNEL).catch((error: unknown) =>
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
