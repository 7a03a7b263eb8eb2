import type { Partner, PartnerKeys, Partners } from '../accounts/partners.ts'
import type { Cursors } from '../jobs/cursors.ts'
import type { Bus, Consumption, Delivery } from '../lib/bus.ts'
import { isInfrastructure } from '../lib/errors.ts'
import { backoffMs, forever, sleep } from '../lib/retry.ts'
import { topicName } from '../lib/topics.ts'
import type { BatchRules } from './batch.ts'
import type { Shortage } from './cursor.ts'
import { createIntake, type IntakeParts } from './intake.ts'
import type { MarkStore } from './marks.ts'
import { createPartition, type Partition, type PartitionParts } from './partition.ts'
import { untilRoom, type ShortageParts } from './shortage.ts'
import { submitContacts, type SubmitParts } from './submit.ts'

export type PartnerFeedParts = Omit<IntakeParts, 'partner' | 'keys' | 'openPartition'> &
  Pick<PartitionParts, 'held' | 'fail' | 'now' | 'sleep'> & SubmitParts & {
    readonly bus: Pick<Bus, 'consume'>
    readonly cursors: Cursors
    readonly marks: MarkStore
    readonly partners: Pick<Partners, 'keysOf'>
    readonly rules: BatchRules
    readonly shortage: ShortageParts
    /** A partner that is short of something for so long lets go of its contacts. */
    readonly pauseAfterMs: number
    /** Told of what ended one partner's consumer, for logs. */
    readonly onBroken: (error: unknown, partner: string) => void
  }

/** `failing`: something broke that nothing is known to heal; it is tried anew, ever later. */
export type PartnerFeedState = 'starting' | 'running' | 'paused' | 'failing'

export type PartnerFeed = {
  readonly state: () => PartnerFeedState
  /** Resolves when the contacts are let go of; the next reader reads what no job took again. */
  readonly stop: () => Promise<void>
}

/** A feed that broke begins anew, and is taken for healed once it has run for the longest pause. */
const RESTART = { firstMs: 1_000, maxMs: 60_000 }

/**
 * Takes one partner's contacts, in a consumer group of its own: neither a new partner nor one
 * without balance touches any other, nor one whose messages break its consumer. A partner that
 * stays short of balance or slots is paused: its consumer stops, what it held is forgotten, and
 * once there is room it reads on from what was committed.
 */
export function startPartnerFeed (partner: Partner, parts: PartnerFeedParts): PartnerFeed {
  const stopping = new AbortController()
  const { signal } = stopping
  let consumption: Consumption | undefined
  let paused = false
  let failures = 0
  const restAfter = async (ending: Ending) => {
    if ('error' in ending) {
      failures++
      parts.onBroken(ending.error, partner.name)
      return await (parts.sleep ?? sleep)(backoffMs(failures, RESTART), signal)
    }
    paused = true
    await untilRoom(partner.tenant, ending.shortage, { parts: parts.shortage, signal })
    paused = false
  }
  const run = async () => {
    while (!signal.aborted) {
      const beganAtMs = parts.now()
      const { ends, run } = beginRun(signal)
      consumption = await parts.bus.consume(consumeOptions(partner, parts, run))
      const ending = await ends
      await consumption.stop()
      consumption = undefined
      if (parts.now() - beganAtMs > RESTART.maxMs) failures = 0
      if (ending !== undefined) await restAfter(ending)
    }
  }
  const running = run().catch((error: unknown) => { if (!signal.aborted) parts.fail(error) })
  return {
    state: () => {
      if (paused) return 'paused'
      if (consumption?.ready() === true) return 'running'
      return failures > 0 ? 'failing' : 'starting'
    },
    stop: async () => {
      stopping.abort(new Error('the feed stops'))
      await running
    },
  }
}

type Ending = { readonly shortage: Shortage } | { readonly error: unknown }

type Run = {
  readonly signal: AbortSignal
  readonly onPause: (shortage: Shortage) => void
  readonly onFailed: (error: unknown) => void
}

/** `ends` resolves to why the run came to its end, or to undefined when the feed stops. */
function beginRun (
  stops: AbortSignal
): { readonly run: Run, readonly ends: Promise<Ending | undefined> } {
  const over = new AbortController()
  const { promise: ends, resolve } = Promise.withResolvers<Ending | undefined>()
  const end = (ending: Ending) => {
    resolve(ending)
    over.abort(new Error('the consumer of the feed ends'))
  }
  const signal = AbortSignal.any([stops, over.signal])
  const stop = () => resolve(undefined)
  if (stops.aborted) stop()
  signal.addEventListener('abort', stop, { once: true })
  const onPause = (shortage: Shortage) => end({ shortage })
  return { ends, run: { signal, onPause, onFailed: error => end({ error }) } }
}

function consumeOptions (partner: Partner, parts: PartnerFeedParts, run: Run) {
  const { name } = partner
  const topic = topicName('feeds.submitted', { partner: name })
  const keys = () => keysOf(parts, name)
  const openPartition = (delivery: Delivery) => open(partner, parts, { ...run, delivery })
  const intake = createIntake({ ...parts, partner: name, keys, openPartition })
  const { onFailed } = run
  return { group: `feed.${name}`, topics: [topic], onFailed, ...intake }
}

async function keysOf ({ partners }: PartnerFeedParts, name: string): Promise<PartnerKeys> {
  const keys = await partners.keysOf(name)
  if (keys === undefined) throw new Error(`partner ${name} is not registered any more`)
  return keys
}

function open (
  partner: Partner, parts: PartnerFeedParts,
  { delivery, signal: feedSignal, onPause, onFailed }: Run & { readonly delivery: Delivery }
): Promise<Partition> {
  const { topic, partition } = delivery
  const signal = AbortSignal.any([feedSignal, delivery.signal])
  const { name, tenant } = partner
  const place = { tenant, partner: name, partition }
  const patiently = <T>(action: () => Promise<T>) =>
    forever(action, { signal, when: isInfrastructure, onRetry: parts.onRetry })
  return createPartition({
    ...parts,
    place: { topic, partition },
    signal,
    fail: onFailed,
    positions: () => patiently(() => parts.cursors.read(place)),
    marks: {
      read: () => patiently(() => parts.marks.read(place)),
      write: change => patiently(() => parts.marks.write(place, change)),
    },
    submit: async request => {
      await parts.gate?.opened(signal)
      return await submitContacts(parts, { partner, partition }, request)
    },
    giveUp: (contact, terms) => patiently(async () => {
      const [key] = await keysOf(parts, name)
      await parts.faults.giveUp({ partner: name, key, partition }, { contact, terms }, signal)
    }),
    pause: shortage => pauseWithin(parts, { tenant, shortage, signal, onPause }),
  })
}

/** Waits for room with the contacts in hand; when that takes too long they are let go of. */
async function pauseWithin (
  { shortage: parts, pauseAfterMs }: PartnerFeedParts,
  { tenant, shortage, signal, onPause }: Pick<Run, 'signal' | 'onPause'> & {
    readonly tenant: string, readonly shortage: Shortage,
  }
): Promise<void> {
  const over = new AbortController()
  const either = AbortSignal.any([signal, over.signal])
  const late = sleep(pauseAfterMs, either).then(() => onPause(shortage), () => {})
  try {
    await Promise.race([untilRoom(tenant, shortage, { parts, signal: either }), late])
  } finally {
    over.abort()
  }
}
