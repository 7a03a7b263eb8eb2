import { fullBitmap } from '../lib/bitmap.ts'
import type { RawMessage } from '../lib/bus.ts'
import { createGather, type Gather } from '../lib/gather.ts'
import type { Decision, Stage } from '../lib/stage.ts'
import { deadBlock } from '../records/block.ts'
import type { RecordCache } from '../records/cache.ts'
import { placeOfHeaders } from '../records/place.ts'
import { decideOrGiveUp, type GiveUpParts } from './give-up.ts'
import type { JobParts } from './job.ts'
import { createLoader, type ChunkMessage } from './load.ts'

export type LookupParts = Omit<GiveUpParts, 'load'> & {
  readonly cache: Pick<RecordCache, 'find'>
  /** Messages handed to one call of `decide`. */
  readonly batch: number
}

/**
 * Gathers the chunks of each job and decides it when the last one is there. Chunks of jobs that are
 * not complete are held, so their offsets are not committed and a restart reads them again; once
 * `acceptBy` has passed, held chunks are let go as soon as Redis says nothing waits for them.
 */
export function createLookupStage (options: LookupParts): Stage<'lookup'> {
  const parts = { ...options, load: createLoader(options.cache) }
  const gather = createGather<ChunkMessage>({
    unitOf,
    indexOf: ({ value }) => value.chunk,
    sizeOf: ({ value }) => value.chunks,
  })
  const waiting = new Map<string, ChunkMessage>()
  let generation = 0

  /** Until its effects are done a unit stays complete, so that any failure finds it once more. */
  const released = (decision: Decision<'lookup'>, ofGeneration: number): Decision<'lookup'> => ({
    ...decision,
    afterProduced: async () => {
      await decision.afterProduced?.()
      const [message] = decision.finishes
      if (message === undefined || ofGeneration !== generation) return
      gather.done(message)
      waiting.delete(unitOf(message))
    },
  })
  const decide: Stage<'lookup'>['decide'] = async (messages) => {
    const ofGeneration = generation
    // The work starts now; whoever needs the chunk later sees a failure of it.
    for (const message of messages) parts.load(message).catch(() => {})
    const decided = await decideComplete(messages, { gather, waiting, parts })
    for (const message of lateOnes(messages, waiting, parts)) {
      if (decided.has(unitOf(message)) || !await isOverFor(message, parts)) continue
      decided.set(unitOf(message), { finishes: gather.membersOf(message), emits: [] })
    }
    return [...decided.values()].map((decision) => released(decision, ofGeneration))
  }
  return {
    name: 'lookup',
    batch: options.batch,
    decide,
    whenDead: (headers) => whenDead(headers, parts),
    forget: () => {
      generation++
      gather.forget()
      waiting.clear()
    },
  }
}

type Held = {
  readonly gather: Gather<ChunkMessage>
  /** A held chunk of every job, by the name of its unit. */
  readonly waiting: Map<string, ChunkMessage>
  readonly parts: GiveUpParts
}

/** Decisions of the jobs these chunks complete, each job once, by the name of its unit. */
async function decideComplete (
  messages: readonly ChunkMessage[], { gather, waiting, parts }: Held
): Promise<Map<string, Decision<'lookup'>>> {
  const decided = new Map<string, Decision<'lookup'>>()
  for (const message of messages) {
    const unit = gather.add(message)
    waiting.set(unitOf(message), message)
    if (unit === undefined) continue
    const known = decided.get(unitOf(message)) ?? await decideOrGiveUp(unit, parts)
    decided.set(unitOf(message), { ...known, finishes: unit.members })
  }
  return decided
}

function unitOf ({ value }: ChunkMessage): string {
  return `${value.tenant}:${value.job}`
}

/** Held chunks of the partition at hand whose job can no longer be accepted. */
function lateOnes (
  messages: readonly ChunkMessage[], waiting: ReadonlyMap<string, ChunkMessage>, parts: JobParts
): readonly ChunkMessage[] {
  const [first] = messages
  return [...waiting.values()].filter(({ raw, value }) => parts.clock.now() > value.acceptBy &&
    raw.topic === first?.raw.topic && raw.partition === first.raw.partition)
}

/**
 * Whether an incomplete job needs its missing chunks no more: it was refused, is closed, or
 * everything it emits is in Kafka already and this chunk was only delivered once more.
 */
async function isOverFor ({ value }: ChunkMessage, { store }: JobParts): Promise<boolean> {
  const { tenant, job } = value
  const known = await store.outcome(tenant, job)
  const outcome = known.kind === 'open' ? await store.refuse(tenant, job, 'expired') : known
  return outcome.kind === 'refused' ||
    (outcome.kind === 'accepted' && (outcome.job.announced || outcome.job.closed))
}

/**
 * A chunk nobody can read: its job is refused, or if it was accepted before, its rows end. Of a job
 * that is announced everything is in Kafka already: this is only a repetition.
 */
async function whenDead (headers: RawMessage['headers'], { store, clock }: JobParts) {
  const known = placeOfHeaders(headers)
  if (known === undefined) return []
  const { tenant, job, rows } = known.place
  const outcome = await store.refuse(tenant, job, 'internal')
  if (outcome.kind !== 'accepted' || outcome.job.announced || outcome.job.closed) return []
  const whole = { ...known, rows: fullBitmap(rows) }
  return [deadBlock(whole, { atMs: clock.now(), inputs: true })]
}
