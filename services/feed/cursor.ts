import type { Refusal } from '../jobs/job.ts'
import type { SubmittedFeed } from '../jobs/send.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import { backoffMs, sleep, type Sleep } from '../runtime/platform/retry.ts'
import type { Contact, Terms } from './contact.ts'

/** Contacts for one job, which accepts them only if the stored cursor is at `from`. */
export type FeedJobRequest = {
  readonly cursor: string
  readonly terms: Terms
  readonly from: number
  readonly to: number
  readonly inputs: readonly string[]
  readonly references: readonly string[]
} & Pick<SubmittedFeed, 'offsets'>

/** A refusal that ends once the partner has balance or a free slot. */
export type Backpressure = Extract<Refusal, {
  readonly code: 'insufficient_balance' | 'concurrent_jobs_limit'
}>

/**
 * The outcome of a request. `taken`: a job has the contacts. `moved`: the stored cursor is at
 * another offset. `short`: no balance or slot. `late`: the pipeline did not answer in time.
 * `failed`: the pipeline could not decide. `lost`: the outcome is unknown.
 */
export type JobOutcome =
  | { readonly kind: 'taken', readonly job?: string }
  | { readonly kind: 'moved' | 'late' | 'failed' | 'lost' }
  | { readonly kind: 'short', readonly refusal: Backpressure }

export type BatchLimits = {
  /** A batch closes when it has this many contacts. */
  readonly contacts: number
  /** A batch closes this long after its first contact arrived. */
  readonly ageMs: number
}

/** A job has the contacts, whose id may be unknown after a crash, or they were answered. */
export type PassedBy = { readonly job?: string | undefined } | { readonly answer: string }

export type CursorDeps = {
  readonly cursor: string
  readonly terms: Terms
  readonly batchLimits: BatchLimits
  /** The offset of the stored cursor. */
  readonly position: number
  readonly submit: (request: FeedJobRequest) => Promise<JobOutcome>
  /** Reads the offset of the stored cursor again. */
  readonly reread: () => Promise<number>
  /** Called with contacts that are finished. */
  readonly passed: (contacts: readonly Contact[], by: PassedBy) => void
  /** Answers a contact for which no job can be created. */
  readonly failContact: (contact: Contact, terms: Terms) => Promise<void>
  /** Resolves when a retry may succeed. */
  readonly pause: (refusal: Backpressure) => Promise<void>
  /** Called with an error that retries cannot fix. */
  readonly fail: (error: unknown) => void
  readonly signal: AbortSignal
  readonly now: () => number
  readonly sleep?: Sleep
}

export type Cursor = {
  /** False for a contact that the cursor has passed: a job has it already. */
  readonly add: (contact: Contact) => boolean
  /** Submits the contacts now, without waiting for more. */
  readonly close: () => void
  readonly size: () => number
}

/** The minimum number of contacts in a batch that is reduced because the pipeline is slow. */
const MIN_LATE_BATCH = 1_000
const MAX_SINGLE_TRIES = 8
const NO_FAILURES = { late: 0, failed: 0, lost: 0, single: 0 }
const BACKOFF = { firstMs: 200, maxMs: 30_000 }

/**
 * Submits the contacts of one cursor as jobs, one preflight at a time. Only the script `accept`
 * moves the stored cursor, together with the creation of the job. Therefore a job takes each
 * contact once, even if this process or an earlier one requests a job twice.
 */
export function createCursor (deps: CursorDeps): Cursor {
  const { signal, batchLimits, now } = deps
  const batch = createBatch(batchLimits)
  const state: State = { ...deps, batch, position: deps.position, ...NO_FAILURES }
  let wake = () => {}
  let running = false
  const untilDue = async () => {
    for (;;) {
      const dueInMs = batch.dueInMs(now())
      if (dueInMs === 0 || signal.aborted) return
      const woken = new Promise<void>(resolve => { wake = resolve })
      await Promise.race([woken, (deps.sleep ?? sleep)(dueInMs, signal).catch(() => {})])
    }
  }
  // An error after the partition was lost is no failure.
  const fail = (error: unknown) => { if (!signal.aborted) deps.fail(error) }
  const run = async () => {
    running = true
    while (batch.size() > 0 && !signal.aborted) {
      await untilDue()
      if (!signal.aborted) await submitBatch(state)
    }
    // Synchronous with the last check of the size, so that the next contact starts a new run.
    running = false
  }
  return {
    add: contact => {
      if (contact.offset <= state.position) return false
      batch.add(contact, now())
      if (batch.size() >= batchLimits.contacts) wake()
      if (!running) run().catch(fail)
      return true
    },
    close: () => {
      batch.close()
      wake()
    },
    size: batch.size,
  }
}

