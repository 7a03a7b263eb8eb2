import { setTimeout as pause } from 'node:timers/promises'
import type { Journal } from '../../../schemas/types.ts'
import type { Job } from '../../jobs/job.ts'
import { jobKeys } from '../../jobs/redis-keys.ts'
import { createJobStore } from '../../jobs/store.ts'
import { moneyKeys } from '../../money/redis-keys.ts'
import { createWallet, type Balance, createOutbox } from '../../money/wallet.ts'
import type { JournalCopy } from '../../money/journal-copy.ts'
import type { RedisClient } from '../../runtime/platform/redis.ts'

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
/** A state is read within milliseconds, between two movements of a busy tenant. */
const RETRY_MS = 20

/**
 * Reads the state of a tenant at one moment, waits until the copy has all movements up to then, and
 * returns the state with the copy up to then. Movements since are left to the next audit, so that a
 * busy tenant can be audited. After `waitMs` it returns what it has: a movement that is not copied
 * by then is a breach.
 */
export async function takeAuditSnapshot (
  deps: AuditSnapshotDeps, tenant: string, waitMs: number
): Promise<Snapshot> {
  const { state } = await readSettledState(deps, tenant, waitMs)
  const { entries, forged } = await deps.journal.read(tenant)
  const { seq: latest } = await createWallet(deps.redis).balance(tenant)
  const copy = entries.filter(({ seq }) => seq <= state.balance.seq || seq > latest)
  return { ...state, copy, forged }
}

/**
 * Reads the state of a tenant at one moment. `isSettled` once the copy has all movements up to then
 * and the jobs that had ended are closed, also those whose end Redis has lost and the journal has;
 * false if that is not so within `waitMs`.
 */
export async function readSettledState (
  deps: AuditSnapshotDeps, tenant: string, waitMs: number
): Promise<{ readonly state: TenantState, readonly isSettled: boolean }> {
  const deadlineMs = Date.now() + waitMs
  const until = async (isReached: () => Promise<boolean>, pauseMs: number) => {
    while (!await isReached()) {
      if (Date.now() >= deadlineMs) return false
      await pause(pauseMs)
    }
    return true
  }
  const read = async () => {
    const state = await readState(deps, tenant)
    const { seq } = await createWallet(deps.redis).balance(tenant)
    return { state, isConsistent: seq === state.balance.seq }
  }
  let last = await read()
  const isConsistent = last.isConsistent || await until(async () => {
    last = await read()
    return last.isConsistent
  }, RETRY_MS)
  const { state } = last
  const { seq } = state.balance
  const isCopied = async () =>
    ((await deps.journal.counts(new Map([[tenant, seq]]))).get(tenant) ?? 0) >= seq
  const isSettled = isConsistent && await until(isCopied, POLL_MS) &&
    await until(() => areClosed(deps, tenant, state), POLL_MS)
  return { state, isSettled }
}

async function areClosed (
  { redis }: AuditSnapshotDeps, tenant: string, { openJobs }: TenantState
): Promise<boolean> {
  const store = createJobStore(redis)
  const areOver = await Promise.all(openJobs.map(async ({ id, ended }) => {
    const { job: record } = jobKeys(tenant, id)
    if (!ended && await redis.hexists(record, 'journaledSettleSeq') === 0) return true
    const job = await store.read(tenant, id)
    return job === undefined || job.closed
  }))
  return areOver.every(Boolean)
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
