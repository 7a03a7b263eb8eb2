import { partitionHeadersIn } from '../kafka/partitioning.ts'
import {
  deadReasonOf, diedAgain, MISSING_KEY, replayOutcomes, type DeadLetter,
} from './dead-letters.ts'
import { decisionSpans } from './decision-spans.ts'
import { byJob, idsOf, messageFields } from './message-ids.ts'
import type { ProcessDeps, MessageBatch } from './batch.ts'
import type { Decision, Emission } from './stage.ts'

export type ApplyDecisions = (decisions: readonly Decision[], batch: MessageBatch) => Promise<void>

/**
 * Applies decisions: steps 4 to 7, each for all decisions together. Afterwards the offsets of their
 * messages may be committed.
 */
export function createApplyDecisions (deps: ProcessDeps): ApplyDecisions {
  const { stage, deadLetters, steps, onCompleted } = deps
  const apply = async (
    decisions: readonly Decision[], emits: readonly Emission[], batch: MessageBatch
  ) => {
    const { signal } = batch
    const letters = decisions.flatMap(({ completes, dead }) => dead === undefined
      ? []
      : [completes.map(({ raw }) => ({ raw, reason: dead, cause: 'decided' as const }))])
    deadLetters.checkLimit(letters)
    await produce(deps, emits, batch)
    // 6. Send dead letters and wait. After a crash a dead letter may exist twice, but never none.
    await steps.step(6, () => deadLetters.send(letters, signal), batch)
    // 7. Run actions that need all messages to be acknowledged. After a crash they are repeated.
    const waiting = new Set(decisions.flatMap(({ afterProduced }) => afterProduced ?? []))
    await steps.step(7, () => runAll(waiting), batch)
    // Report what became of replayed letters, once nothing can fail any more.
    const replays = decisions.flatMap(({ completes, dead, ignored }) =>
      completes.flatMap(({ raw }) => replayOutcomes(raw, outcomeOf(dead, ignored))))
    if (replays.length > 0) await steps.step(6, () => deadLetters.report(replays, signal), batch)
    for (const { completes, dead } of decisions) {
      for (const { raw } of completes) {
        batch.complete(raw)
        if (dead === undefined) onCompleted(raw)
      }
    }
    if (decisions.some(({ completes, dead }) => dead === undefined && completes.length > 0)) {
      deadLetters.reset()
    }
  }
  return async (given, batch) => {
    const decisions = given.map(decision => withPartitions(decision, batch))
    const { emits, around } = decisionSpans(stage.name, decisions, batch)
    await around(() => apply(decisions, emits, batch))
    logDecisions(deps, decisions)
  }
}

function outcomeOf (dead: string | undefined, ignored: string | undefined) {
  if (dead !== undefined) return diedAgain(dead)
  if (ignored !== undefined) return { action: 'ignored', reason: ignored } as const
  return { action: 'replayed', reason: 'taken' } as const
}

/** Emissions go to the partitions of their job, which its messages name. */
function withPartitions (
  decision: Decision, { deadLettered = [] }: Pick<MessageBatch, 'deadLettered'>
): Decision {
  const { completes, emits } = decision
  const sources = completes.length > 0 ? completes.map(({ raw }) => raw) : deadLettered
  const ofJobs = new Map([...byJob(sources)].map(([job, [first]]) =>
    [job, partitionHeadersIn(first?.headers ?? {})]))
  if ([...ofJobs.values()].every(isEmpty)) return decision
  return {
    ...decision,
    emits: emits.map(emission => {
      const { job = '' } = emission.value as { readonly job?: string }
      return { ...emission, partitions: ofJobs.get(job) ?? {} }
    }),
  }
}

const isEmpty = (headers: object) => Object.keys(headers).length === 0

/**
 * Logs one line per job of a decision: for dead letters always, with the position of the first
 * message, otherwise at level `debug`.
 */
