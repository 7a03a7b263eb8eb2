import type { Partner } from '../accounts/partners.ts'
import type { Cursors } from '../jobs/cursors.ts'
import type { Bus, Consumption, Delivery } from '../lib/bus.ts'
import { isInfrastructure } from '../lib/errors.ts'
import { forever, sleep } from '../lib/retry.ts'
import { topicName } from '../lib/topics.ts'
import type { BatchRules } from './batch.ts'
import type { Shortage } from './cursor.ts'
import { createIntake, type IntakeParts } from './intake.ts'
import { createPartition, type Partition, type PartitionParts } from './partition.ts'
import { untilRoom, type ShortageParts } from './shortage.ts'
import { submitContacts, type SubmitParts } from './submit.ts'

export type PartnerFeedParts = Omit<IntakeParts, 'partner' | 'key' | 'openPartition'> &
  Pick<PartitionParts, 'held' | 'fail' | 'now' | 'sleep'> & SubmitParts & {
    readonly bus: Pick<Bus, 'consume'>
    readonly cursors: Cursors
    readonly rules: BatchRules
    readonly shortage: ShortageParts
    /** A partner that is short of something for so long lets go of its contacts. */
    readonly pauseAfterMs: number
  }

export type PartnerFeedState = 'starting' | 'running' | 'paused'

export type PartnerFeed = {
  readonly state: () => PartnerFeedState
  /** Resolves when the contacts are let go of; the next reader reads what no job took again. */
  readonly stop: () => Promise<void>
}

type Registered = { readonly partner: Partner, readonly key: Buffer }

/**
 * Takes one partner's contacts, in a consumer group of its own: neither a new partner nor one
 * without balance touches any other. A partner that stays short of balance or slots is paused: its
 * consumer stops, what it held is forgotten, and once there is room it reads on from what was
 * committed.
 */
export function startPartnerFeed (
  registered: Registered, parts: PartnerFeedParts
): PartnerFeed {
  const stopping = new AbortController()
  const { signal } = stopping
  let consumption: Consumption | undefined
  let paused = false
  const run = async () => {
    while (!signal.aborted) {
      const lacking = new AbortController()
      const either = AbortSignal.any([signal, lacking.signal])
      const onPause = (shortage: Shortage) => lacking.abort(shortage)
      const consume = consumeOptions(registered, parts, { signal: either, onPause })
      consumption = await parts.bus.consume(consume)
      await aborted(either)
      await consumption.stop()
      consumption = undefined
      if (signal.aborted) return
      paused = true
      const shortage = lacking.signal.reason as Shortage
      await untilRoom(registered.partner.tenant, shortage, { parts: parts.shortage, signal })
      paused = false
    }
  }
  const running = run().catch((error: unknown) => { if (!signal.aborted) parts.fail(error) })
  return {
    state: () => {
      if (paused) return 'paused'
      return consumption?.ready() === true ? 'running' : 'starting'
    },
    stop: async () => {
      stopping.abort(new Error('the feed stops'))
      await running
    },
  }
}

type Run = { readonly signal: AbortSignal, readonly onPause: (shortage: Shortage) => void }

function consumeOptions ({ partner, key }: Registered, parts: PartnerFeedParts, run: Run) {
  const topic = topicName('feeds.submitted', { partner: partner.name })
  const openPartition = (delivery: Delivery) =>
    open({ partner, key }, parts, { ...run, delivery })
  const intake = createIntake({ ...parts, partner: partner.name, key, openPartition })
  return { group: `feed.${partner.name}`, topics: [topic], ...intake }
}

function open (
  { partner, key }: Registered, parts: PartnerFeedParts,
  { delivery, signal: feedSignal, onPause }: Run & { readonly delivery: Delivery }
): Promise<Partition> {
  const { topic, partition } = delivery
  const signal = AbortSignal.any([feedSignal, delivery.signal])
  const { name, tenant } = partner
  const patiently = <T>(action: () => Promise<T>) =>
    forever(action, { signal, when: isInfrastructure, onRetry: parts.onRetry })
  return createPartition({
    ...parts,
    place: { topic, partition },
    signal,
    positions: () => patiently(() => parts.cursors.read({ tenant, partner: name, partition })),
    submit: request => submitContacts(parts, { partner, partition }, request),
    giveUp: (contact, terms) => patiently(() =>
      parts.faults.giveUp({ partner: name, key, partition }, contact, terms)),
    pause: shortage => pauseWithin(parts, { tenant, shortage, signal, onPause }),
  })
}

/** Waits for room with the contacts in hand; when that takes too long they are let go of. */
async function pauseWithin (
  { shortage: parts, pauseAfterMs }: PartnerFeedParts,
  { tenant, shortage, signal, onPause }: Run & {
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

function aborted (signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise(resolve => signal.addEventListener('abort', () => resolve(), { once: true }))
}
