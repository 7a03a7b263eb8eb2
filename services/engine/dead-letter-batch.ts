import type { DeadLetter } from './dead-letters.ts'
import { FatalError } from '../platform/errors.ts'
import { messageFields } from './message-ids.ts'
import type { ApplyDecisions } from './apply-decisions.ts'
import type { ProcessDeps, Batch } from './batch.ts'
import type { Emission } from './stage.ts'

/** Completes a message that can never be decided: emits for its rows, then sends a dead letter. */
export type DeadLetterBatch = (letter: DeadLetter, batch: Batch) => Promise<void>

/**
 * The headers of a message name its rows; the emissions of the stage for them are sent before the
 * dead letter. If that fails too, only the dead letter is sent: the message must neither be lost
 * nor block others, and the reaper of stalled jobs handles its rows later.
 */
export function createDeadLetterBatch (
  { stage, deadLetters, steps, log }: ProcessDeps, applyDecisions: ApplyDecisions
): DeadLetterBatch {
  const emissionsOf = async (
    { raw, reason }: DeadLetter, batch: Batch
  ): Promise<readonly Emission[]> =>
    steps.step(3, () => stage.whenDead(raw.headers, { ...raw, reason }), batch)
  return async (letter, given) => {
    const batch = { ...given, messages: [letter.raw] }
    const about = messageFields(letter.raw)
    deadLetters.checkLimit([[letter]])
    try {
      const emits = await emissionsOf(letter, batch)
      await applyDecisions([{ completes: [], emits }], { ...batch, deadLettered: [letter.raw] })
    } catch (error) {
      if (batch.signal.aborted || error instanceof FatalError) throw error
      log.error({ err: error, ...about }, 'rows of a dead letter not resolved; they stay open ' +
        'until the reaper fails the job')
    }
    await steps.step(6, () => deadLetters.send([[letter]], batch.signal), batch)
    batch.complete(letter.raw)
    log.error({ ...about, reason: letter.reason }, 'message sent to the dead-letter topic')
  }
}