function logDecisions ({ log }: ProcessDeps, decisions: readonly Decision[]): void {
  const isDebug = log.isLevelEnabled('debug')
  for (const { completes, dead } of decisions) {
    if (dead === undefined && !isDebug) continue
    for (const messages of byJob(completes.map(({ raw }) => raw)).values()) {
      const [first] = messages
      const about = { ...idsOf(messages), messages: messages.length }
      if (dead === undefined) log.debug(about, 'messages decided')
      else {
        log.error({ ...about, ...first && messageFields(first), reason: dead },
          'messages sent to the dead-letter topic')
      }
    }
  }
}

/** Messages sealed and sent per round, so that consumers start while the next round is sealed. */
const ROUND = 12

/** Resolves when all messages are acknowledged; rejects only after all pending sends have ended. */
async function produce (
  { emitter, steps }: ProcessDeps, emits: readonly Emission[], batch: MessageBatch
): Promise<void> {
  const pending: Promise<void>[] = []
  try {
    for (let from = 0; from === 0 || from < emits.length; from += ROUND) {
      // 4. Seal. A crash before the next step loses only work of this round.
      const sealed = await steps.step(4, () => emitter.seal(emits.slice(from, from + ROUND)), batch)
      // 5. Produce and wait for all acknowledgements. After a crash some messages are sent again;
      // their consumers count each row, entry and end of a job once.
      const sending = steps.step(5, () => emitter.send(sealed, batch.signal), batch)
      // It is awaited below and may reject before that.
      sending.catch(() => {})
      pending.push(sending)
    }
  } finally {
    await Promise.allSettled(pending)
  }
  await Promise.all(pending)
}

/** Runs all actions concurrently and removes those that succeed: a retry runs the others. */
async function runAll (waiting: Set<() => Promise<void>>): Promise<void> {
  const results = await Promise.allSettled([...waiting].map(async action => {
    await action()
    waiting.delete(action)
  }))
  const failed = results.find(result => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

/** Completes a message that can never be decided: emits for its rows, then sends a dead letter. */
export type DeadLetterBatch = (letter: DeadLetter, batch: MessageBatch) => Promise<void>

/**
 * The headers of a message name its rows; the emissions of the stage for them are sent before the
 * dead letter. If that fails too, only the dead letter is sent: the message must neither be lost
 * nor block others, and `ledger` fails its job later, as a stalled one. Without the key of its
 * organization nothing is emitted: the rows stay open for a replay.
 */
export function createDeadLetterBatch (
  { stage, deadLetters, steps, log }: ProcessDeps, applyDecisions: ApplyDecisions
): DeadLetterBatch {
  const emissionsOf = async (
    { raw, reason }: DeadLetter, batch: MessageBatch
  ): Promise<readonly Emission[]> =>
    steps.step(3, () => stage.resolveDead(raw.headers, { ...raw, reason }), batch)
  const resolve = async (letter: DeadLetter, batch: MessageBatch) => {
    try {
      const emits = await emissionsOf(letter, batch)
      await applyDecisions([{ completes: [], emits }], { ...batch, deadLettered: [letter.raw] })
    } catch (error) {
      // Throws what ends the delivery or the process.
      deadReasonOf(error, batch, letter.reason)
      log.error({ err: error, ...messageFields(letter.raw) }, 'rows of a dead letter not ' +
        'resolved; they stay open until ledger fails the job')
    }
  }
  return async (letter, given) => {
    const batch = { ...given, messages: [letter.raw] }
    deadLetters.checkLimit([[letter]])
    if (letter.reason !== MISSING_KEY) await resolve(letter, batch)
    await steps.step(6, () => deadLetters.send([[letter]], batch.signal), batch)
    const replays = replayOutcomes(letter.raw, diedAgain(letter.reason))
    if (replays.length > 0) {
      await steps.step(6, () => deadLetters.report(replays, batch.signal), batch)
    }
    batch.complete(letter.raw)
    const about = { ...messageFields(letter.raw), reason: letter.reason }
    log.error(about, 'message sent to the dead-letter topic')
  }
}
