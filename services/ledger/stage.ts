import { FatalError, InfrastructureError } from '../platform/errors.ts'
import { failpoint } from '../platform/failpoint.ts'
import type { Incoming, Stage } from '../engine/stage.ts'
import { topicName } from '../platform/topics.ts'
import type { JobKeyCopy } from '../jobs/job-key-copy.ts'
import type { JournalCopy } from '../money/journal-copy.ts'
import type { ReadsOf } from '../topology.ts'

export type LedgerDeps = {
  readonly journal: Pick<JournalCopy, 'append'>
  readonly keys: Pick<JobKeyCopy, 'append'>
  /** Messages handed to one call of `decide`. */
  readonly batch: number
}

/**
 * Copies the journal and the wrapped data keys of jobs to ClickHouse. Entries come more than once
 * and not always in order, and one may never come: each is signed with its number, so that readers
 * order them and find what is missing, and no entry waits for another. So are keys: each row of a
 * job opens it.
 */
export function createLedgerStage ({ journal, keys, batch }: LedgerDeps): Stage<'ledger'> {
  return {
    name: 'ledger',
    batch,
    decide: async messages => {
      try {
        await journal.append(messages.filter(isOf('wallet.journal')).map(({ value }) => value))
        await keys.append(messages.filter(isOf('job.keys')).map(({ value, raw }) =>
          ({ ...value, createdMs: raw.timestampMs })))
      } catch (cause) {
        // Whatever it is: an entry that is given up would be missing in the copy for ever.
        throw new InfrastructureError('the copies of journal and keys cannot be written', { cause })
      }
      failpoint('ledger.appended')
      return [{ completes: messages, emits: [] }]
    },
    whenDead: async (_headers, topic) => {
      // A key that is not copied is still found in its topic.
      if (topic === topicName('job.keys')) return []
      throw new FatalError('an entry of the journal cannot be read, and none may be left out')
    },
    forget: () => {},
  }
}

type Read = ReadsOf<'ledger'>

const isOf = <T extends Read>(topic: T) =>
  (message: Incoming<Read>): message is Incoming<T> => message.topic === topic
