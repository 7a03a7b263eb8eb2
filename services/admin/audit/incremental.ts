import type { Redis } from 'ioredis'
import type { Journal } from '../../../schemas/types.ts'
import {
  audit, type AuditDeps, type AuditOptions, auditPage, JOBS_PER_PAGE, listTenants, readSettledState,
  RESULTS_KEPT_MS, type TenantState,
} from './audit.ts'
import {
  checkAges, checkDeliveries, checkEntries, checkSlots, checkWallet,
} from './checks.ts'
import type { KafkaJournal } from './journals.ts'
import type { AuditReport, TenantReport } from './report.ts'
import type { Stores } from '../deps.ts'
import type { JobKeys } from '../../jobs/job-keys.ts'
import { createArchive } from '../../jobs/results/archive.ts'
import { createSharedBlockReads } from '../../jobs/results/result-blocks.ts'
import { createResults } from '../../jobs/results/results.ts'
import {
  CHAIN_START, type ChainHead, createHeadsCodec, createJournalCopy, extendChain, type JournalCopy,
} from '../../money/journal.ts'
import { readReserveTerms } from '../../money/entry-reason.ts'
import { type Amounts, areEqual, post, ZERO_AMOUNTS } from '../../money/prices.ts'
import { createWallet } from '../../money/wallet.ts'
import type { MessageKeySettings } from '../../runtime/crypto/mac.ts'
import { splitBatches } from '../../runtime/platform/batch-writes.ts'
import type { Clickhouse } from '../../runtime/platform/clickhouse.ts'
import { createDeliveryHistory } from '../../webhooks/deliveries.ts'

type ProofDeps = AuditDeps & {
  readonly journal: AuditDeps['journal'] & Pick<JournalCopy, 'pages'>
  readonly counts: AuditCounts
}

type IncrementalAuditDeps = ProofDeps & { readonly kafka: KafkaJournal }

type IncrementalOptions = Pick<AuditOptions, 'only' | 'waitMs'> & {
  /** The start position of each tenant. Others start at their first entry. */
  readonly from: ReadonlyMap<string, ProvenHead>
  /** Receives progress messages, one line each. */
  readonly onProgress: (line: string) => void
}

/**
 * The position up to which a tenant's journal was proven, and when, in Unix ms. `before` is the
 * head without the last entry; it identifies that entry.
 */
type ProvenHead = ChainHead & { readonly at: number, readonly before: ChainHead }

