import type { Refusal } from '../jobs/job.ts'
import type { SubmittedFeed } from '../jobs/send.ts'
import { failpoint } from '../lib/failpoint.ts'
import { backoffMs, sleep, type Sleep } from '../lib/retry.ts'
import { createBatch, type BatchRules } from './batch.ts'
import type { Contact, Terms } from './contact.ts'

/** Contacts for one job, which takes them if the cursor stands at `from`. */
export type JobRequest = {
  readonly cursor: string
  readonly terms: Terms
  readonly from: number
  readonly to: number
  readonly inputs: readonly string[]
} & Pick<SubmittedFeed, 'offsets' | 'references'>

/** A refusal that passes once the partner has balance or a slot. */
export type Shortage = Extract<Refusal, {
  readonly code: 'insufficient_balance' | 'concurrent_jobs_limit'
}>

/**
 * What became of a request. `moved`: the cursor stands elsewhere. `short`: no balance or slot.
 * `late`: the pipeline did not answer in time. `failed`: it could not decide. `lost`: nobody knows.
 */
export type JobOutcome =
  | { readonly kind: 'taken' | 'moved' | 'late' | 'failed' | 'lost' }
  | { readonly kind: 'short', readonly shortage: Shortage }

export type CursorParts = {
  readonly cursor: string
  readonly terms: Terms
  readonly rules: BatchRules
  /** Where the cursor stood when it was read last. */
  readonly position: number
  readonly submit: (request: JobRequest) => Promise<JobOutcome>
  /** Where the cursor stands now. */
  readonly reread: () => Promise<number>
  /** These contacts need no more: they are rows of a job, or were answered. */
  readonly passed: (contacts: readonly Contact[]) => void
  /** Answers a contact that no job can be made of. */
  readonly giveUp: (contact: Contact, terms: Terms) => Promise<void>
  /** Resolves when it is worth another try. */
  readonly pause: (shortage: Shortage) => Promise<void>
  /** Told of what can't heal. */
  readonly fail: (error: unknown) => void
  readonly signal: AbortSignal
  readonly now: () => number
  readonly sleep?: Sleep
}

export type Cursor = {
  /** False for a contact that the cursor has passed: a job has it already. */
  readonly add: (contact: Contact) => boolean
  readonly close: () => void
  readonly size: () => number
}

const SMALLEST_LATE_BATCH = 1_000
const ALONE_TRIES = 8
const NO_FAILURES = { late: 0, failed: 0, lost: 0, alone: 0 }
const BACKOFF = { firstMs: 200, maxMs: 30_000 }

/**
 * Brings the contacts of one cursor into jobs, one preflight at a time. Only `accept` moves the
 * cursor, together with what it does for the job; here its position is only remembered, so that
 * whatever is asked for twice, by this process or one before it, is given to a job once.
 */
export function createCursor (parts: CursorParts): Cursor {
  const { signal, rules, now } = parts
  const batch = createBatch(rules)
  const state: State = { ...parts, batch, position: parts.position, ...NO_FAILURES }
  let wake = () => {}
  let running = false
  const untilDue = async () => {
    for (;;) {
      const dueInMs = batch.dueInMs(now())
      if (dueInMs === 0 || signal.aborted) return
      const nudged = new Promise<void>(resolve => { wake = resolve })
      await Promise.race([nudged, (parts.sleep ?? sleep)(dueInMs, signal).catch(() => {})])
    }
  }
  // A wait that ends because the partition is lost is no failure.
  const fail = (error: unknown) => { if (!signal.aborted) parts.fail(error) }
  const run = async () => {
    running = true
    while (batch.size() > 0 && !signal.aborted) {
      await untilDue()
      if (!signal.aborted) await ask(state)
    }
    // In the turn of the last look, so that a contact that comes now starts it anew.
    running = false
  }
  return {
    add: contact => {
      if (contact.offset <= state.position) return false
      batch.add(contact, now())
      if (batch.size() >= rules.limit) wake()
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

type State = CursorParts & {
  readonly batch: ReturnType<typeof createBatch>
  position: number
  /** Refusals in a row because the pipeline was too slow, or could not decide. */
  late: number
  failed: number
  /** Requests in a row of whose outcome nobody knows; they only wait longer. */
  lost: number
  /** How often the first contact was asked for all alone, and failed. */
  alone: number
}

/** One preflight, and what follows from it. */
async function ask (state: State): Promise<void> {
  const contacts = state.batch.first(sizeOf(state))
  const to = contacts.at(-1)?.offset
  if (to === undefined) return
  failpoint('feed.asking')
  const outcome = await state.submit(requestOf(state, contacts, to))
  if (state.signal.aborted) return
  if (outcome.kind === 'taken') {
    failpoint('feed.taken')
    Object.assign(state, NO_FAILURES)
    return moveTo(state, to)
  }
  if (outcome.kind === 'short') return await quietly(state.pause(outcome.shortage))
  if (outcome.kind === 'late') state.late++
  if (outcome.kind === 'failed') state.failed++
  if (outcome.kind === 'lost') state.lost++
  moveTo(state, await state.reread())
  if (outcome.kind === 'failed' && contacts.length === 1) await retryAlone(state, contacts)
  if (outcome.kind === 'moved' || state.signal.aborted) return
  const tries = Math.max(1, state.late, state.failed, state.lost)
  await quietly((state.sleep ?? sleep)(backoffMs(tries, BACKOFF), state.signal))
}

/**
 * A job that comes too late is tried smaller, and so is one that could not be decided: one contact
 * must not keep all others of its cursor back for ever.
 */
function sizeOf ({ rules, late, failed }: State): number {
  const inTime = Math.max(SMALLEST_LATE_BATCH, Math.ceil(rules.limit / 2 ** late))
  const decidable = Math.max(1, Math.ceil(rules.limit / 2 ** failed))
  return Math.min(rules.limit, inTime, decidable)
}

async function retryAlone (state: State, contacts: readonly Contact[]): Promise<void> {
  const [contact] = contacts
  state.alone++
  if (contact === undefined || state.alone < ALONE_TRIES) return
  await state.giveUp(contact, state.terms)
  state.alone = 0
  state.passed(state.batch.passTo(contact.offset))
}

function moveTo (state: State, position: number): void {
  state.position = position
  state.passed(state.batch.passTo(position))
}

function requestOf (
  { cursor, terms, position }: State, contacts: readonly Contact[], to: number
): JobRequest {
  return {
    cursor,
    terms,
    from: position,
    to,
    inputs: contacts.map(({ input }) => input),
    offsets: contacts.map(({ offset }) => offset),
    references: contacts.map(({ reference }) => reference),
  }
}

/** A wait that ends because the partition is lost is no failure. */
async function quietly (wait: Promise<void>): Promise<void> {
  await wait.catch(() => {})
}
