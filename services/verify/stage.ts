import { bulkhead, type BulkheadPolicy } from 'cockatiel'
import { LRUCache } from 'lru-cache'
import type { Later, LaterRows } from '../../schemas/types.ts'
import type { JobStore } from '../jobs/store.ts'
import type { RawMessage } from '../lib/bus.ts'
import type { Metrics } from '../lib/metrics.ts'
import type { Decision, Emission, Incoming, Stage } from '../lib/stage.ts'
import { laneOf } from '../lib/topics.ts'
import { createBlock, deadBlock } from '../records/block.ts'
import { pickTokens } from '../records/cache.ts'
import { placeOf, placeOfHeaders } from '../records/place.ts'
import { allWithout, checkPart, type CheckParts, type Part, type PartOutcomes } from './part.ts'

export type VerifyParts = CheckParts & {
  readonly store: Pick<JobStore, 'beginPart' | 'outcome'>
  /** Parts under check at the same time in this process. */
  readonly concurrency: number
  /** Messages handed to one call of `decide`. */
  readonly batch: number
  /** Pause before a part is tried again, and when its rows end without a verdict. */
  readonly laterAfterMs: number
  readonly giveUpAfterMs: number
  readonly metrics?: Pick<Metrics, 'count'>
}

type PartMessage = Incoming<'rows.missed' | 'rows.later'>
type PartDecision = Decision<'verify'>

/** A chunk has at most 1,000 rows, so it never has more parts than this. */
const PARTS_OF_A_CHUNK = 1_000

/** How soon it is seen that the job of a part that was put off needs no checks any more. */
const LOOK_AGAIN_MS = 1_000

/** Parts that ended beside one that waits and may come again along with it; the newest are kept. */
const MOST_ENDED = 10_000

/**
 * Checks parts live, so many at a time. Rows of a part whose providers are down come back on
 * `rows.later` after a pause; the others are finished at once. A message that is not due yet stops
 * the partition until it is, unless its job was cancelled or is over: that is looked up meanwhile.
 */
export function createVerifyStage (parts: VerifyParts): Stage<'verify'> {
  const slots = bulkhead(parts.concurrency, Number.MAX_SAFE_INTEGER)
  const ended = new LRUCache<string, true>({ max: MOST_ENDED })
  return {
    name: 'verify',
    batch: parts.batch,
    decide: async (messages, signal) => {
      const nowMs = parts.clock.now()
      const fresh = messages.filter((message) => !ended.has(nameOf(message)))
      const early = fresh.filter(({ value }) => value.notBefore > nowMs)
      const over = await jobsOver(early, parts)
      const waiting = early.find(({ value }) => !over.has(value.job))
      const inTurn = waiting === undefined ? messages : messages.slice(0, messages.indexOf(waiting))
      const due = fresh.filter((message) => inTurn.includes(message) || over.has(message.value.job))
      const decisions = await decideAll(due, { parts, slots, signal })
      const known = inTurn.filter((message) => !fresh.includes(message))
      decisions.push(...known.map((message) => ({ finishes: [message], emits: [] })))
      if (waiting === undefined) return decisions
      const untilMs = Math.min(waiting.value.notBefore, nowMs + LOOK_AGAIN_MS)
      const afterProduced = async () => {
        for (const message of due) if (!inTurn.includes(message)) ended.set(nameOf(message), true)
      }
      const remembered = decisions.map((decision) => ({ ...decision, afterProduced }))
      return [...remembered, { postpone: waiting, untilMs }]
    },
    whenDead: (headers) => whenDead(headers, parts),
    forget: () => ended.clear(),
  }
}

/** Where a message stands, which is never another's place. */
function nameOf ({ raw }: Pick<PartMessage, 'raw'>): string {
  return `${raw.topic}:${raw.partition}:${raw.offset}`
}

/** Those of the jobs of these messages whose rows need not be checked any more. */
async function jobsOver (
  messages: readonly PartMessage[], { store }: Pick<VerifyParts, 'store'>
): Promise<ReadonlySet<string>> {
  const tenants = new Map(messages.map(({ value }) => [value.job, value.tenant]))
  const found = await Promise.all([...tenants].map(async ([job, tenant]) => {
    const outcome = await store.outcome(tenant, job)
    const goesOn = outcome.kind === 'accepted' && !outcome.job.ended &&
      outcome.job.status !== 'cancelling'
    return goesOn ? [] : [job]
  }))
  return new Set(found.flat())
}

