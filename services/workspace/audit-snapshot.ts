import type { Redis } from 'ioredis'
import { setTimeout as pause } from 'node:timers/promises'
import type { Journal } from '../../schemas/types.ts'
import type { Job } from '../jobs/job.ts'
import { tenantJobKeys } from '../jobs/redis-keys.ts'
import { createJobStore } from '../jobs/store.ts'
import { createOutbox } from '../money/outbox.ts'
import { createWallet, type Balance } from '../money/wallet.ts'
import type { JournalCopy } from '../records/journal-copy.ts'

/** Everything about a tenant but its closed jobs, as of one moment. */
export type Snapshot = {
  readonly balance: Balance
  readonly outbox: readonly Journal[]
  /** Entries of the copy, by seq. */
  readonly copy: readonly Journal[]
  /** Rows of the copy that no service stored, by the seq they claim. */
  readonly forged: readonly number[]
  /** Accepted and not closed. */
  readonly openJobs: readonly Job[]
  /** Jobs that hold one of the tenant's slots. */
  readonly slots: readonly string[]
}

/** The same without the copy. */
export type Moment = Omit<Snapshot, 'copy' | 'forged'>

export type SnapshotParts = {
  readonly redis: Redis
  readonly journal: Pick<JournalCopy, 'read' | 'counts'>
}

const LOOK_EVERY_MS = 100

/**
 * Waits until the ledger has everything and nothing is between ended and closed, then reads. A
 * snapshot during which money moved is taken again. After `waitMs` it takes what there is, so what
 * never comes to rest shows as a breach.
 */
export async function takeSnapshot (
  parts: SnapshotParts, tenant: string, waitMs: number
): Promise<Snapshot> {
  const until = Date.now() + waitMs
  for (;;) {
    const snapshot = await readSnapshot(parts, tenant)
    const after = await createWallet(parts.redis).balance(tenant)
    const rests = after.seq === snapshot.balance.seq && isAtRest(snapshot, snapshot.copy.length)
    if (rests || Date.now() >= until) return snapshot
    await pause(LOOK_EVERY_MS)
  }
}

/** A moment at which a tenant rests and its copy is complete; undefined if none comes in time. */
export async function takeMoment (
  parts: SnapshotParts, tenant: string, waitMs: number
): Promise<Moment | undefined> {
  const until = Date.now() + waitMs
  for (;;) {
    const moment = await readMoment(parts, tenant)
    const { balance: { seq } } = moment
    const copied = (await parts.journal.counts(new Map([[tenant, seq]]))).get(tenant) ?? 0
    const after = await createWallet(parts.redis).balance(tenant)
    if (after.seq === seq && isAtRest(moment, copied)) return moment
    if (Date.now() >= until) return undefined
    await pause(LOOK_EVERY_MS)
  }
}

async function readSnapshot (parts: SnapshotParts, tenant: string): Promise<Snapshot> {
  const moment = await readMoment(parts, tenant)
  const { entries: copy, forged } = await parts.journal.read(tenant)
  return { ...moment, copy, forged }
}

async function readMoment (
  { redis }: Pick<SnapshotParts, 'redis'>, tenant: string
): Promise<Moment> {
  const store = createJobStore(redis)
  const balance = await createWallet(redis).balance(tenant)
  const slots = await redis.smembers(tenantJobKeys(tenant).active)
  const open = await store.openJobs(tenant)
  const jobs = await Promise.all(open.map(({ job }) => store.read(tenant, job)))
  const openJobs = jobs.filter(job => job !== undefined && !job.closed) as readonly Job[]
  const outbox = await createOutbox(redis).pending(tenant)
  return { balance, slots, openJobs, outbox }
}

function isAtRest ({ balance, outbox, openJobs }: Moment, copied: number): boolean {
  return outbox.length === 0 && copied >= balance.seq && openJobs.every(({ ended }) => !ended)
}
