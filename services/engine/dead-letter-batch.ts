import type { DeadLetter } from './dead-letters.ts'
import { FatalError } from '../platform/errors.ts'
import { idsOf } from './message-ids.ts'
import type { ApplyDecisions } from './apply-decisions.ts'
import type { ProcessDeps, Batch } from './batch.ts'
import type { Emission } from './stage.ts'

/** Ends a message that can never be decided: what its stage emits for its rows, then the letter. */
export type DeadLetterBatch = (letter: DeadLetter, batch: Batch) => Promise<void>

/**
 * The rows of a dead message are known by its headers; what the stage says of them goes out before
 * the letter. If even that fails, the letter alone is written: the message must not be lost, nor
 * stop all others, and whoever watches over what is left open finds its rows later.
 */
export function createDeadLetterBatch (
  { stage, deadLetters, steps, log }: ProcessDeps, perform: ApplyDecisions
): DeadLetterBatch {
  const emissionsOf = async ({ raw }: DeadLetter, batch: Batch): Promise<readonly Emission[]> =>
    steps.step(3, () => stage.whenDead(raw.headers, raw.topic), batch)
  return async (letter, given) => {
    const batch = { ...given, messages: [letter.raw] }
    const about = { ...idsOf([letter.raw]), offset: String(letter.raw.offset) }
    deadLetters.admit([[letter]])
    try {
      const emits = await emissionsOf(letter, batch)
      await perform([{ finishes: [], emits }], { ...batch, buried: [letter.raw] })
    } catch (error) {
      if (batch.signal.aborted || error instanceof FatalError) throw error
      log.error({ err: error, ...about }, 'nothing was emitted for a dead message')
    }
    await steps.step(6, () => deadLetters.send([[letter]], batch.signal), batch)
    batch.finish(letter.raw)
    log.error({ ...about, reason: letter.reason }, 'a message is a dead letter')
  }
}
