import type { ClickHouseClient } from '@clickhouse/client'
import type { Redis } from 'ioredis'
import { createDeliveryHistory } from '../../webhooks/deliveries.ts'
import type { JobKeys } from '../../jobs/job-keys.ts'
import { createArchive } from '../../jobs/results/archive.ts'
import { createSharedBlockReads } from '../../jobs/results/result-blocks.ts'
import { createResults } from '../../jobs/results/results.ts'
import { createHeadsCodec, createJournalCopy } from '../../money/journal.ts'
import { createTenants, createWallet } from '../../money/wallet.ts'
import type { MessageKeySettings } from '../../runtime/crypto/mac.ts'
import { streamRows } from '../../runtime/platform/clickhouse.ts'
import type { Stores } from '../deps.ts'
import { audit, type AuditOptions, RESULTS_KEPT_MS } from './audit.ts'
import type { KafkaJournal } from './journals.ts'
import { type Amount, type Proof, type ProofDeps, prove, type ProvenHead } from './proof.ts'
import type { AuditReport } from './report.ts'

type IncrementalAuditDeps = ProofDeps & {
  readonly counts: AuditCounts
  readonly kafka: KafkaJournal
}

type IncrementalOptions = Pick<AuditOptions, 'only' | 'waitMs'> & {
  /** The start position of each tenant. Others start at their first entry. */
  readonly from: ReadonlyMap<string, ProvenHead>
  /** Receives progress messages, one line each. */
  readonly onProgress: (line: string) => void
}

/** More than the clocks of brokers and Redis can differ. */
const CLOCK_SKEW_MS = 86_400_000

/**
 * Checks every tenant from its start position on, in bounded memory. A tenant that cannot be proven
 * is audited completely, and the report names its breaches; so a wrong position only costs time.
 * Returns the report and the new positions of the proven tenants.
 */
export async function auditIncrementally (
  deps: IncrementalAuditDeps, { only, waitMs = 10_000, from, onProgress }: IncrementalOptions
): Promise<{ readonly report: AuditReport, readonly proven: ReadonlyMap<string, ProvenHead> }> {
  const startedMs = Date.now()
  const tenants = only ?? (await createTenants(deps.redis).all()).toSorted()
  const onRead = startProgress(await measureAmount(deps, tenants, from), onProgress)
  const proofs = new Map<string, Proof>()
  for (const tenant of tenants) {
    const proof = await prove(deps, tenant, { from: from.get(tenant), waitMs, onRead })
    if (proof !== undefined) proofs.set(tenant, proof)
  }
  const firstAtMs = [...proofs.values()]
    .reduce((first, proof) => Math.min(first, proof.firstAtMs), Infinity)
  const inKafka = await deps.kafka.containing(proofs, firstAtMs - CLOCK_SKEW_MS)
  const unproven = tenants.filter(tenant => !inKafka.has(tenant))
  if (unproven.length > 0) {
    onProgress(`reading all data of ${unproven.length} of ${tenants.length} tenants: a rule does ` +
      'not hold, or jobs keep changing')
  }
  const full = await audit(deps, { only: unproven, waitMs })
  const reports = new Map(full.tenants.map(report => [report.tenant, report]))
  const proven = [...proofs].filter(([tenant, { head }]) => inKafka.has(tenant) && head.seq > 0)
    .map(([tenant, { head, before }]) => [tenant, { ...head, before, at: startedMs }] as const)
  return {
    report: {
      ...full,
      tenants: tenants.flatMap(tenant =>
        reports.get(tenant) ?? proofs.get(tenant)?.report ?? []),
    },
    proven: new Map(proven),
  }
}

async function measureAmount (
  { redis, counts }: IncrementalAuditDeps, tenants: readonly string[],
  from: IncrementalOptions['from']
): Promise<Amount & { readonly tenants: number }> {
  const wallet = createWallet(redis)
  let entries = 0
  for (const tenant of tenants) {
    const { seq } = await wallet.balance(tenant)
    entries += Math.max(seq - (from.get(tenant)?.seq ?? 0), 0)
  }
  const provenAtMs = [...from.values()][0]?.at ?? 0
  const rows = await counts.rowsSince(Math.max(provenAtMs, Date.now() - RESULTS_KEPT_MS))
  return { entries, rows, tenants: tenants.length }
}

/** Measured on two cores that also ran the stack. */
const ENTRIES_PER_SECOND = 50_000
const ROWS_PER_SECOND = 50_000
const REPORT_MS = 5_000
/** The share that has to be read before its duration says how long the rest takes. */
const MIN_SHARE = 0.01

const estimateSeconds = ({ entries, rows }: Amount) =>
  entries / ENTRIES_PER_SECOND + rows / ROWS_PER_SECOND

/**
 * Reports the amount to read and the estimated time at once, then the progress every five seconds.
 * The number of rows is an estimate.
 */
