import type { FeedContact } from '../../schemas/types.ts'
import type { PartnerKeys } from '../accounts/partners.ts'
import type { ConsumeOptions, FetchedBatch, RawMessage } from '../kafka/bus.ts'
import type { Clock } from '../platform/clock.ts'
import type { DeadLetters } from '../engine/dead-letters.ts'
import { isInfrastructure } from '../platform/errors.ts'
import type { Metrics } from '../platform/metrics.ts'
import { OPEN_GATE, type Gate } from '../engine/pause.ts'
import type { Codec } from '../kafka/registry.ts'
import { retryForever } from '../platform/retry.ts'
import { yieldToEventLoop } from '../platform/event-loop.ts'
import {
  readContact, contactTermsOf, type ReadContact, type ContactReadOptions, type Rejections,
} from './contact.ts'
import type { Partition } from './partition.ts'

export type IntakeDeps = Pick<ContactReadOptions, 'partner' | 'isConfigured'> & {
  /** The partner's keys that have not expired now. */
  readonly keys: () => Promise<PartnerKeys>
  readonly clock: Pick<Clock, 'now'>
  readonly codec: Pick<Codec, 'decode'>
  readonly deadLetters: Pick<DeadLetters, 'send'>
  readonly rejections: Rejections
  readonly metrics: Pick<Metrics, 'count'>
  readonly openPartition: (delivery: FetchedBatch) => Promise<Partition>
  /** Called with each infrastructure error that is retried. */
  readonly onRetry: (error: unknown) => void
  /** Called with each replayed contact. */
  readonly onReplay: (replay: {
    readonly partner: string, readonly partition: number, readonly offset: number,
  }) => void
  /** No contact is read while the gate is closed; always open by default. */
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

/** Number of messages that are read before the event loop runs other work. */
const MESSAGES_PER_TURN = 500

/**
 * Reads a partner's messages; rejects when the signal of the delivery is aborted. Valid contacts go
 * to their cursors, rejected contacts are answered, and undecodable messages become dead letters. A
 * message is finished only after that, so none is lost silently. A replayed contact is finished
 * without an answer.
 */
export function createIntake (deps: IntakeDeps): ConsumeOptions['onDelivery'] {
  const { gate = OPEN_GATE } = deps
  const partitions = new Map<number, Partition>()
  const partitionOf = async (delivery: FetchedBatch): Promise<Partition> => {
    const found = partitions.get(delivery.partition) ?? await deps.openPartition(delivery)
    partitions.set(delivery.partition, found)
    return found
  }
  return async delivery => {
    const { signal, messages } = delivery
    const partition = await partitionOf(delivery)
    const fromOffset = partition.seekTo(messages[0]?.offset ?? 0n)
    if (fromOffset !== undefined) {
      // The group may have no commit yet: its lag counts only what is not finished.
      delivery.commit(fromOffset)
      return delivery.redeliver(fromOffset, 0)
    }
    partition.begin(delivery)
    for (let from = 0; from < messages.length; from += MESSAGES_PER_TURN) {
      await partition.untilFree()
      await gate.opened(signal)
      signal.throwIfAborted()
      const some = messages.slice(from, from + MESSAGES_PER_TURN)
      await takeIn(deps, some, { partition, signal })
      await yieldToEventLoop('bulk')
    }
    await partition.commit()
  }
}

async function takeIn (
  deps: IntakeDeps, messages: readonly RawMessage[],
  { partition, signal }: Omit<Into, 'keys'>
): Promise<void> {
  const { metrics, onRetry } = deps
  const retrying = <T>(action: () => Promise<T>) =>
    retryForever(action, { signal, when: isInfrastructure, onRetry })
  // Read for each batch: a contact may be sealed by a key that is a moment old.
  const keys = await retrying(deps.keys)
  const into = { partition, keys, signal }
  const opened = await retrying(() => Promise.all(messages.map(raw => open(deps, raw, into))))
  const checked = opened.map(one => 'read' in one ? checkReplay(deps, one, partition) : one)
  await sendFailures(deps, checked, into)
  for (const one of checked) {
    metrics.count('stage_chunks_total', { stage: 'feed', lane: '', service: '' })
    if (!('read' in one)) {
      partition.finish(one.raw)
      continue
    }
    const { read, raw } = one
    if (read.kind === 'contact') partition.take(read.contact, read.terms)
    else partition.finish(raw)
    if (read.kind === 'end_marker' || ('endsBatch' in read && read.endsBatch)) partition.close()
  }
}

async function open (
  deps: IntakeDeps, raw: RawMessage, { partition, keys }: Pick<Into, 'partition' | 'keys'>
): Promise<Opened> {
  if (raw.value === null || partition.isFinished(Number(raw.offset))) return { raw, skip: true }
  try {
    const value = await deps.codec.decode('feeds.submitted', raw.value) as FeedContact
    const { partner, isConfigured, clock } = deps
    const options = { partner, isConfigured, keys, nowMs: clock.now(), partition: raw.partition }
    return { raw, value, read: readContact(value, { ...options, offset: Number(raw.offset) }) }
  } catch (error) {
    if (isInfrastructure(error)) throw error
    return { raw, dead: 'undecodable' }
  }
}

/**
 * Skips a replayed contact, and a rejected one that its cursor has passed: that one was answered,
 * or became a row while its key or its time was still valid.
 */
function checkReplay (deps: IntakeDeps, one: Read, partition: Partition): Opened {
  const { raw, value, read } = one
  if (read.kind === 'end_marker') return one
  if (read.kind === 'wrong_partition') return skipReplay(deps, raw)
  const offset = Number(raw.offset)
  const verdict = read.stamp === undefined ? 'fresh' : partition.check(offset, read.stamp)
  if (verdict === 'replayed') return skipReplay(deps, raw)
  if (verdict === 'fresh' && read.kind === 'contact') return one
  if (partition.isPassed(contactTermsOf(value), offset)) return { raw, skip: true }
  if (verdict === 'fresh') return one
  const { endsBatch } = read
  return { raw, value, read: { kind: 'rejected', reason: 'too_many_senders', endsBatch } }
}

function skipReplay ({ metrics, onReplay, partner }: IntakeDeps, raw: RawMessage): Opened {
  metrics.count('feed_replays_total', {})
  onReplay({ partner, partition: raw.partition, offset: Number(raw.offset) })
  return { raw, skip: true }
}

/** Sends dead letters and rejections; retries until Kafka has acknowledged both. */
async function sendFailures (
  { deadLetters, rejections, partner, onRetry }: IntakeDeps,
  opened: readonly Opened[], { keys: [key], signal }: Into
): Promise<void> {
  const dead = opened.flatMap(one => 'dead' in one
    ? [{ raw: one.raw, reason: one.dead, cause: 'unreadable' as const }]
    : [])
  const rejected = opened.flatMap(one => 'read' in one && one.read.kind === 'rejected'
    ? [{ offset: Number(one.raw.offset), value: one.value, reason: one.read.reason }]
    : [])
  const target = { partner, key, partition: opened[0]?.raw.partition ?? 0 }
  const retrying = (action: () => Promise<void>) =>
    retryForever(action, { signal, when: isInfrastructure, onRetry })
  await retrying(() => deadLetters.send([dead], signal))
  await retrying(() => rejections.reject(target, rejected, signal))
}
