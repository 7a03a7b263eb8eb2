import { jobKeys } from '../jobs/redis-keys.ts'
import type { DeliveryHistory } from '../jobs/delivery-history.ts'
import { isInfrastructure } from '../lib/errors.ts'
import { createTenants } from '../money/tenants.ts'
import type { Archive, ArchivedJob } from '../records/archive.ts'
import type { Results } from '../records/results.ts'
import { checkEntries, checkResults, checkSlots, countResults } from './audit-jobs.ts'
import { checkAges, checkDeliveries, checkIds, explain } from './audit-history.ts'
import { checkHead, type ExportedHeads } from './audit-heads.ts'
import {
  checkKafka, checkMovements, checkNumbers, type StoredMovements,
} from './audit-journal.ts'
import type { KafkaJournal } from './audit-kafka.ts'
import { checkFold, checkForged, checkWallet } from './audit-money.ts'
import {
  breachUnless, type AuditReport, type Breach, type TenantReport,
} from './audit-report.ts'
import { takeSnapshot, type SnapshotParts } from './audit-snapshot.ts'

export type AuditParts = SnapshotParts & {
  readonly archive: Pick<Archive, 'listWhole' | 'findAll' | 'findAllWhole'>
  readonly results: Pick<Results, 'csvStream'>
  /** Nothing is said of deliveries without it. */
  readonly history?: Pick<DeliveryHistory, 'listAll'>
  /** The journal as Kafka has it; read once, when every tenant was looked at. */
  readonly kafka?: Pick<KafkaJournal, 'texts'>
}

type Found = readonly Omit<Breach, 'tenant'>[]

export const JOBS_A_PAGE = 100
const JOBS_AT_ONCE = 8

/** Later than this the results of a job may be gone, and nothing is said of them. */
export const RESULTS_KEPT_MS = 90 * 86_400_000

export type AuditOptions = {
  /** How long each tenant may take to come to rest; 10 s by default. */
  readonly waitMs?: number
  /** All that there are by default. */
  readonly only?: readonly string[]
  /** What must be in the journals, as it was exported from them. */
  readonly heads?: ExportedHeads
  /** Tells every movement in words as well. */
  readonly explain?: boolean
}

/**
 * Checks what must always hold, of every tenant: Redis, the journal and the results have to tell
 * the same story. It only reads.
 */
export async function audit (
  parts: AuditParts, options: AuditOptions = {}
): Promise<AuditReport> {
  const tenants: TenantReport[] = []
  const breaches: Breach[] = []
  const stored = new Map<string, StoredMovements>()
  for (const tenant of options.only ?? (await createTenants(parts.redis).all()).toSorted()) {
    const { report, found, movements } = await auditTenant(parts, tenant, options)
    tenants.push(report)
    stored.set(tenant, movements)
    breaches.push(...found.map(breach => ({ tenant, ...breach })))
  }
  const named = new Set([...stored.keys(), ...options.heads?.keys() ?? []])
  const kafka = named.size === 0 ? undefined : await parts.kafka?.texts(named)
  for (const [tenant, movements] of stored) {
    const texts = kafka && (kafka.get(tenant) ?? new Map())
    const found = [
      ...checkMovements(movements, texts),
      ...texts === undefined ? [] : checkKafka(movements.copy, texts),
    ]
    breaches.push(...found.map(breach => ({ tenant, ...breach })))
  }
  for (const [tenant, head] of options.heads ?? []) {
    if (options.only?.includes(tenant) === false) continue
    const texts = kafka && (kafka.get(tenant) ?? new Map())
    const journals = { copy: stored.get(tenant)?.copy, kafka: texts }
    breaches.push(...checkHead(head, journals).map(breach => ({ tenant, ...breach })))
  }
  return { ok: breaches.length === 0, tenants, breaches }
}

