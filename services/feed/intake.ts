import type { FeedContact } from '../../schemas/types.ts'
import type { PartnerKeys } from '../accounts/partners.ts'
import type { ConsumeOptions, FetchedBatch, RawMessage } from '../runtime/kafka/bus.ts'
import type { Clock } from '../runtime/platform/clock.ts'
import { REPLAY_OF, type MessageMac } from '../runtime/kafka/message-mac.ts'
import {
  diedAgain, type DeadLetters, type ReplayOutcome,
} from '../runtime/engine/dead-letters.ts'
import { isInfrastructure } from '../runtime/platform/errors.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { OPEN_GATE, type Gate } from '../runtime/engine/pause.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import { retryForever } from '../runtime/platform/retry.ts'
import { yieldToEventLoop } from '../runtime/platform/event-loop.ts'
import {
  readContact, contactTermsOf, type ReadContact, type ContactReadOptions, type Rejections,
} from './contact.ts'
import type { Partition } from './partition.ts'

export type IntakeDeps = Pick<ContactReadOptions, 'partner' | 'isConfigured'> & {
  /** The partner's keys that have not expired now. */
  readonly keys: () => Promise<PartnerKeys>
  readonly clock: Pick<Clock, 'now'>
  readonly codec: Pick<Codec, 'decode'>
  readonly deadLetters: Pick<DeadLetters, 'send' | 'report'>
  /** Whether an operator has replayed a message; nothing that a partner writes is a replay. */
  readonly isReplay: MessageMac['isReplay']
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

/** A message that an operator replays: whose letter it is of, and when that was. */
type Replay = {
  readonly letter: string
  /** The offset of the first message of the contact. */
  readonly offset: number
  readonly deadAtMs: number
  readonly atMs: number
}
type Message = { readonly raw: RawMessage, readonly replay: Replay | undefined }
type Read = Message & { readonly value: FeedContact, readonly read: ReadContact }
/** `skip`: what became of the message, for the report of a replay; none if that was reported. */
type Opened = Read | Message & { readonly dead: string } |
  Message & { readonly skip: Pick<ReplayOutcome, 'action' | 'reason'> | undefined }
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
  await partition.addDead(
    checked.flatMap(one => 'dead' in one ? [Number(one.raw.offset)] : []))
  for (const one of checked) {
    metrics.count('stage_chunks_total', { stage: 'feed', lane: '', service: '' })
    if (!('read' in one)) {
      partition.finish(one.raw, outcomeOf(one))
      continue
    }
    const { read, raw, replay } = one
    if (read.kind === 'contact') partition.take(read.contact, read.terms, replay?.letter)
    else partition.finish(raw, outcomeOf(one))
    if (read.kind === 'end_marker' || ('endsBatch' in read && read.endsBatch)) partition.close()
  }
}

/** The outcome of a finished message that is no contact of a job, if it is a replay. */
function outcomeOf (one: Opened): ReplayOutcome | undefined {
  const { replay } = one
  if (replay === undefined) return undefined
  const result = 'dead' in one ? diedAgain(one.dead) : 'skip' in one ? one.skip : answerOf(one.read)
  return result && { ...result, letter: replay.letter }
}

function answerOf (read: ReadContact) {
  const reason = read.kind === 'rejected' ? `answered: ${read.reason}` : 'taken'
  return { action: 'replayed', reason } as const
}