/** Exists when every invariant of a tenant holds that does not need Kafka. */
type Proof = {
  readonly report: TenantReport
  /** The first and the last position of the proof. */
  readonly from: ChainHead
  readonly head: ChainHead
  readonly before: ChainHead
  /** The time of the first entry after `from` in Unix ms; Infinity without one. */
  readonly firstAtMs: number
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
  const tenants = only ?? await listTenants(deps)
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

type ProofOptions = {
  /** The first entry by default. */
  readonly from?: ProvenHead
  /** How long to wait for the copy of all movements up to the state that is read. */
  readonly waitMs: number
  /** Receives the amount of each page. */
  readonly onRead?: (more: Amount) => void
}

const DAY_MS = 86_400_000
/**
 * How much of the journal before the position is read again. It contains what is still in progress
 * at the position: a job runs for at most three days, an Idempotency-Key is claimed for a day, and
 * deliveries end within four days.
 */
const CONTEXT_MS = 5 * DAY_MS
/** A job that ended later may not have its settle or void entry in ClickHouse yet. */
const MAX_COPY_MS = 600_000

/**
 * Checks the invariants of a tenant from a position on, in bounded memory: one page of the journal,
 * the running jobs, and the Idempotency-Keys of two days. Returns undefined when one does not hold,
 * or when entries after the position do not suffice to decide: then audit the tenant completely.
 */
async function prove (
  deps: ProofDeps, tenant: string, { from, waitMs, onRead = () => {} }: ProofOptions
): Promise<Proof | undefined> {
  const { state, isSettled } = await readSettledState(deps, tenant, waitMs)
  if (!isSettled || !isSound(state)) return undefined
  const { balance, openJobs } = state
  const walk = createJournalWalk(from, balance.seq)
  const read = { jobs: 0, rows: 0 }
  const atMs = from === undefined ? Date.now() : from.at - CONTEXT_MS
  for await (const page of deps.journal.pages(tenant, { seq: from?.seq ?? 0, atMs })) {
    if (page.forged.length > 0) return undefined
    const ends = walk.add(page.entries)
    const rows = ends && await proveEnds(deps, tenant, ends)
    if (rows === undefined) return undefined
    read.jobs += ends?.beyond.length ?? 0
    read.rows += rows
    onRead({ entries: page.entries.length, rows })
  }
  const { head, before, amounts: proven, reserves, firstAtMs, laterSeq } = walk.state()
  const { seq, ...amounts } = balance
  if (head.seq !== seq || !areEqual(proven, amounts)) return undefined
  const running = openJobs.filter(({ ended }) => !ended)
  if (checkEntries(running, reserves).length > 0) return undefined
  if (laterSeq > (await createWallet(deps.redis).balance(tenant)).seq) return undefined
  if (await deps.counts.sharedIds(tenant) > 0) return undefined
  if (await deps.counts.jobsWithoutEnd(tenant, Date.now() - MAX_COPY_MS) > 0) return undefined
  const counts = { openJobs: running.length, closedJobs: read.jobs, rows: read.rows, breaches: 0 }
  const report = { tenant, ...amounts, entries: seq, ...counts }
  return { report, from: from ?? CHAIN_START, head, before, firstAtMs }
}

function isSound ({ balance, openJobs, slots }: TenantState): boolean {
  const breaches = [
    ...checkWallet(balance, openJobs),
    ...checkAges(openJobs, Date.now()),
    ...checkSlots(openJobs, slots),
  ]
  return breaches.length === 0
}

/**
 * Settle and void entries. `beyond` has those after the position, each after its reserve entry;
 * `before` has those up to the position.
 */
type Ends = { readonly before: readonly Journal[], readonly beyond: readonly Journal[][] }

/**
 * Follows the entries of a tenant in their order. Entries up to the position only show what was in
 * progress there. Entries after `lastSeq` are left to the next audit.
 */
function createJournalWalk (
  from: Omit<ProvenHead, 'at'> = { ...CHAIN_START, before: CHAIN_START }, lastSeq: number
) {
  let head: ChainHead = from
  let { before } = from
  let amounts: Amounts | undefined = from.seq === 0 ? ZERO_AMOUNTS : undefined
  let [firstAtMs, laterSeq, earlierSeq] = [Infinity, 0, 0]
  const reserves = new Map<string, Journal>()
  const keys = createIdempotencyKeys()
  /** False when the entry has a number twice, does not continue the chain or does not add up. */
  const advance = (entry: Journal): boolean => {
    if (entry.seq === earlierSeq) return false
    earlierSeq = entry.seq
    if (entry.seq <= from.seq) {
      if (entry.seq < from.seq) return true
      const isNext = amounts === undefined && entry.seq === before.seq + 1
      if (!isNext || extendChain(before, entry).hash !== from.hash) return false
      amounts = entry
      return true
    }
    amounts = amounts && post(amounts, entry)
    if (entry.seq !== head.seq + 1 || amounts === undefined) return false
    before = head
    head = extendChain(head, entry)
    firstAtMs = Math.min(firstAtMs, entry.at)
    return areEqual(amounts, entry)
  }
  /** The settle and void entries of a page; undefined when an entry breaks an invariant. */
  const add = (entries: readonly Journal[]): Ends | undefined => {
    const ends: { before: Journal[], beyond: Journal[][] } = { before: [], beyond: [] }
    for (const entry of entries) {
      if (entry.seq > lastSeq) {
        laterSeq = Math.max(laterSeq, entry.seq)
        continue
      }
      if (!advance(entry) || !keys.claim(entry)) return undefined
      const reserve = reserves.get(entry.job)
      if (entry.type === 'reserve') {
        if (reserve !== undefined) return undefined
        reserves.set(entry.job, entry)
      } else if (entry.job !== '') {
        reserves.delete(entry.job)
        if (entry.seq <= from.seq) ends.before.push(entry)
        else ends.beyond.push([...reserve === undefined ? [] : [reserve], entry])
      }
    }
    return ends
  }
  const state = () => ({
    head,
    before,
    amounts: amounts ?? ZERO_AMOUNTS,
    reserves: [...reserves.values()],
    firstAtMs,
    laterSeq,
  })
  return { add, state }
}

/** The Idempotency-Keys of the last two days. */
function createIdempotencyKeys () {
  const claimedAtMs = new Map<string, number>()
  /** False for a reserve entry whose key created another job less than a day earlier. */
  const claim = (entry: Journal): boolean => {
    const { idempotencyKey = '', claimedAt } = readReserveTerms(entry) ?? {}
    if (idempotencyKey === '') return true
    const atMs = Number(claimedAt)
    const earlierMs = claimedAtMs.get(idempotencyKey)
    // Moves the key to the end, so that the map starts with the oldest claims.
    claimedAtMs.delete(idempotencyKey)
    claimedAtMs.set(idempotencyKey, atMs)
    for (const [key, oldMs] of claimedAtMs) {
      if (oldMs > atMs - 2 * DAY_MS) break
      claimedAtMs.delete(key)
    }
    return earlierMs === undefined || atMs - earlierMs >= DAY_MS
  }
  return { claim }
}

/**
 * Checks the deliveries of jobs that ended before the position, and entries, results and deliveries
 * of jobs that ended after it. Returns the number of result rows, or undefined for any breach.
 */
async function proveEnds (
  deps: ProofDeps, tenant: string, { before, beyond }: Ends
): Promise<number | undefined> {
  for (const page of splitBatches(before, JOBS_PER_PAGE)) {
    const ids = page.map(({ job }) => job)
    if (!await areDelivered(deps, tenant, ids)) return undefined
  }
  let rows = 0
  for (const page of splitBatches(beyond, JOBS_PER_PAGE)) {
    const entries = page.flat()
    const ids = [...new Set(entries.map(({ job }) => job))]
    const archived = await deps.archive.findAllWithManifest(tenant, ids)
    const jobs = archived.map(({ job }) => job)
    const breaches = checkEntries(jobs, entries, { recordsSinceMs: deps.recordsSinceMs })
    if (breaches.length > 0) return undefined
    const audited = await auditPage(deps, tenant, archived)
    if (audited.some(({ breaches }) => breaches.length > 0)) return undefined
    rows += audited.reduce((sum, job) => sum + job.rows, 0)
  }
  return rows
}

async function areDelivered (
  { archive, history }: ProofDeps, tenant: string, ids: readonly string[]
): Promise<boolean> {
  if (history === undefined) return true
  const jobs = await archive.findAll([tenant], ids)
  const attempts = Map.groupBy(await history.listAll([tenant], ids), ({ job }) => job)
  return [...jobs.values()].every(job =>
    checkDeliveries(job, attempts.get(job.id) ?? [], Date.now()).length === 0)
}

/** Journal entries and result rows: what there is to read, or what was read. */
type Amount = { readonly entries: number, readonly rows: number }

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
type AuditCounts = {
  /** Ids that several entries of a tenant share. */
  readonly sharedIds: (tenant: string) => Promise<number>
  /** Jobs that ended before a time in Unix ms without a settle or void entry. */
  readonly jobsWithoutEnd: (tenant: string, endedBeforeMs: number) => Promise<number>
  /** Result rows of all tenants' jobs that ended since a time in Unix ms. */
  readonly rowsSince: (endedMs: number) => Promise<number>
}

/** Runs the counts as queries; they reject with the error of the ClickHouse client. */
function createAuditCounts (clickhouse: Clickhouse): AuditCounts {
  const count = async (query: string, parameters: Record<string, unknown>) => {
    const [row] = await clickhouse.rows<{ readonly total: string }>(query, parameters)
    return Number(row?.total ?? 0)
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
// GLOBAL, as several shards refuse a subquery over all of them.
const JOBS_WITHOUT_END = `
  SELECT toString(uniqExact(job)) AS total FROM jobs
  WHERE tenant = {tenant:String} AND ended < fromUnixTimestamp64Milli({endedBeforeMs:Int64})
    AND job GLOBAL NOT IN (
      SELECT job FROM journal WHERE tenant = {tenant:String} AND type IN ('settle', 'void')
    )`
const ROWS_SINCE = `
  SELECT toString(sum(total_rows)) AS total FROM jobs
  WHERE ended >= fromUnixTimestamp64Milli({endedMs:Int64})`

type Connections = Pick<Stores, 'redis' | 'clickhouse' | 'recordMac' | 'codec'> & {
  readonly keys: JobKeys
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
  } satisfies ProofDeps
}