function startProgress (
  all: Amount & { readonly tenants: number }, onProgress: (line: string) => void
): (more: Amount) => void {
  const startedMs = performance.now()
  let reportedMs = startedMs
  let read: Amount = { entries: 0, rows: 0 }
  onProgress(`reading ${all.entries} journal entries and about ${all.rows} result rows of ` +
    `${all.tenants} tenants: ${timeText(estimateSeconds(all))}`)
  return more => {
    read = { entries: read.entries + more.entries, rows: read.rows + more.rows }
    if (performance.now() - reportedMs < REPORT_MS) return
    reportedMs = performance.now()
    const share = Math.min(estimateSeconds(read) / estimateSeconds(all), 1)
    const leftSeconds = (reportedMs - startedMs) / 1_000 * (1 - share) / share
    const left = share < MIN_SHARE ? '' : `, ${timeText(leftSeconds)} left`
    onProgress(`${Math.floor(share * 100)} % read${left}`)
  }
}

function timeText (seconds: number): string {
  if (seconds < 60) return 'less than a minute'
  return seconds < 7_200
    ? `about ${Math.round(seconds / 60)} minutes`
    : `about ${Math.round(seconds / 3_600)} hours`
}

/** String: two signed heads per tenant, before and after the last proven entry. */
const PROVEN_KEY = '{audit}:proven'

/**
 * The start positions of the next incremental audit, in Redis: a restored backup of Redis then has
 * the positions of its own time. Missing or unauthentic positions read as an empty map. They have
 * their own signing purpose: exported heads are signed, but not proven.
 */
export function createPosition (
  redis: Pick<Redis, 'get' | 'set'>, settings: MessageKeySettings
) {
  const codec = createHeadsCodec(settings, 'proven journal head')
  return {
    read: async (): Promise<ReadonlyMap<string, ProvenHead>> => {
      const { at, tenants } = codec.decode(await redis.get(PROVEN_KEY) ?? '') ??
        { at: 0, tenants: [] }
      const byTenant = Map.groupBy(tenants, ({ tenant }) => tenant)
      return new Map([...byTenant].flatMap(([tenant, [before, head]]) =>
        before === undefined || head === undefined ? [] : [[tenant, { ...head, before, at }]]))
    },
    write: async (proven: ReadonlyMap<string, ProvenHead>): Promise<void> => {
      const [{ at } = { at: 0 }] = proven.values()
      const tenants = [...proven].flatMap(([tenant, { before, seq, hash, missing }]) =>
        [{ ...before, tenant }, { seq, hash, missing, tenant }])
      await redis.set(PROVEN_KEY, codec.encode({ at, tenants }))
    },
  }
}

/**
 * Counts that ClickHouse computes over rows whose MAC is not checked: forged rows count as well. A
 * number other than 0 is therefore a reason for a complete audit, not a breach.
 */
type AuditCounts = ProofDeps['counts'] & {
  /** Result rows of all tenants' jobs that ended since a time in Unix ms. */
  readonly rowsSince: (endedMs: number) => Promise<number>
}

/** Runs the counts as queries; they reject with the error of the ClickHouse client. */
function createAuditCounts (clickhouse: Pick<ClickHouseClient, 'query'>): AuditCounts {
  const count = async (query: string, parameters: Record<string, unknown>) => {
    let total = 0
    const rows = streamRows<{ readonly total: string }>(clickhouse, query, parameters)
    for await (const row of rows) total = Number(row.total)
    return total
  }
  return {
    sharedIds: tenant => count(SHARED_IDS, { tenant }),
    jobsWithoutEnd: (tenant, endedBeforeMs) => count(JOBS_WITHOUT_END, { tenant, endedBeforeMs }),
    rowsSince: endedMs => count(ROWS_SINCE, { endedMs }),
  }
}

const SHARED_IDS = `
  SELECT toString(count()) AS total FROM (
    SELECT entry_id FROM journal WHERE tenant = {tenant:String}
    GROUP BY entry_id HAVING uniqExact(seq) > 1
  )`
const JOBS_WITHOUT_END = `
  SELECT toString(uniqExact(job)) AS total FROM jobs
  WHERE tenant = {tenant:String} AND ended < fromUnixTimestamp64Milli({endedBeforeMs:Int64})
    AND job NOT IN (
      SELECT job FROM journal WHERE tenant = {tenant:String} AND type IN ('settle', 'void')
    )`
const ROWS_SINCE = `
  SELECT toString(sum(total_rows)) AS total FROM jobs
  WHERE ended >= fromUnixTimestamp64Milli({endedMs:Int64})`

type Connections = Pick<Stores, 'redis' | 'clickhouse' | 'recordMac' | 'codec'> & {
  readonly keys: Pick<JobKeys, 'get'>
}

/** The dependencies of an audit on open connections, except for Kafka. */
export function createAuditDeps ({ redis, clickhouse, recordMac, codec, keys }: Connections) {
  const blocks = createSharedBlockReads(clickhouse)
  return {
    redis,
    journal: createJournalCopy(clickhouse, recordMac),
    archive: createArchive(clickhouse, recordMac),
    history: createDeliveryHistory(clickhouse, recordMac),
    results: createResults({ blocks, codec, keys }),
    counts: createAuditCounts(clickhouse),
  } satisfies Omit<IncrementalAuditDeps, 'kafka'>
}