async function open (
  deps: IntakeDeps, raw: RawMessage, { partition, keys }: Pick<Into, 'partition' | 'keys'>
): Promise<Opened> {
  const replay = readReplay(deps, raw)
  if (raw.value === null) return { raw, replay, skip: IGNORED.empty }
  const offset = Number(raw.offset)
  if (partition.isFinished(offset)) return { raw, replay, skip: undefined }
  if (partition.isDead(offset)) return { raw, replay, skip: diedAgain(UNDECODABLE) }
  try {
    const value = await deps.codec.decode('feeds.submitted', raw.value) as FeedContact
    const { partner, isConfigured, clock } = deps
    const options = {
      partner,
      isConfigured,
      keys,
      // A letter may wait for longer than a contact is accepted.
      nowMs: replay?.deadAtMs ?? clock.now(),
      partition: raw.partition,
      offset,
      answers: replay?.offset,
    }
    return { raw, replay, value, read: readContact(value, options) }
  } catch (error) {
    if (isInfrastructure(error)) throw error
    return { raw, replay, dead: UNDECODABLE }
  }
}

const UNDECODABLE = 'undecodable'
/** A signature is valid for as long as the log may be read again, like the time of a contact. */
const MAX_REPLAY_AGE_MS = 8 * 86_400_000

function readReplay ({ isReplay, clock }: IntakeDeps, raw: RawMessage): Replay | undefined {
  if (!isReplay(raw)) return undefined
  const { headers } = raw
  const replay = {
    letter: headers[REPLAY_OF] ?? '',
    offset: Number(headers['replay_offset']),
    deadAtMs: Number(headers['replay_dead_at']),
    atMs: Number(headers['replay_at']),
  }
  const isComplete = [replay.offset, replay.deadAtMs, replay.atMs].every(Number.isSafeInteger)
  return isComplete && clock.now() - replay.atMs < MAX_REPLAY_AGE_MS ? replay : undefined
}

const ignored = (reason: string) => ({ action: 'ignored', reason } as const)
const IGNORED = {
  empty: ignored('the message is empty'),
  taken: ignored('an earlier replay of the contact was taken'),
  elsewhere: ignored('the contact was sent to another partition'),
}

/**
 * Skips a replayed contact, and a rejected one that its cursor has passed: that one was answered,
 * or became a row while its key or its time was still valid.
 */
function checkReplay (deps: IntakeDeps, one: Read, partition: Partition): Opened {
  const { raw, replay, value, read } = one
  if (read.kind === 'end_marker') return one
  if (read.kind === 'wrong_partition') return skipReplay(deps, one, IGNORED.elsewhere)
  const offset = Number(raw.offset)
  const verdict = checkStamp(one, partition)
  if (verdict === 'replayed') return skipReplay(deps, one, IGNORED.taken)
  if (verdict === 'fresh' && read.kind === 'contact') return one
  if (partition.isPassed(contactTermsOf(value), offset)) {
    return { raw, replay, skip: { action: 'replayed', reason: 'taken' } }
  }
  if (verdict === 'fresh') return one
  const { endsBatch } = read
  return { raw, replay, value, read: { kind: 'rejected', reason: 'too_many_senders', endsBatch } }
}

function checkStamp ({ raw, replay, read }: Read, partition: Partition) {
  const stamp = 'stamp' in read ? read.stamp : undefined
  if (stamp === undefined) return 'fresh'
  const offset = Number(raw.offset)
  return replay === undefined
    ? partition.check(offset, stamp)
    : partition.checkReplay(offset, stamp, replay.atMs)
}

function skipReplay (
  { metrics, onReplay, partner }: IntakeDeps, { raw, replay }: Message,
  skip: Pick<ReplayOutcome, 'action' | 'reason'>
): Opened {
  metrics.count('feed_replays_total', {})
  onReplay({ partner, partition: raw.partition, offset: Number(raw.offset) })
  return { raw, replay, skip }
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
    ? [{
        offset: one.replay?.offset ?? Number(one.raw.offset),
        value: one.value,
        reason: one.read.reason,
      }]
    : [])
  const target = { partner, key, partition: opened[0]?.raw.partition ?? 0 }
  const retrying = (action: () => Promise<void>) =>
    retryForever(action, { signal, when: isInfrastructure, onRetry })
  await retrying(() => deadLetters.send([dead], signal))
  await retrying(() => rejections.reject(target, rejected, signal))
}
