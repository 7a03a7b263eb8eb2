import type { Journal } from '../../schemas/types.ts'
import { areEqual, NOTHING, post, type Amounts } from '../money/fold.ts'
import { createWallet } from '../money/wallet.ts'
import { follow, START, type ChainHead } from '../records/journal-chain.ts'
import type { JournalCopy } from '../records/journal-copy.ts'
import { auditPage, JOBS_A_PAGE, type AuditParts } from './audit.ts'
import type { AuditCounts } from './audit-counts.ts'
import { checkAges, checkDeliveries, termsOf } from './audit-history.ts'
import { checkEntries, checkSlots } from './audit-jobs.ts'
import { checkWallet } from './audit-money.ts'
import type { Amount } from './audit-progress.ts'
import type { TenantReport } from './audit-report.ts'
import { takeMoment, type Moment } from './audit-snapshot.ts'

export type ProofParts = AuditParts & {
  readonly journal: AuditParts['journal'] & Pick<JournalCopy, 'pages'>
  readonly counts: Pick<AuditCounts, 'sharedIds' | 'jobsWithoutEnd'>
}

/**
 * Up to where the journal of a tenant was proven, and when; Unix ms. `before` is the head without
 * the last entry, by which that entry is known again.
 */
export type Proven = ChainHead & { readonly at: number, readonly before: ChainHead }

/** Of a tenant of which every invariant holds, as far as Kafka is not asked. */
export type Proof = {
  readonly report: TenantReport
  /** Where the proof begins and ends. */
  readonly from: ChainHead
  readonly head: ChainHead
  readonly before: ChainHead
  /** The time of the first entry beyond `from`, Infinity without one; Unix ms. */
  readonly firstAtMs: number
}

export type ProofOptions = {
  /** The first entry when left out. */
  readonly from?: Proven | undefined
  /** How long the tenant may take to come to rest. */
  readonly waitMs: number
  /** Told of each page. */
  readonly onRead?: (more: Amount) => void
}

const DAY_MS = 86_400_000
/**
 * So much before the position is read again, for what goes on beyond it: a job runs for a day at
 * most, a key is taken for a day, and deliveries end within four.
 */
const CONTEXT_MS = 5 * DAY_MS
/** The end of a job that ended later may not be copied yet. */
const COPIED_WITHIN_MS = 600_000

/**
 * Checks the invariants of a tenant from a position on, in bounded memory: a page of the journal,
 * the jobs that run, and the keys of a day. Returns undefined when any does not hold, or when that
 * can't be said by what lies beyond the position: then the whole of the tenant has to be audited.
 */
export async function prove (
  parts: ProofParts, tenant: string, { from, waitMs, onRead = () => {} }: ProofOptions
): Promise<Proof | undefined> {
  const moment = await takeMoment(parts, tenant, waitMs)
  if (moment === undefined || !isSound(moment)) return undefined
  const { balance, openJobs } = moment
  const run = createRun(from, balance.seq)
  const read = { jobs: 0, rows: 0 }
  const atMs = from === undefined ? Date.now() : from.at - CONTEXT_MS
  for await (const page of parts.journal.pages(tenant, { seq: from?.seq ?? 0, atMs })) {
    if (page.forged.length > 0) return undefined
    const ends = run.add(page.entries)
    const rows = ends && await proveEnds(parts, tenant, ends)
    if (rows === undefined) return undefined
    read.jobs += ends?.beyond.length ?? 0
    read.rows += rows
    onRead({ entries: page.entries.length, rows })
  }
  const { head, before, reserves, firstAtMs, laterSeq } = run.state()
  const { seq, ...amounts } = balance
  if (head.seq !== seq || !areEqual(run.state().amounts, amounts)) return undefined
  if (checkEntries(openJobs, reserves).length > 0) return undefined
  if (laterSeq > (await createWallet(parts.redis).balance(tenant)).seq) return undefined
  if (await parts.counts.sharedIds(tenant) > 0) return undefined
  if (await parts.counts.jobsWithoutEnd(tenant, Date.now() - COPIED_WITHIN_MS) > 0) return undefined
  const counts = { openJobs: openJobs.length, closedJobs: read.jobs, rows: read.rows, breaches: 0 }
  const report = { tenant, ...amounts, entries: seq, ...counts }
  return { report, from: from ?? START, head, before, firstAtMs }
}

function isSound ({ balance, openJobs, slots }: Moment): boolean {
  const found = [
    ...checkWallet(balance, openJobs),
    ...checkAges(openJobs, Date.now()),
    ...checkSlots(openJobs, slots),
  ]
  return found.length === 0
}

