import type { DeadLetter } from './dead-letters.ts'
import { FatalError } from './errors.ts'
import { idsOf } from './message-ids.ts'
import type { Perform } from './perform.ts'
import type { ProcessParts, Slice } from './slice.ts'
import type { Emission } from './stage.ts'

/** Ends a message that can never be decided: what its stage emits for its rows, then the letter. */
export type Bury = (letter: DeadLetter, slice: Slice) => Promise<void>

/**
 * The rows of a dead message are known by its headers; what the stage says of them goes out before
 * the letter. If even that fails, the letter alone is written: the message must not be lost, nor
 * stop all others, and whoever watches over what is left open finds its rows later.
 */
export function createBury (
  { stage, deadLetters, steps, log }: ProcessParts, perform: Perform
): Bury {
  const emissionsOf = async ({ raw }: DeadLetter, slice: Slice): Promise<readonly Emission[]> =>
    steps.step(3, () => stage.whenDead(raw.headers, raw.topic), slice)
  return async (letter, given) => {
    const slice = { ...given, messages: [letter.raw] }
    const about = { ...idsOf([letter.raw]), offset: String(letter.raw.offset) }
    deadLetters.admit([[letter]])
    try {
      const emits = await emissionsOf(letter, slice)
      await perform([{ finishes: [], emits }], { ...slice, buried: [letter.raw] })
    } catch (error) {
      if (slice.signal.aborted || error instanceof FatalError) throw error
      log.error({ err: error, ...about }, 'nothing was emitted for a dead message')
    }
    await steps.step(6, () => deadLetters.send([[letter]], slice.signal), slice)
    slice.finish(letter.raw)
    log.error({ ...about, reason: letter.reason }, 'a message is a dead letter')
  }
}
