import { batchesOf } from '../../runtime/platform/batch-writes.ts'
import type { Journal } from '../../../schemas/types.ts'
import { type Amounts, areEqual, post, ZERO_AMOUNTS } from '../../money/prices.ts'
import { createWallet } from '../../money/wallet.ts'
import {
  CHAIN_START, type ChainHead, extendChain, type JournalCopy,
} from '../../money/journal.ts'
import {
  type AuditDeps, auditPage, JOBS_PER_PAGE, readSettledState, type TenantState,
} from './audit.ts'
import {
  checkAges, checkDeliveries, checkEntries, checkSlots, checkWallet, parseTerms,
} from './checks.ts'
import type { TenantReport } from './report.ts'

/** Journal entries and result rows: what there is to read, or what was read. */
export type Amount = { readonly entries: number, readonly rows: number }

export type ProofDeps = AuditDeps & {
  readonly journal: AuditDeps['journal'] & Pick<JournalCopy, 'pages'>
  readonly counts: {
    /** Ids that several entries of a tenant share. */
    readonly sharedIds: (tenant: string) => Promise<number>
    /** Jobs that ended before a time in Unix ms without a settle or void entry. */
    readonly jobsWithoutEnd: (tenant: string, endedBeforeMs: number) => Promise<number>
  }
}

/**
 * The position up to which a tenant's journal was proven, and when, in Unix ms. `before` is the
 * head without the last entry; it identifies that entry.
 */
export type ProvenHead = ChainHead & { readonly at: number, readonly before: ChainHead }

/** Exists when every invariant of a tenant holds that does not need Kafka. */
export type Proof = {
  readonly report: TenantReport
  /** The first and the last position of the proof. */
  readonly from: ChainHead
  readonly head: ChainHead
  readonly before: ChainHead
  /** The time of the first entry after `from` in Unix ms; Infinity without one. */
  readonly firstAtMs: number
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
export async function prove (
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
  let [firstAtMs, laterSeq] = [Infinity, 0]
  const reserves = new Map<string, Journal>()
  const keys = createIdempotencyKeys()
  /** False when the entry does not continue the chain or does not add up. */
  const advance = (entry: Journal): boolean => {
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
    const { idempotencyKey = '', claimedAt } = parseTerms(entry) ?? {}
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
  for (const page of batchesOf(before, JOBS_PER_PAGE)) {
    const ids = page.map(({ job }) => job)
    if (!await areDelivered(deps, tenant, ids)) return undefined
  }
  let rows = 0
  for (const page of batchesOf(beyond, JOBS_PER_PAGE)) {
    const entries = page.flat()
    const ids = [...new Set(entries.map(({ job }) => job))]
    const archived = await deps.archive.findAllWithManifest(tenant, ids)
    const breaches = checkEntries(archived.map(({ job }) => job), entries, deps.recordsSinceMs)
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
