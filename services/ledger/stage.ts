import { FatalError, InfrastructureError } from '../platform/errors.ts'
import { failpoint } from '../platform/failpoint.ts'
import type { Incoming, Stage } from '../engine/stage.ts'
import { topicName } from '../platform/topics.ts'
import type { JobKeyCopy } from '../jobs/job-key-copy.ts'
import type { Clock } from '../platform/clock.ts'
import type { JournalCopy } from '../money/journal-copy.ts'
import type { ReadsOf } from '../topology.ts'
import { eventsOfEntry } from './job-events.ts'

export type LedgerDeps = {
  readonly journal: Pick<JournalCopy, 'append'>
  readonly keys: Pick<JobKeyCopy, 'append'>
  /** Redis time. */
  readonly clock: Clock
  /** Messages per call of `decide`. */
  readonly batch: number
}

/**
 * Copies the journal and the wrapped data keys of jobs to ClickHouse. Entries arrive more than once
 * and out of order. Each is signed with its seq, so that readers can order them and detect missing
 * ones, and no entry waits for another. The same holds for keys. Emits the events of accepted jobs
 * to `jobs.events`.
 */
export function createLedgerStage ({ journal, keys, clock, batch }: LedgerDeps): Stage<'ledger'> {
  return {
    name: 'ledger',
    batch,
    decide: async messages => {
      const entries = messages.filter(isOf('wallet.journal')).map(({ value }) => value)
      const jobKeys = messages.filter(isOf('job.keys')).map(({ value, raw }) =>
        ({ ...value, createdMs: raw.timestampMs }))
      await inserting(`${entries.length} journal entries`, () => journal.append(entries))
      await inserting(`${jobKeys.length} job keys`, () => keys.append(jobKeys))
      failpoint('ledger.appended')
      const nowMs = clock.now()
      return [{ completes: messages, emits: entries.flatMap(it => eventsOfEntry(it, nowMs)) }]
    },
    resolveDead: async ({ tenant = 'unknown' }, { topic, partition, offset, reason }) => {
      // Readers find a key that is not copied in its topic.
      if (topic === topicName('job.keys')) return []
      throw new FatalError(`cannot decode ${topic}[${partition}] at offset ${offset} (tenant ` +
        `${tenant}, ${reason}): ledger stops, because a skipped entry would be missing in ` +
        'ClickHouse; see RestartLoop in the runbook')
    },
    forget: () => {},
  }
}

/** Retried without end, as a dropped entry would be missing in the copy for ever. */
async function inserting (what: string, insert: () => Promise<unknown>): Promise<void> {
  try {
    await insert()
  } catch (cause) {
    throw new InfrastructureError(`insert of ${what} into ClickHouse failed`, { cause })
  }
}

type Read = ReadsOf<'ledger'>

const isOf = <T extends Read>(topic: T) =>
  (message: Incoming<Read>): message is Incoming<T> => message.topic === topic
