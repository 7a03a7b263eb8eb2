import { FatalError, InfrastructureError } from '../lib/errors.ts'
import { failpoint } from '../lib/failpoint.ts'
import type { Stage } from '../lib/stage.ts'
import type { JournalCopy } from '../records/journal-copy.ts'

export type LedgerParts = {
  readonly journal: Pick<JournalCopy, 'append'>
  /** Messages handed to one call of `decide`. */
  readonly batch: number
}

/**
 * Copies the journal entry by entry. Entries come more than once and not always in order, and one
 * may never come: each is signed with its number, so that readers order them and find what is
 * missing, and no entry waits for another.
 */
export function createLedgerStage ({ journal, batch }: LedgerParts): Stage<'ledger'> {
  return {
    name: 'ledger',
    batch,
    decide: async messages => {
      try {
        await journal.append(messages.map(({ value }) => value))
      } catch (cause) {
        // Whatever it is: an entry that is given up would be missing in the copy for ever.
        throw new InfrastructureError('the copy of the journal cannot be written', { cause })
      }
      failpoint('ledger.appended')
      return [{ finishes: messages, emits: [] }]
    },
    whenDead: async () => {
      throw new FatalError('an entry of the journal cannot be read, and none may be left out')
    },
    forget: () => {},
  }
}