/** The entries of jobs that have ended: those beyond the position in pairs with their reserves. */
type Ends = { readonly before: readonly Journal[], readonly beyond: readonly Journal[][] }

/**
 * Follows the entries of a tenant, which come by number. Entries up to the position tell what goes
 * on beyond it; those beyond the last movement of the moment are for the next audit.
 */
function createRun (from: Omit<Proven, 'at'> = { ...START, before: START }, lastSeq: number) {
  let head: ChainHead = from
  let { before } = from
  let amounts: Amounts | undefined = from.seq === 0 ? NOTHING : undefined
  let [firstAtMs, laterSeq] = [Infinity, 0]
  const reserves = new Map<string, Journal>()
  const keys = createKeys()
  /** False for an entry that does not lead on. */
  const goOn = (entry: Journal): boolean => {
    if (entry.seq <= from.seq) {
      if (entry.seq < from.seq) return true
      const isNext = amounts === undefined && entry.seq === before.seq + 1
      if (!isNext || follow(before, entry).hash !== from.hash) return false
      amounts = entry
      return true
    }
    amounts = amounts && post(amounts, entry)
    if (entry.seq !== head.seq + 1 || amounts === undefined) return false
    before = head
    head = follow(head, entry)
    firstAtMs = Math.min(firstAtMs, entry.at)
    return areEqual(amounts, entry)
  }
  /** The ends among some entries; undefined when an entry breaks an invariant. */
  const add = (entries: readonly Journal[]): Ends | undefined => {
    const ends: { before: Journal[], beyond: Journal[][] } = { before: [], beyond: [] }
    for (const entry of entries) {
      if (entry.seq > lastSeq) {
        laterSeq = Math.max(laterSeq, entry.seq)
        continue
      }
      if (!goOn(entry) || !keys.take(entry)) return undefined
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
  const state = () =>
    ({
      head,
      before,
      amounts: amounts ?? NOTHING,
      reserves: [...reserves.values()],
      firstAtMs,
      laterSeq,
    })
  return { add, state }
}

/** The Idempotency-Keys of the last day. */
function createKeys () {
  const takenAtMs = new Map<string, number>()
  /** False for an entry whose key has made another job less than a day before. */
  const take = (entry: Journal): boolean => {
    const { idempotencyKey = '', claimedAt } = termsOf(entry) ?? {}
    if (idempotencyKey === '') return true
    const atMs = Number(claimedAt)
    const before = takenAtMs.get(idempotencyKey)
    // Behind all others, so that the oldest are the first.
    takenAtMs.delete(idempotencyKey)
    takenAtMs.set(idempotencyKey, atMs)
    for (const [key, takenMs] of takenAtMs) {
      if (takenMs > atMs - 2 * DAY_MS) break
      takenAtMs.delete(key)
    }
    return before === undefined || atMs - before >= DAY_MS
  }
  return { take }
}

/**
 * The rows of the results of jobs that ended beyond the position, once these, their entries and
 * their deliveries hold, and the deliveries of those before; undefined when anything does not.
 */
async function proveEnds (
  parts: ProofParts, tenant: string, { before, beyond }: Ends
): Promise<number | undefined> {
  for (let at = 0; at < before.length; at += JOBS_A_PAGE) {
    const ids = before.slice(at, at + JOBS_A_PAGE).map(({ job }) => job)
    if (!await areDelivered(parts, tenant, ids)) return undefined
  }
  let rows = 0
  for (let at = 0; at < beyond.length; at += JOBS_A_PAGE) {
    const entries = beyond.slice(at, at + JOBS_A_PAGE).flat()
    const ids = [...new Set(entries.map(({ job }) => job))]
    const archived = await parts.archive.findAllWhole(tenant, ids)
    if (checkEntries(archived.map(({ job }) => job), entries).length > 0) return undefined
    const audited = await auditPage(parts, tenant, archived)
    if (audited.some(({ found }) => found.length > 0)) return undefined
    rows += audited.reduce((sum, one) => sum + one.rows, 0)
  }
  return rows
}

async function areDelivered (
  { archive, history }: ProofParts, tenant: string, ids: readonly string[]
): Promise<boolean> {
  if (history === undefined) return true
  const jobs = await archive.findAll([tenant], ids)
  const attempts = Map.groupBy(await history.listAll([tenant], ids), ({ job }) => job)
  return [...jobs.values()].every(job =>
    checkDeliveries(job, attempts.get(job.id) ?? [], Date.now()).length === 0)
}
