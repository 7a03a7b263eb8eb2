import type { FeedContact } from '../../schemas/types.ts'
import type { PartnerKeys } from '../accounts/partners.ts'
import type { ConsumeOptions, Delivery, RawMessage } from '../lib/bus.ts'
import type { Clock } from '../lib/clock.ts'
import type { DeadLetters } from '../lib/dead-letters.ts'
import { isInfrastructure } from '../lib/errors.ts'
import type { Metrics } from '../lib/metrics.ts'
import { OPEN_GATE, type Gate } from '../lib/pause.ts'
import type { Codec } from '../lib/registry.ts'
import { forever } from '../lib/retry.ts'
import { turn } from '../lib/turn.ts'
import { readContact, termsOf, type ReadContact, type ReadOptions } from './contact.ts'
import type { Faults } from './faults.ts'
import type { Partition } from './partition.ts'

export type IntakeParts = Pick<ReadOptions, 'partner' | 'isConfigured'> & {
  /** The partner's keys that have not expired now. */
  readonly keys: () => Promise<PartnerKeys>
  readonly clock: Pick<Clock, 'now'>
  readonly codec: Pick<Codec, 'decode'>
  readonly deadLetters: Pick<DeadLetters, 'send'>
  readonly faults: Faults
  readonly metrics: Pick<Metrics, 'count'>
  readonly openPartition: (delivery: Delivery) => Promise<Partition>
  /** Told of broken infrastructure, for logs. */
  readonly onRetry: (error: unknown) => void
  /** Told of each contact that was there before, for logs. */
  readonly onReplay: (replay: {
    readonly partner: string, readonly partition: number, readonly offset: number,
  }) => void
  /** No contact is taken while it is closed; open for ever by default. */
  readonly gate?: Gate | undefined
}

type Read = { readonly raw: RawMessage, readonly value: FeedContact, readonly read: ReadContact }
type Opened = Read | { readonly raw: RawMessage, readonly dead: string } |
  { readonly raw: RawMessage, readonly skip: true }
type Into = {
  readonly partition: Partition
  readonly keys: PartnerKeys
  readonly signal: AbortSignal
}

/** Messages read between two turns of others. */
const AT_ONCE = 500

/**
 * Reads a partner's messages. Contacts go to their cursors; one that can't become a row is answered
 * at once; what is no message of a feed at all goes to the dead letters as it came. Only then is
 * such a message finished, so none is lost silently. A replayed contact is finished on sight.
 */
export function createIntake (
  parts: IntakeParts
): Pick<ConsumeOptions, 'onDelivery' | 'onAssigned'> {
  const { gate = OPEN_GATE } = parts
  let partitions = new Map<number, Partition>()
  const partitionOf = async (delivery: Delivery): Promise<Partition> => {
    // What another generation opens meanwhile must not be taken for this one's.
    const own = partitions
    const found = own.get(delivery.partition) ?? await parts.openPartition(delivery)
    own.set(delivery.partition, found)
    return found
  }
  return {
    onAssigned: () => { partitions = new Map() },
    onDelivery: async delivery => {
      const { signal, messages } = delivery
      try {
        const partition = await partitionOf(delivery)
        const fromOffset = partition.rewindFrom(messages[0]?.offset ?? 0n)
        if (fromOffset !== undefined) return { go: 'again', fromOffset, afterMs: 0 }
        partition.begin(delivery)
        for (let from = 0; from < messages.length; from += AT_ONCE) {
          await partition.room()
          await gate.opened(signal)
          signal.throwIfAborted()
          const some = messages.slice(from, from + AT_ONCE)
          await takeIn(parts, some, { partition, signal })
          await turn('bulk')
        }
        await partition.commit()
      } catch (error) {
        if (!signal.aborted) throw error
      }
      return { go: 'next' }
    },
  }
}