type State = CursorDeps & {
  readonly batch: ContactBatch
  position: number
  /** Number of consecutive outcomes `late`. */
  late: number
  /** Number of consecutive outcomes `failed`. */
  failed: number
  /** Number of consecutive outcomes `lost`; they only make the pauses longer. */
  lost: number
  /** Number of outcomes `failed` for the first contact alone. */
  single: number
}

/** Requests one job and applies its outcome. */
async function submitBatch (state: State): Promise<void> {
  const contacts = state.batch.first(batchSize(state))
  const to = contacts.at(-1)?.offset
  if (to === undefined) return
  failpoint('feed.asking')
  const outcome = await state.submit(requestOf(state, contacts, to))
  if (state.signal.aborted) return
  if (outcome.kind === 'taken') {
    failpoint('feed.taken')
    Object.assign(state, NO_FAILURES)
    return moveTo(state, to, { job: outcome.job })
  }
  if (outcome.kind === 'short') return await unlessAborted(state.pause(outcome.refusal))
  if (outcome.kind === 'late') state.late++
  if (outcome.kind === 'failed') state.failed++
  if (outcome.kind === 'lost') state.lost++
  moveTo(state, await state.reread())
  if (outcome.kind === 'failed' && contacts.length === 1) await countSingleFailure(state, contacts)
  if (outcome.kind === 'moved' || state.signal.aborted) return
  const tries = Math.max(1, state.late, state.failed, state.lost)
  await unlessAborted((state.sleep ?? sleep)(backoffMs(tries, BACKOFF), state.signal))
}

/**
 * The size of the next batch: half as much after each outcome `late` or `failed`. After enough
 * failures a contact that no job can be created for is alone, and does not block the others.
 */
function batchSize ({ batchLimits: { contacts: max }, late, failed }: State): number {
  const inTime = Math.max(MIN_LATE_BATCH, Math.ceil(max / 2 ** late))
  const decidable = Math.max(1, Math.ceil(max / 2 ** failed))
  return Math.min(max, inTime, decidable)
}

async function countSingleFailure (state: State, contacts: readonly Contact[]): Promise<void> {
  const [contact] = contacts
  state.single++
  if (contact === undefined || state.single < MAX_SINGLE_TRIES) return
  await state.failContact(contact, state.terms)
  state.single = 0
  state.passed(state.batch.passTo(contact.offset), { answer: 'internal' })
}

function moveTo (state: State, position: number, by: PassedBy = {}): void {
  state.position = position
  state.passed(state.batch.passTo(position), by)
}

function requestOf (
  { cursor, terms, position }: State, contacts: readonly Contact[], to: number
): FeedJobRequest {
  return {
    cursor,
    terms,
    from: position,
    to,
    inputs: contacts.map(({ input }) => input),
    offsets: contacts.map(({ offset, answers }) => answers ?? offset),
    references: contacts.map(({ reference }) => reference),
  }
}

/** A wait that ends early because the partition is lost is no failure. */
async function unlessAborted (wait: Promise<void>): Promise<void> {
  await wait.catch(() => {})
}

/** Contacts of one cursor that no job has yet, in the order of their offsets. */
export type ContactBatch = {
  readonly add: (contact: Contact, nowMs: number) => void
  /** Closes the batch with the contacts that it has. */
  readonly close: () => void
  /** Milliseconds until the batch closes; 0 once it is closed, Infinity while it is empty. */
  readonly dueInMs: (nowMs: number) => number
  readonly first: (count: number) => readonly Contact[]
  /** Removes every contact up to this offset and returns them. */
  readonly passTo: (offset: number) => readonly Contact[]
  readonly size: () => number
}

/** Collects contacts until the batch has its maximum number or age. */
export function createBatch ({ contacts: max, ageMs }: BatchLimits): ContactBatch {
  let contacts: Contact[] = []
  let arrivals: { readonly upTo: number, readonly atMs: number }[] = []
  let closedUpTo = -1
  return {
    add: (contact, nowMs) => {
      contacts.push(contact)
      // Many contacts arrive within a millisecond; they share one entry.
      if (arrivals.at(-1)?.atMs === nowMs) arrivals.pop()
      arrivals.push({ upTo: contact.offset, atMs: nowMs })
    },
    close: () => { closedUpTo = contacts.at(-1)?.offset ?? closedUpTo },
    dueInMs: nowMs => {
      const [first] = contacts
      if (first === undefined) return Infinity
      if (contacts.length >= max || first.offset <= closedUpTo) return 0
      return Math.max(0, (arrivals[0]?.atMs ?? 0) + ageMs - nowMs)
    },
    first: count => contacts.slice(0, count),
    passTo: offset => {
      const at = contacts.findIndex(contact => contact.offset > offset)
      const passed = at < 0 ? contacts : contacts.slice(0, at)
      contacts = at < 0 ? [] : contacts.slice(at)
      arrivals = arrivals.filter(({ upTo }) => upTo > offset)
      return passed
    },
    size: () => contacts.length,
  }
}