async function auditTenant (
  parts: AuditParts, tenant: string, { waitMs = 10_000, explain: explains }: AuditOptions
) {
  const snapshot = await takeSnapshot(parts, tenant, waitMs)
  const { balance, copy, outbox, openJobs, slots } = snapshot
  const closedJobs: ArchivedJob['job'][] = []
  const results = { rows: 0, found: [] as Omit<Breach, 'tenant'>[] }
  for await (const page of closedJobsOf(parts, tenant)) {
    closedJobs.push(...page.map(({ job }) => job))
    for (const { rows, found } of await auditPage(parts, tenant, page)) {
      results.rows += rows
      results.found.push(...found)
    }
  }
  const closed = new Set(closedJobs.map(({ id }) => id))
  const jobs = [...closedJobs, ...openJobs.filter(({ id }) => !closed.has(id))]
  const entries = [...new Map([...copy, ...outbox].map(entry => [entry.seq, entry])).values()]
  const movements = { seq: balance.seq, outbox, copy }
  const found = [
    ...checkWallet(balance, openJobs),
    ...checkForged(snapshot.forged),
    ...checkNumbers(movements),
    ...checkFold(copy, outbox, balance),
    ...checkIds(entries),
    ...checkEntries(jobs, entries),
    ...checkAges(openJobs, Date.now()),
    ...checkSlots(openJobs, slots),
    ...results.found,
  ]
  const { seq, ...amounts } = balance
  const counts = { entries: seq, openJobs: openJobs.length, closedJobs: closedJobs.length }
  const report: TenantReport = {
    tenant,
    ...amounts,
    ...counts,
    rows: results.rows,
    breaches: found.length,
    ...explains === true && { explained: explain(entries, jobs) },
  }
  return { report, found, movements }
}

/** Jobs come newest first by id, a page at a time. */
async function * closedJobsOf (
  { archive }: AuditParts, tenant: string
): AsyncIterable<readonly ArchivedJob[]> {
  for (let before: string | undefined = ''; before !== undefined;) {
    const page: readonly ArchivedJob[] =
      await archive.listWhole(tenant, { limit: JOBS_A_PAGE, before })
    if (page.length > 0) yield page
    before = page.at(-1)?.job.id
  }
}

/** One question about the deliveries of all, then the results of some jobs at a time. */
export async function auditPage (parts: AuditParts, tenant: string, page: readonly ArchivedJob[]) {
  const attempts = await parts.history?.listAll([tenant], page.map(({ job }) => job.id)) ?? []
  const byJob = Map.groupBy(attempts, ({ job }) => job)
  const audited: { readonly rows: number, readonly found: Found }[] = []
  for (let at = 0; at < page.length; at += JOBS_AT_ONCE) {
    const some = page.slice(at, at + JOBS_AT_ONCE)
    audited.push(...await Promise.all(some.map(async archived => {
      const { rows, found } = await auditResults(parts, archived)
      const { job } = archived
      const delivered = checkDeliveries(job, byJob.get(job.id) ?? [], Date.now())
      return { rows, found: [...found, ...delivered] }
    })))
  }
  return audited
}

async function auditResults (
  { redis, results }: AuditParts, { job, manifest }: ArchivedJob
): Promise<{ readonly rows: number, readonly found: Found }> {
  // Nobody can read what was erased on demand; its money is looked at all the same.
  if (await redis.exists(jobKeys(job.tenant, job.id).erased) === 1) return { rows: 0, found: [] }
  if (Date.now() - job.endedAtMs > RESULTS_KEPT_MS) return { rows: 0, found: [] }
  try {
    const counts = await countResults(results.csvStream(job.tenant, job, manifest))
    return { rows: counts.rows, found: checkResults(job, counts) }
  } catch (error) {
    if (isInfrastructure(error)) throw error
    const detail = error instanceof Error ? error.message : String(error)
    const found = breachUnless(false, { law: 'results can be read', job: job.id, detail })
    return { rows: 0, found }
  }
}