async function takeIn (
  parts: IntakeParts, messages: readonly RawMessage[],
  { partition, signal }: Omit<Into, 'keys'>
): Promise<void> {
  const { metrics, onRetry } = parts
  const patiently = <T>(action: () => Promise<T>) =>
    forever(action, { signal, when: isInfrastructure, onRetry })
  // Read every time: a contact may be sealed by a key that was made a moment ago.
  const keys = await patiently(parts.keys)
  const into = { partition, keys, signal }
  const opened = await patiently(() => Promise.all(messages.map(raw => open(parts, raw, into))))
  const judged = opened.map(one => 'read' in one ? judge(parts, one, partition) : one)
  await tellFaults(parts, judged, into)
  for (const one of judged) {
    metrics.count('stage_chunks_total', { stage: 'feed', lane: '', service: '' })
    if (!('read' in one)) {
      partition.finish(one.raw)
      continue
    }
    const { read, raw } = one
    if (read.kind === 'contact') partition.take(read.contact, read.terms)
    else partition.finish(raw)
    if (read.kind === 'marker' || ('ends' in read && read.ends)) partition.close()
  }
}

async function open (
  parts: IntakeParts, raw: RawMessage, { partition, keys }: Pick<Into, 'partition' | 'keys'>
): Promise<Opened> {
  if (raw.value === null || partition.isFinished(Number(raw.offset))) return { raw, skip: true }
  try {
    const value = await parts.codec.decode('feeds.submitted', raw.value) as FeedContact
    const { partner, isConfigured, clock } = parts
    const options = { partner, isConfigured, keys, nowMs: clock.now(), partition: raw.partition }
    return { raw, value, read: readContact(value, { ...options, offset: Number(raw.offset) }) }
  } catch (error) {
    if (isInfrastructure(error)) throw error
    return { raw, dead: 'undecodable' }
  }
}

/**
 * Leaves nothing to do for a contact that was there before, nor for a faulty one that its cursor
 * has passed: that was answered, or became a row when its key or its time was still good.
 */
function judge (parts: IntakeParts, one: Read, partition: Partition): Opened {
  const { raw, value, read } = one
  if (read.kind === 'marker') return one
  if (read.kind === 'misplaced') return ignored(parts, raw)
  const offset = Number(raw.offset)
  const verdict = read.stamp === undefined ? 'fresh' : partition.judge(offset, read.stamp)
  if (verdict === 'replayed') return ignored(parts, raw)
  if (verdict === 'fresh' && read.kind === 'contact') return one
  if (partition.isPassed(termsOf(value), offset)) return { raw, skip: true }
  if (verdict === 'fresh') return one
  return { raw, value, read: { kind: 'faulty', fault: 'too_many_senders', ends: read.ends } }
}

function ignored ({ metrics, onReplay, partner }: IntakeParts, raw: RawMessage): Opened {
  metrics.count('feed_replays_total', {})
  onReplay({ partner, partition: raw.partition, offset: Number(raw.offset) })
  return { raw, skip: true }
}

/** Dead letters and answers, each until it is acknowledged, whatever infrastructure is away. */
async function tellFaults (
  { deadLetters, faults, partner, onRetry }: IntakeParts,
  opened: readonly Opened[], { keys: [key], signal }: Into
): Promise<void> {
  const dead = opened.flatMap(one => 'dead' in one
    ? [{ raw: one.raw, reason: one.dead, cause: 'unreadable' as const }]
    : [])
  const faulty = opened.flatMap(one => 'read' in one && one.read.kind === 'faulty'
    ? [{ offset: Number(one.raw.offset), value: one.value, fault: one.read.fault }]
    : [])
  const of = { partner, key, partition: opened[0]?.raw.partition ?? 0 }
  const patiently = (action: () => Promise<void>) =>
    forever(action, { signal, when: isInfrastructure, onRetry })
  await patiently(() => deadLetters.send([dead], signal))
  await patiently(() => faults.answer(of, faulty, signal))
}
