import { setTimeout as pause } from 'node:timers/promises'
import type { Journal } from '../../../schemas/types.ts'
import { isMarkedErased } from '../../accounts/organization-keys.ts'
import { parseTenant } from '../../accounts/tenant.ts'
import {
  checkAges, checkBalances, checkBehind, checkDeliveries, checkEntries, checkForged, checkIds,
  checkKafka, checkMovements, checkNumbers, checkResults, checkSlots, checkWallet, countResults,
  explain, type StoredMovements,
} from './checks.ts'
import { checkExportedHead, type ExportedHeads, type KafkaJournal } from './journals.ts'
import {
  type AuditReport, type FoundBreach, joinMissingKeys, type TenantBreaches, type TenantReport,
} from './report.ts'
import type { Job } from '../../jobs/job.ts'
import { jobRedisKeys } from '../../jobs/job-record.ts'
import type { Archive, ArchivedJob } from '../../jobs/results/archive.ts'
import type { Results } from '../../jobs/results/results.ts'
import { createJobStore } from '../../jobs/store.ts'
import {
  canonicalText, type JournalCopy, Movements, type Resolution, trackContradictions,
} from '../../money/journal.ts'
import { moneyKeys } from '../../money/redis-keys.ts'
import { type Balance, createOutbox, createTenants, createWallet } from '../../money/wallet.ts'
import { MissingKeyError } from '../../runtime/crypto/key-ring.ts'
import { isInfrastructure } from '../../runtime/platform/errors.ts'
import { FairSlots } from '../../runtime/platform/limits.ts'
import type { RedisClient } from '../../runtime/platform/redis.ts'
import type { DeliveryHistory } from '../../webhooks/deliveries.ts'

export type AuditDeps = AuditSnapshotDeps & {
  readonly journal: Pick<JournalCopy, 'lengths'>
  readonly archive: Pick<Archive, 'listWithManifest' | 'findAll' | 'findAllWithManifest'>
  readonly results: Pick<Results, 'csvStream'>
  /** Deliveries are not checked without it. */
  readonly history?: Pick<DeliveryHistory, 'listAll'>
  /** The journal in Kafka, read once after all tenants. Kafka is not checked without it. */
  readonly kafka?: KafkaJournal
  /** Records of jobs that were reserved earlier may have expired; all are kept without it. */
  readonly recordsSinceMs?: number
}

export const JOBS_PER_PAGE = 100
/** Of the jobs that are read at once: eight of the largest, or all small ones of a page. */
const MAX_CHUNKS = 400

const DAY_MS = 86_400_000
/** The results of older jobs may be deleted, so they are not checked. */
export const RESULTS_KEPT_MS = 90 * DAY_MS

export type AuditOptions = {
  /** How long to wait for a consistent snapshot of each tenant; 10 s by default. */
  readonly waitMs?: number
  /** The tenants to audit; all by default. */
  readonly only?: readonly string[]
  /** Exported heads that the journals must contain. */
  readonly heads?: ExportedHeads
  /** Reports every movement of money in words. */
  readonly explain?: boolean
}

/**
 * Checks the invariants of all tenants on complete data: Redis, journal and results must agree. It
 * only reads, and rejects when a store is not reachable.
 */
export async function audit (deps: AuditDeps, options: AuditOptions): Promise<AuditReport> {
  const tenants: TenantReport[] = []
  const breaches: FoundBreach[] = []
  const stored = new Map<string, StoredMovements>()
  for (const tenant of options.only ?? await listTenants(deps)) {
    const { report, breaches: tenantBreaches, movements } = await auditTenant(deps, tenant, options)
    tenants.push(report)
    stored.set(tenant, movements)
    breaches.push(...tenantBreaches.map(breach => ({ tenant, ...breach })))
  }
  const named = new Set([...stored.keys(), ...options.heads?.keys() ?? []])
  const kafka = named.size === 0 ? undefined : await deps.kafka?.texts(named)
  for (const [tenant, movements] of stored) {
    const texts = kafka && (kafka.get(tenant) ?? new Map())
    const journalBreaches = [...checkMovements(movements, texts)]
    if (texts !== undefined) {
      const { seq } = await createWallet(deps.redis).balance(tenant)
      journalBreaches.push(...checkKafka(movements, texts), ...checkBehind(seq, texts))
    }
    breaches.push(...journalBreaches.map(breach => ({ tenant, ...breach })))
  }
  for (const [tenant, head] of options.heads ?? []) {
    if (options.only?.includes(tenant) === false) continue
    const texts = kafka && (kafka.get(tenant) ?? new Map())
    const journals = { copy: stored.get(tenant)?.copy, kafka: texts }
    breaches.push(...checkExportedHead(head, journals).map(breach => ({ tenant, ...breach })))
  }
  return { ok: breaches.length === 0, tenants, breaches: joinMissingKeys(breaches) }
}