type Running = {
  readonly parts: VerifyParts
  readonly slots: BulkheadPolicy
  readonly signal: AbortSignal
}

/** Waits for every part even when one fails, so that nothing goes on behind the engine's back. */
async function decideAll (messages: readonly PartMessage[], { parts, slots, signal }: Running):
Promise<PartDecision[]> {
  const settled = await Promise.allSettled(messages.map((message) =>
    slots.execute(() => decidePart(message, parts, signal))))
  const failed = settled.find((it) => it.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return settled.flatMap((it) => it.status === 'fulfilled' ? [it.value] : [])
}

async function decidePart (message: PartMessage, parts: VerifyParts, signal: AbortSignal):
Promise<PartDecision> {
  const { value } = message
  const standing = await parts.store.beginPart(value.tenant, value.job)
  if (standing === 'skip') return { finishes: [message], emits: [] }
  const part = { value, rows: message.rows() }
  const outcomes = standing === 'cancelling'
    ? allWithout(part, 'cancelled', parts.clock.now())
    : await checkPart(part, parts, signal)
  signal.throwIfAborted()
  return { finishes: [message], emits: emitsOf(part, outcomes, parts) }
}

/** A block of the rows that are finished, and a part of those that are not. */
function emitsOf (part: Part, outcomes: PartOutcomes, parts: VerifyParts): PartDecision['emits'] {
  const nowMs = parts.clock.now()
  const { value } = part
  const giveUpAt = value.giveUpAt === 0 ? nowMs + parts.giveUpAfterMs : value.giveUpAt
  const open = outcomes.flatMap((outcome, position) => outcome === undefined ? [position] : [])
  if (open.length === 0) return [blockOf(part, outcomes)]
  if (nowMs >= giveUpAt) {
    const without = allWithout(part, 'unavailable', nowMs)
    return [blockOf(part, outcomes.map((outcome, position) => outcome ?? without[position]))]
  }
  parts.metrics?.count('parts_put_off_total', { service: value.service })
  const notBefore = Math.min(nowMs + parts.laterAfterMs, giveUpAt)
  const later = laterOf(part, open, { notBefore, giveUpAt })
  return open.length === outcomes.length ? [later] : [blockOf(part, outcomes), later]
}

function blockOf (part: Part, outcomes: PartOutcomes): Emission<'rows.finished'> {
  const place = placeOf(part.value)
  const block = createBlock({ place, part: partOfAttempt(part.value) })
  const rowAt = (position: number) => part.rows.rows[position] ?? -1
  const inOrder = [...outcomes.keys()].sort((a, b) => rowAt(a) - rowAt(b))
  for (const position of inOrder) {
    const outcome = outcomes[position]
    if (outcome !== undefined) block.add(rowAt(position), outcome)
  }
  return block.emission(laneOf(place.totalRows))
}

/**
 * The part number of a block: the part's own, plus 1,000 for each time it was put off, so that
 * blocks of the same part are told apart by what their seals are bound to.
 */
export function partOfAttempt ({ part, attempt }: Pick<Later, 'part' | 'attempt'>): number {
  return part + PARTS_OF_A_CHUNK * attempt
}

type LaterTimes = Pick<Later, 'notBefore' | 'giveUpAt'>

function laterOf (
  { value, rows }: Part, open: readonly number[], times: LaterTimes
): Emission<'rows.later'> {
  const { rowsSchema: _schema, sealed: _sealed, ...envelope } = value
  const place = placeOf(value)
  return {
    topic: 'rows.later',
    lane: laneOf(place.totalRows),
    service: place.service,
    value: { ...envelope, attempt: value.attempt + 1, ...times },
    rows: rowsAt(rows, open),
  }
}

function rowsAt (rows: LaterRows, positions: readonly number[]): LaterRows {
  const pick = <T>(values: readonly T[]): T[] => positions.map((position) => values[position] as T)
  return {
    rows: pick(rows.rows),
    copies: pick(rows.copies),
    canonicals: pick(rows.canonicals),
    tokens: pickTokens(rows.tokens, positions),
  }
}

/** A part nobody can read: its rows end, unless the job is over or never was. */
async function whenDead (headers: RawMessage['headers'], { store, clock }: VerifyParts) {
  const known = placeOfHeaders(headers)
  if (known === undefined) return []
  const outcome = await store.outcome(known.place.tenant, known.place.job)
  if (outcome.kind !== 'accepted' || outcome.job.closed) return []
  return [deadBlock(known, { atMs: clock.now(), inputs: false })]
}
