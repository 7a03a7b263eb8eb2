import type { ReadsOf, StageName } from '../topology.ts'
import type { RawMessage } from '../kafka/bus.ts'
import { createDeadLetterBatch, type DeadLetterBatch } from './dead-letter-batch.ts'
import { FatalError, isInfrastructure } from '../platform/errors.ts'
import { idsOf } from './message-ids.ts'
import { createApplyDecisions, type ApplyDecisions } from './apply-decisions.ts'
import { retry } from '../platform/retry.ts'
import type { ProcessDeps, Batch } from './batch.ts'
import type { Decision, Incoming, Postponement } from './stage.ts'
import type { At } from './steps.ts'
import type { Decoded } from './wire.ts'

type Outcome = Promise<Postponement | undefined>

export type Process = (messages: readonly RawMessage[], batch: Batch) => Outcome

/** What a consumer gets of its topics is what its stage reads. */
type Readable = Incoming<ReadsOf<StageName>>

const TRIES = 3
const BACKOFF = { firstMs: 100, maxMs: 2_000 }

/**
 * Takes messages through the steps 1 to 7; the caller does step 8. THE ORDER IS THE GUARANTEE: an
 * effect is begun only after those before it are acknowledged, so whatever a crash interrupts is
 * done again from step 1, and nothing is left out.
 */
export function createProcess (deps: ProcessDeps): Process {
  const { stage, steps, metrics } = deps
  const open = createOpen(deps)
  const perform = createApplyDecisions(deps)
  const bury = createDeadLetterBatch(deps, perform)
  const decide = createDecide(deps, perform, bury)

  const decideAndClear = (run: Readable[], batch: Batch) => decide(run.splice(0), batch)

  return async (messages, given) => {
    const batch = { ...given, messages }
    const readable: Readable[] = []
    // 1. and 2. Decode and open: one call of the wire for each message, all at once, in order. A
    // crash: nothing has happened yet.
    const opened = await steps.step(1, () =>
      steps.step(2, () => Promise.all(messages.map(raw => open(raw, batch))), batch), batch)
    for (const [index, one] of opened.entries()) {
      const raw = messages[index] as RawMessage
      if (one.kind === 'message') readable.push(one.message as Readable)
      if (one.kind === 'dead') {
        // What came before it is decided before it: what is said of its rows may follow from that.
        const postponed = await decideAndClear(readable, batch)
        if (postponed !== undefined) return postponed
        await bury({ raw, reason: one.reason, cause: 'unreadable' }, batch)
      }
      if (one.kind !== 'skip') continue
      metrics.count('stage_messages_skipped_total', { stage: stage.name, reason: one.why })
      batch.finish(raw)
    }
    return decideAndClear(readable, batch)
  }
}

/** Step 3, and with it the steps up to 7; a message that always fails is found and buried. */
function createDecide (deps: ProcessDeps, perform: ApplyDecisions, bury: DeadLetterBatch) {
  const { stage, steps, log } = deps
  const attempt = async (messages: readonly Readable[], batch: Batch) => {
    // 3. Decide. A crash here or after: the stage is asked again and, as its state may have moved
    // on, may decide otherwise; rows and money are counted once whatever it says.
    const startedMs = Date.now()
    const decided = await steps.step(3, () => stage.decide(messages, batch.signal), batch)
    await perform(decided.filter(isDecision), { ...batch, startedMs })
    return decided.filter(one => !isDecision(one)).reduce(earlier, undefined)
  }

  const decide = async (messages: readonly Readable[], batch: Batch): Outcome => {
    const [first] = messages
    if (first === undefined) return undefined
    try {
      return await tries(deps, () => attempt(messages, batch), batch)
    } catch (error) {
      if (!isNonRetriable(error, batch)) throw error
      if (messages.length === 1) {
        log.error({ err: error, ...placed(first.raw) }, 'a message cannot be decided')
        await bury({ raw: first.raw, reason: 'decision failed', cause: 'failed' }, batch)
        return undefined
      }
    }
    // One of several messages is at fault: alone, it cannot take the others with it.
    for (const message of messages) {
      const postponed = await decide([message], batch)
      if (postponed !== undefined) return postponed
    }
    return undefined
  }
  return decide
}

const placed = (raw: RawMessage) => ({ ...idsOf([raw]), offset: String(raw.offset) })

/** Opens a message; whatever keeps failing on it, but for infrastructure, makes it unreadable. */
function createOpen (deps: ProcessDeps) {
  return async (raw: RawMessage, batch: Batch): Promise<Decoded> => {
    if (raw.forged === true) return { kind: 'skip', why: 'forged' }
    try {
      return await tries(deps, () => deps.wire.decode(raw), batch)
    } catch (error) {
      if (isInfrastructure(error) || !isNonRetriable(error, batch)) throw error
      deps.log.error({ err: error, ...placed(raw) }, 'a message cannot be read')
      return { kind: 'dead', reason: 'unreadable' }
    }
  }
}

/** Three tries; broken infrastructure is thrown at once, as the step around it waits for it. */
export function tries<T> (
  { stage, metrics, sleep, random }: ProcessDeps, action: () => Promise<T>, batch: Batch
): Promise<T> {
  const labels = { stage: stage.name, step: 'decide', cause: 'failure' }
  return retry(TRIES, action, {
    ...BACKOFF,
    ...sleep && { sleep },
    ...random && { random },
    signal: batch.signal,
    when: error => isNonRetriable(error, batch) && !isInfrastructure(error),
    onRetry: () => metrics.count('stage_retries_total', labels),
  })
}

/** A failure that is neither the end of this delivery nor of this process. */
export function isNonRetriable (error: unknown, { signal }: At): boolean {
  return !signal.aborted && !(error instanceof FatalError)
}

function isDecision (one: Decision | Postponement): one is Decision {
  return 'finishes' in one
}

/** The earliest message to be handed over again; those behind it come with it. */
function earlier (known: Postponement | undefined, one: Decision | Postponement) {
  if (!('postpone' in one)) return known
  return known === undefined || one.postpone.raw.offset < known.postpone.raw.offset ? one : known
}
