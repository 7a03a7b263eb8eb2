import { setTimeout as pause } from 'node:timers/promises'
import type { Journal } from '../../../schemas/types.ts'
import type { Job } from '../../jobs/job.ts'
import { createJobStore } from '../../jobs/store.ts'
import { createOutbox } from '../../money/outbox.ts'
import { moneyKeys } from '../../money/redis-keys.ts'
import { createWallet, type Balance } from '../../money/wallet.ts'
import type { JournalCopy } from '../../money/journal-copy.ts'
import type { RedisClient } from '../../platform/redis.ts'

/** The state of a tenant in Redis. */
export type TenantState = {
  readonly balance: Balance
  /** Movements that ledger has not copied to the journal yet. */
  readonly outbox: readonly Journal[]
  /** Jobs that are accepted and not closed. */
  readonly openJobs: readonly Job[]
  /** How many jobs hold a slot. */
  readonly slots: number
}

/** The same with the tenant's journal in ClickHouse. */
type Snapshot = TenantState & {
  /** Entries of the copy, by seq. */
  readonly copy: readonly Journal[]
  /** The seq in each row of the copy that has no authentic MAC. */
  readonly forged: readonly number[]
}

export type AuditSnapshotDeps = {
  readonly redis: RedisClient
  readonly journal: Pick<JournalCopy, 'read' | 'counts'>
}

const POLL_MS = 100

/**
 * Reads a consistent snapshot: it retries while money moves, entries are not copied, or jobs are
 * ended but not closed. After `waitMs` it returns the snapshot as it is, so that a tenant that
 * never becomes quiet shows up as a breach.
 */
export async function takeAuditSnapshot (
  deps: AuditSnapshotDeps, tenant: string, waitMs: number
): Promise<Snapshot> {
  const deadlineMs = Date.now() + waitMs
  for (;;) {
    const state = await readState(deps, tenant)
    const { entries: copy, forged } = await deps.journal.read(tenant)
    const after = await createWallet(deps.redis).balance(tenant)
    const isConsistent = after.seq === state.balance.seq && isQuiet(state, copy.length)
    if (isConsistent || Date.now() >= deadlineMs) return { ...state, copy, forged }
    await pause(POLL_MS)
  }
}

/**
 * Reads the state of a tenant at a time when it is quiet and its copy is complete; undefined when
 * there is no such time within `waitMs`.
 */
export async function readQuietState (
  deps: AuditSnapshotDeps, tenant: string, waitMs: number
): Promise<TenantState | undefined> {
  const deadlineMs = Date.now() + waitMs
  for (;;) {
    const state = await readState(deps, tenant)
    const { balance: { seq } } = state
    const copied = (await deps.journal.counts(new Map([[tenant, seq]]))).get(tenant) ?? 0
    const after = await createWallet(deps.redis).balance(tenant)
    if (after.seq === seq && isQuiet(state, copied)) return state
    if (Date.now() >= deadlineMs) return undefined
    await pause(POLL_MS)
  }
}

async function readState (
  { redis }: Pick<AuditSnapshotDeps, 'redis'>, tenant: string
): Promise<TenantState> {
  const store = createJobStore(redis)
  const balance = await createWallet(redis).balance(tenant)
  const slots = Number(await redis.hget(moneyKeys(tenant).wallet, 'slots'))
  const open = await store.openJobs(tenant)
  const jobs = await Promise.all(open.map(({ job }) => store.read(tenant, job)))
  const openJobs = jobs.filter(job => job !== undefined && !job.closed) as readonly Job[]
  const outbox = await createOutbox(redis).pending(tenant)
  return { balance, slots, openJobs, outbox }
}

function isQuiet ({ balance, outbox, openJobs }: TenantState, copied: number): boolean {
  return outbox.length === 0 && copied >= balance.seq && openJobs.every(({ ended }) => !ended)
}
