import { bulkhead, type BulkheadPolicy } from 'cockatiel'
import { LRUCache } from 'lru-cache'
import type { JobStore } from '../jobs/store.ts'
import { withinMessage } from '../lib/decision-spans.ts'
import { failpoint } from '../lib/failpoint.ts'
import type { Decision, Incoming, Stage } from '../lib/stage.ts'
import { laneOf } from '../lib/topics.ts'
import { turn } from '../lib/turn.ts'
import { deadBlock } from '../records/block.ts'
import { placeOfHeaders } from '../records/place.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'
import { partEmissions, type EmitParts } from './emit.ts'
import { allWithout, checkPart, type CheckParts } from './part.ts'

export type VerifyParts = CheckParts & EmitParts & {
  readonly store: Pick<JobStore, 'beginPart' | 'outcome'>
  /** Parts of a service under check at the same time in this process. */
  readonly concurrencyOf: (service: ServiceSlug) => number
  /** Messages handed to one call of `decide`. */
  readonly batch: number
}

type PartMessage = Incoming<'rows.missed' | 'rows.later'>
type PartDecision = Decision<'verify'>

/** How soon it is seen that the job of a part that was put off needs no checks any more. */
const LOOK_AGAIN_MS = 1_000

/** Parts that ended beside one that waits and may come again along with it; the newest are kept. */
const MOST_ENDED = 10_000

/**
 * Checks parts live, so many of each service at a time. Rows of a part whose providers are down
 * come back on `rows.later` after a pause; the others are finished at once. A message that is not
 * due yet stops the partition until it is, unless its job was cancelled or is over: that is looked
 * up meanwhile.
 */
export function createVerifyStage (parts: VerifyParts): Stage<'verify'> {
  const slots = new Map(SERVICE_SLUGS.map(service =>
    [service, bulkhead(parts.concurrencyOf(service), Number.MAX_SAFE_INTEGER)]))
  // Told by size, it takes no room before there is need of it.
  const ended = new LRUCache<string, true>({ maxSize: MOST_ENDED, sizeCalculation: () => 1 })
  return {
    name: 'verify',
    batch: parts.batch,
    byTenant: ['rows.missed'],
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
  readonly slots: ReadonlyMap<string, BulkheadPolicy>
  readonly signal: AbortSignal
}

/** Waits for every part even when one fails, so that nothing goes on behind the engine's back. */
async function decideAll (messages: readonly PartMessage[], { parts, slots, signal }: Running):
Promise<PartDecision[]> {
  const settled = await Promise.allSettled(messages.map(message => {
    const decide = () => decidePart(message, parts, signal)
    return slots.get(message.value.service)?.execute(decide) ?? decide()
  }))
  const failed = settled.find((it) => it.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return settled.flatMap((it) => it.status === 'fulfilled' ? [it.value] : [])
}

async function decidePart (message: PartMessage, parts: VerifyParts, signal: AbortSignal):
Promise<PartDecision> {
  const { value } = message
  const standing = await parts.store.beginPart(value.tenant, value.job)
  if (standing === 'skip') return { finishes: [message], emits: [] }
  failpoint('verify.begun')
  const lane = laneOf(value.totalRows)
  await turn(lane, value.tenant)
  const part = { value, rows: message.rows() }
  const outcomes = standing === 'cancelling'
    ? allWithout(part, 'cancelled', parts.clock.now())
    : await withinMessage('verify', message.raw, () => checkPart(part, parts, signal))
  await turn(lane, value.tenant)
  signal.throwIfAborted()
  return { finishes: [message], emits: partEmissions(part, outcomes, parts) }
}

/** A part nobody can read: its rows end, unless the job is over or never was. */
async function whenDead (
  headers: Parameters<Stage['whenDead']>[0], { store, clock }: VerifyParts
) {
  const known = placeOfHeaders(headers)
  if (known === undefined) return []
  const outcome = await store.outcome(known.place.tenant, known.place.job)
  if (outcome.kind !== 'accepted' || outcome.job.closed) return []
  return [deadBlock(known, { atMs: clock.now(), inputs: false })]
}