/** The tenants that Redis lists, and those of the copy, as Redis may have lost some. */
export async function listTenants (
  { redis, journal }: Pick<AuditDeps, 'redis' | 'journal'>
): Promise<readonly string[]> {
  const [listed, copied] = [await createTenants(redis).all(), await journal.lengths()]
  return [...new Set([...listed, ...copied.keys()])].toSorted()
}

async function auditTenant (
  deps: AuditDeps, tenant: string, { waitMs = 10_000, explain: isExplained }: AuditOptions
) {
  // Jobs that have ended are closed then, and their results are read.
  await readSettledState(deps, tenant, waitMs)
  const closedJobs: ArchivedJob['job'][] = []
  const results = { rows: 0, breaches: [] as TenantBreaches[number][] }
  for await (const page of readClosedJobs(deps, tenant)) {
    closedJobs.push(...page.map(({ job }) => job))
    for (const { rows, breaches } of await auditPage(deps, tenant, page)) {
      results.rows += rows
      results.breaches.push(...breaches)
    }
  }
  // After the closed jobs, so that the journal has the end of each.
  const snapshot = await takeAuditSnapshot(deps, tenant, waitMs)
  const { balance, copy, outbox, openJobs, slots } = snapshot
  const resolution = resolveContradictions([...copy, ...outbox])
  const { entries, uncounted, upTo: resolvedUpTo, numbers } = resolution
  const seen = new Map([...openJobs, ...closedJobs].map(job => [job.id, job]))
  const jobs = [...seen.values(), ...await closedSince(deps, tenant, { seen, entries })]
  const movements = { seq: balance.seq, outbox, copy, resolvedUpTo }
  const breaches = [
    ...checkWallet(balance, openJobs),
    ...checkForged(snapshot.forged),
    ...checkNumbers(movements),
    ...checkBalances(movements, balance),
    ...checkIds(entries),
    ...checkEntries(jobs, entries, { recordsSinceMs: deps.recordsSinceMs, uncounted }),
    ...checkAges(openJobs, Date.now()),
    ...checkSlots(openJobs, slots),
    ...results.breaches,
  ]
  const { seq, ...amounts } = balance
  const counts = { entries: seq, openJobs: openJobs.length, closedJobs: closedJobs.length }
  const report: TenantReport = {
    tenant,
    ...amounts,
    ...counts,
    rows: results.rows,
    breaches: joinMissingKeys(breaches.map(breach => ({ tenant, ...breach }))).length,
    ...numbers > 0 && { resolvedContradictions: numbers },
    ...isExplained === true && { explained: explain(entries, jobs) },
  }
  return { report, breaches, movements }
}

/** One entry of each number, or where contradictions are resolved, of each movement. */
function resolveContradictions (stored: readonly Journal[]): Resolution & {
  readonly entries: readonly Journal[]
  /** Other entries of the same movements. */
  readonly uncounted: readonly Journal[]
} {
  const all = [...new Map(stored.map(entry => [canonicalText(entry), entry])).values()]
    .toSorted((a, b) => a.seq - b.seq)
  const resolver = trackContradictions()
  for (const entry of all) resolver.add(entry)
  const resolution = resolver.end()
  const later = all.filter(({ seq }) => seq > resolution.upTo)
  const resolved = all.filter(({ seq }) => seq <= resolution.upTo)
  const movements = new Movements()
  for (const entry of resolved) movements.add(entry)
  const counted = new Set(movements.chooseCounted(resolved))
  const entries = [...counted, ...new Map(later.map(entry => [entry.seq, entry])).values()]
  return { ...resolution, entries, uncounted: resolved.filter(entry => !counted.has(entry)) }
}

/**
 * From when on the final records of all jobs are kept: a day later than ClickHouse keeps them, as a
 * job is reserved after its creation. Undefined without a retention.
 */
export function recordsSince (months: number | undefined, now = new Date()): number | undefined {
  if (months === undefined) return undefined
  return new Date(now).setUTCMonth(now.getUTCMonth() - months) + DAY_MS
}

