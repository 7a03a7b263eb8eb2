import type { ReadsOf, StageName } from '../topology.ts'
import type { RawMessage } from '../kafka/bus.ts'
import { isInfrastructure } from '../platform/errors.ts'
import { createFairSlots } from '../platform/fair-slots.ts'
import { POISON } from './attempts.ts'
import { messageFields } from './message-ids.ts'
import {
  createApplyDecisions, createDeadLetterBatch, type ApplyDecisions, type DeadLetterBatch,
} from './apply-decisions.ts'
import { retry } from '../platform/retry.ts'
import type { ProcessDeps, MessageBatch } from './batch.ts'
import { deadReasonOf, replayOutcomes } from './dead-letters.ts'
import type { Decision, Incoming, Postponement, Decoded } from './stage.ts'
import { mayRetry } from './steps.ts'

type Outcome = Promise<Postponement | undefined>

export type Process = (messages: readonly RawMessage[], batch: MessageBatch) => Outcome

/** A consumer only gets topics that its stage reads. */
type Decodable = Incoming<ReadsOf<StageName>>

const TRIES = 3
const BACKOFF = { firstMs: 100, maxMs: 2_000 }

/**
 * Runs steps 1 to 7 for messages; the caller runs step 8. THE ORDER IS THE GUARANTEE: an effect
 * starts only after the effects before it are acknowledged. So everything that a crash interrupts
 * is repeated from step 1, and nothing is lost.
 */
export function createProcess (deps: ProcessDeps): Process {
  const { stage, steps, metrics, deadLetters } = deps
  const decode = createDecode(deps)
  const applyDecisions = createApplyDecisions(deps)
  const deadLetter = createDeadLetterBatch(deps, applyDecisions)
  const decide = createDecide(deps, applyDecisions, deadLetter)

  const decideAndClear = (run: Decodable[], batch: MessageBatch) => decide(run.splice(0), batch)

  return async (messages, given) => {
    const batch = { ...given, messages }
    const readable: Decodable[] = []
    const [first] = messages
    if (given.isPoison === true && first !== undefined && first.forged !== true) {
      await deadLetter({ raw: first, reason: POISON, cause: POISON }, batch)
      return undefined
    }
    // 1. and 2. Decode and decrypt all messages concurrently. A crash here has no effect.
    const decoded = await steps.step(1, () =>
      steps.step(2, () => Promise.all(messages.map(raw => decode(raw, batch))), batch), batch)
    for (const [index, one] of decoded.entries()) {
      const raw = messages[index] as RawMessage
      if (one.kind === 'message') readable.push(one.message as Decodable)
      if (one.kind === 'dead') {
        // Decides the messages before it first: the emissions for its rows may depend on them.
        const postponed = await decideAndClear(readable, batch)
        if (postponed !== undefined) return postponed
        await deadLetter({ raw, reason: one.reason, cause: 'unreadable' }, batch)
      }
      if (one.kind !== 'skip') continue
      metrics.count('stage_messages_skipped_total', { stage: stage.name, reason: one.why })
      const replays = replayOutcomes(raw, { action: 'ignored', reason: one.why })
      if (replays.length > 0) {
        await steps.step(6, () => deadLetters.report(replays, batch.signal), batch)
      }
      batch.complete(raw)
    }
    return decideAndClear(readable, batch)
  }
}

/** Steps 3 to 7. Finds the message that always fails and sends it to the dead-letter topic. */
function createDecide (
  deps: ProcessDeps, applyDecisions: ApplyDecisions, deadLetter: DeadLetterBatch
) {
  const { stage, steps, log } = deps
  const slots = stage.slots === undefined ? undefined : createFairSlots(stage.slots)
  const decideAndApply = async (messages: readonly Decodable[], batch: MessageBatch) => {
    // 3. Decide. After a crash the stage decides again, perhaps differently, because its state may
    // have changed; rows and money are counted once in any case.
    const startedMs = Date.now()
    const decided = await steps.step(3, () => stage.decide(messages, batch.signal), batch)
    await applyDecisions(decided.filter(isDecision), { ...batch, startedMs })
    return decided.filter(one => !isDecision(one)).reduce(earlier, undefined)
  }
  const attempt = (messages: readonly Decodable[], batch: MessageBatch) => {
    if (stage.slots === undefined || slots === undefined) return decideAndApply(messages, batch)
    return slots.run(stage.slots.of(messages), async () => {
      batch.signal.throwIfAborted()
      return await decideAndApply(messages, batch)
    })
  }

  const decide = async (messages: readonly Decodable[], batch: MessageBatch): Outcome => {
    const [first] = messages
    if (first === undefined) return undefined
    try {
      return await retryDecision(deps, () => attempt(messages, batch), batch)
    } catch (error) {
      const reason = deadReasonOf(error, batch, 'decision failed')
      if (messages.length === 1) {
        log.error({ err: error, ...messageFields(first.raw) },
          'decision failed: sending the message to the dead-letter topic')
        await deadLetter({ raw: first.raw, reason, cause: 'failed' }, batch)
        return undefined
      }
    }
    // One of several messages fails: decided one by one, it does not affect the others.
    for (const message of messages) {
      const postponed = await decide([message], batch)
      if (postponed !== undefined) return postponed
    }
    return undefined
  }
  return decide
}

/** Decodes a message. After failed retries, unless of infrastructure, it is unreadable. */
function createDecode (deps: ProcessDeps) {
  return async (raw: RawMessage, batch: MessageBatch): Promise<Decoded> => {
    if (raw.forged === true) return { kind: 'skip', why: 'forged' }
    try {
      return await retryDecision(deps, () => deps.messageCodec.decode(raw), batch)
    } catch (error) {
      if (isInfrastructure(error)) throw error
      const reason = deadReasonOf(error, batch, 'unreadable')
      deps.log.error({ err: error, ...messageFields(raw) },
        'decoding failed: sending the message to the dead-letter topic')
      return { kind: 'dead', reason }
    }
  }
}

/** Tries three times. Throws infrastructure errors at once: the step around it retries them. */
export function retryDecision<T> (
  { stage, metrics, sleep, random }: ProcessDeps, action: () => Promise<T>, batch: MessageBatch
): Promise<T> {
  const labels = { stage: stage.name, step: 'decide', cause: 'failure' }
  return retry(TRIES, action, {
    ...BACKOFF,
    ...sleep && { sleep },
    ...random && { random },
    signal: batch.signal,
    when: error => mayRetry(error, batch) && !isInfrastructure(error),
    onRetry: () => metrics.count('stage_retries_total', labels),
  })
}

function isDecision (one: Decision | Postponement): one is Decision {
  return 'completes' in one
}

/** The earlier postponement: redelivery from it includes the later ones. */
function earlier (known: Postponement | undefined, one: Decision | Postponement) {
  if (!('postpone' in one)) return known
  return known === undefined || one.postpone.raw.offset < known.postpone.raw.offset ? one : known
}
