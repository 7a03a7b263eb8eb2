import type { FeedContact } from '../../schemas/types.ts'
import type { ConsumeOptions, Delivery, RawMessage } from '../lib/bus.ts'
import type { DeadLetters } from '../lib/dead-letters.ts'
import { isInfrastructure } from '../lib/errors.ts'
import type { Metrics } from '../lib/metrics.ts'
import { OPEN_GATE, type Gate } from '../lib/pause.ts'
import type { Codec } from '../lib/registry.ts'
import { forever } from '../lib/retry.ts'
import { turn } from '../lib/turn.ts'
import { readContact, type ReadContact, type ReadOptions } from './contact.ts'
import type { Faults } from './faults.ts'
import type { Partition } from './partition.ts'

export type IntakeParts = Pick<ReadOptions, 'partner' | 'key' | 'isConfigured'> & {
  readonly codec: Pick<Codec, 'decode'>
  readonly deadLetters: Pick<DeadLetters, 'send'>
  readonly faults: Faults
  readonly metrics: Pick<Metrics, 'count'>
  readonly openPartition: (delivery: Delivery) => Promise<Partition>
  /** Told of broken infrastructure, for logs. */
  readonly onRetry: (error: unknown) => void
  /** No contact is taken while it is closed; open for ever by default. */
  readonly gate?: Gate | undefined
}

type Read = { readonly raw: RawMessage, readonly value: FeedContact, readonly read: ReadContact }
type Opened = Read | { readonly raw: RawMessage, readonly dead: string } |
  { readonly raw: RawMessage, readonly skip: true }

/** Messages read between two turns of others. */
const AT_ONCE = 500

/**
 * Reads a partner's messages. Contacts go to their cursors; one that can't become a row is answered
 * at once; what is no message of a feed at all goes to the dead letters as it came. Only then is
 * such a message finished, so none is lost silently.
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
        partition.begin(delivery)
        for (let from = 0; from < messages.length; from += AT_ONCE) {
          await partition.room()
          await gate.opened(signal)
          signal.throwIfAborted()
          const some = messages.slice(from, from + AT_ONCE)
          await takeIn(parts, await openAll(parts, some, signal), { partition, signal })
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

async function openAll (
  parts: IntakeParts, messages: readonly RawMessage[], signal: AbortSignal
): Promise<readonly Opened[]> {
  const { onRetry } = parts
  const openOnce = () => Promise.all(messages.map(raw => open(parts, raw)))
  return await forever(openOnce, { signal, when: isInfrastructure, onRetry })
}

async function open (parts: IntakeParts, raw: RawMessage): Promise<Opened> {
  if (raw.value === null) return { raw, skip: true }
  try {
    const value = await parts.codec.decode('feeds.submitted', raw.value) as FeedContact
    return { raw, value, read: readContact(value, { ...parts, offset: Number(raw.offset) }) }
  } catch (error) {
    if (isInfrastructure(error)) throw error
    return { raw, dead: 'undecodable' }
  }
}

type Into = { readonly partition: Partition, readonly signal: AbortSignal }

async function takeIn (
  parts: IntakeParts, opened: readonly Opened[], { partition, signal }: Into
): Promise<void> {
  const { metrics } = parts
  await tellFaults(parts, opened, signal)
  for (const one of opened) {
    metrics.count('stage_chunks_total', { stage: 'feed', lane: '', service: '' })
    if (!('read' in one)) {
      partition.finish(one.raw)
      continue
    }
    if (one.read.kind === 'contact') partition.take(one.read.contact, one.read.terms)
    else partition.finish(one.raw)
    if (one.read.kind === 'marker' || one.read.ends) partition.close()
  }
}

/** Dead letters and answers, each until it is acknowledged, whatever infrastructure is away. */
async function tellFaults (
  { deadLetters, faults, partner, key, onRetry }: IntakeParts,
  opened: readonly Opened[], signal: AbortSignal
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