/** Jobs that closed after the closed jobs were read, and before the open ones were. */
async function closedSince (
  { archive, recordsSinceMs = -Infinity }: AuditDeps, tenant: string,
  { seen, entries }: {
    readonly seen: ReadonlyMap<string, unknown>, readonly entries: readonly Journal[],
  }
): Promise<readonly Job[]> {
  const ids = [...new Set(entries.filter(({ job, at }) =>
    job !== '' && !seen.has(job) && at >= recordsSinceMs).map(({ job }) => job))]
  const jobs: Job[] = []
  while (ids.length > 0) {
    jobs.push(...(await archive.findAll([tenant], ids.splice(0, JOBS_PER_PAGE))).values())
  }
  return jobs
}

/** Archived jobs, newest first, one page at a time. */
async function * readClosedJobs (
  { archive }: AuditDeps, tenant: string
): AsyncIterable<readonly ArchivedJob[]> {
  for (let before: string | undefined = ''; before !== undefined;) {
    const page: readonly ArchivedJob[] =
      await archive.listWithManifest(tenant, { limit: JOBS_PER_PAGE, before })
    if (page.length > 0) yield page
    before = page.at(-1)?.job.id
  }
}

/** Checks results and deliveries of archived jobs; one query reads the deliveries of all. */
export async function auditPage (deps: AuditDeps, tenant: string, page: readonly ArchivedJob[]) {
  const attempts = await deps.history?.listAll([tenant], page.map(({ job }) => job.id)) ?? []
  const byJob = Map.groupBy(attempts, ({ job }) => job)
  const slots = new FairSlots({ capacity: MAX_CHUNKS, maxCredit: 0 })
  return await Promise.all(page.map(archived => {
    const { job } = archived
    return slots.run({ name: tenant, cost: job.chunks }, async () => {
      const { rows, breaches } = await auditResults(deps, archived)
      const delivered = checkDeliveries(job, byJob.get(job.id) ?? [], Date.now())
      return { rows, breaches: [...breaches, ...delivered] }
    })
  }))
}

async function auditResults (
  { redis, results }: AuditDeps, { job, manifest }: ArchivedJob
): Promise<{ readonly rows: number, readonly breaches: TenantBreaches }> {
  // Results of an erased job or organization are unreadable; only its money is checked.
  const unchecked = { rows: 0, breaches: [] }
  if (await areErased(redis, job) || Date.now() - job.endedAtMs > RESULTS_KEPT_MS) return unchecked
  try {
    const counts = await countResults(results.csvStream(job, manifest))
    return { rows: counts.rows, breaches: checkResults(job, counts) }
  } catch (error) {
    if (isInfrastructure(error)) throw error
    // They may have been erased meanwhile.
    if (await areErased(redis, job)) return unchecked
    const detail = error instanceof Error ? error.message : String(error)
    const lack = error instanceof MissingKeyError ? { lack: error.lack } : {}
    return { rows: 0, breaches: [{ rule: 'results are readable', job: job.id, detail, ...lack }] }
  }
}

/** Whether the job was erased, or its organization: nothing can read its results. */
async function areErased (redis: RedisClient, { tenant, id }: Job): Promise<boolean> {
  return await redis.exists(jobRedisKeys(tenant, id).erased) === 1 ||
    await isMarkedErased(redis, parseTenant(tenant).orgId)
}

/** The state of a tenant in Redis. */
export type TenantState = {
  readonly balance: Balance
  /** Movements that are not in the journal in Kafka yet. */
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

type AuditSnapshotDeps = {
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
 * by then is a breach, also one that only the outbox has: Redis alone does not keep money.
 */
async function takeAuditSnapshot (
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
    const { job: record } = jobRedisKeys(tenant, id)
    if (!ended && await redis.hexists(record, 'journaledSettleSeq') === 0) return true
    const job = await store.read(tenant, id)
    return job === undefined || job.closed
  }))
  return areOver.every(Boolean)
}

async function readState ({ redis }: AuditSnapshotDeps, tenant: string): Promise<TenantState> {
  const store = createJobStore(redis)
  const balance = await createWallet(redis).balance(tenant)
  const slots = Number(await redis.hget(moneyKeys(tenant).wallet, 'slots'))
  const open = await store.openJobs(tenant)
  const jobs = await Promise.all(open.map(({ job }) => store.read(tenant, job)))
  const openJobs = jobs.filter(job => job !== undefined && !job.closed) as readonly Job[]
  const outbox = await createOutbox(redis).pending(tenant)
  return { balance, slots, openJobs, outbox }
}
