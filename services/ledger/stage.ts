import type { Journal } from '../../schemas/types.ts'
import type { NumberedEntry } from '../accounts/access-log/access-log.ts'
import { FatalError, InfrastructureError } from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import {
  type Decision, type Emission, HeldMessages, type Incoming, type Stage,
} from '../runtime/engine/stage.ts'
import type { RawMessage } from '../runtime/kafka/bus.ts'
import { topicName } from '../runtime/platform/topics.ts'
import { type CopiedKey, createJobKeyCopy } from '../jobs/wrapped-keys.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import { type ReadsOf, topology, type Lane } from '../topology.ts'
import type { EventType } from '../../schemas/api/webhooks.ts'
import { lowBalanceOf } from '../jobs/job.ts'
import type { Connections } from '../runtime/engine/connections.ts'
import { batchWrites } from '../runtime/platform/batch-writes.ts'
import { termsOf } from './rebuild-jobs.ts'

type Append<T> = { readonly append: (items: readonly T[]) => Promise<unknown> }

type LedgerDeps = {
  readonly journal: Append<Journal>
  readonly keys: Append<CopiedKey>
  readonly access: Append<NumberedEntry>
  /** Redis time. */
  readonly clock: Clock
  /** Messages per call of `decide`, and those of a partition that are copied without delay. */
  readonly batch: number
  /** How long messages are collected for one insert. */
  readonly copyAfterMs: number
}

/**
 * Copies the journal, the wrapped data keys of jobs and the access log to ClickHouse. Entries
 * arrive more than once and out of order. Each is signed with its seq, so that readers can order
 * them and detect missing ones, and no entry waits for another. The same holds for keys. No client
 * waits for the copy, and each insert has a fixed cost: so messages are held, and their offsets are
 * committed once they are stored. Emits the events of accepted jobs to `jobs.events` at once.
 */
export function createLedgerStage (deps: LedgerDeps): Stage<'ledger'> {
  const { clock, batch, copyAfterMs } = deps
  const held = new HeldMessages<Incoming<Read>>()
  const copy = async (partition: Partition): Promise<Decision<'ledger'>> => {
    const messages = held.of(partition)
    await append(deps, messages)
    failpoint('ledger.appended')
    held.remove(messages.map(({ raw }) => raw))
    return { completes: messages, emits: [] }
  }
  return {
    name: 'ledger',
    batch,
    decide: async messages => {
      const nowMs = clock.now()
      for (const message of messages) held.add(message, nowMs)
      const emits = messages.filter(isOf('wallet.journal'))
        .flatMap(({ value }) => eventsOfEntry(value, nowMs))
      const [first] = messages
      if (first === undefined || held.of(first.raw).length < batch) {
        return [{ completes: [], emits }]
      }
      return [{ ...await copy(first.raw), emits }]
    },
    // All partitions are due together, so that they can share an insert.
    flushHeld: async partition =>
      held.of(partition).length > 0 && clock.now() - held.sinceMs() >= copyAfterMs
        ? [await copy(partition)]
        : [],
    resolveDead: async ({ tenant = 'unknown' }, { topic, partition, offset, reason }) => {
      // Readers find a key that is not copied in its topic.
      if (topic === topicName('job.keys')) return []
      throw new FatalError(`cannot decode ${topic}[${partition}] at offset ${offset} (tenant ` +
        `${tenant}, ${reason}): ledger stops, because a skipped entry would be missing in ` +
        'ClickHouse; see RestartLoop in the runbook')
    },
    forget: () => held.clear(),
  }
}

async function append (
  { journal, keys, access }: LedgerDeps, messages: readonly Incoming<Read>[]
): Promise<void> {
  const entries = messages.filter(isOf('wallet.journal')).map(({ value }) => value)
  const jobKeys = messages.filter(isOf('job.keys')).map(({ value, raw }) =>
    ({ ...value, createdMs: raw.timestampMs }))
  if (entries.length > 0) {
    await inserting(`${entries.length} journal entries`, () => journal.append(entries))
  }
  if (jobKeys.length > 0) {
    await inserting(`${jobKeys.length} job keys`, () => keys.append(jobKeys))
  }
  const actions = messages.filter(isOf('access.log')).map(({ value, raw }) =>
    ({ ...value, seq: Number(raw.offset) + 1 }))
  if (actions.length > 0) {
    await inserting(`${actions.length} entries of the access log`, () => access.append(actions))
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

type Partition = Pick<RawMessage, 'topic' | 'partition'>

type Read = ReadsOf<'ledger'>

const isOf = <T extends Read>(topic: T) =>
  (message: Incoming<Read>): message is Incoming<T> => message.topic === topic

/** An older entry is read again, long after its events were sent. */
const MAX_AGE_MS = topology.topics['jobs.events'].keepHours * 3_600_000

/**
 * The events that the reservation of a job causes: `job.accepted` if an endpoint was subscribed to
 * it, and `balance.low` if it took the available balance below the threshold. Both follow from the
 * entry alone, which the script that moved the money wrote and which reaches the journal whatever
 * crashes; so an event is never lost, and a repeated entry repeats the same event.
 */
function eventsOfEntry (
  entry: Journal, nowMs: number
): readonly Emission<'jobs.events'>[] {
  if (entry.type !== 'reserve' || entry.at < nowMs - MAX_AGE_MS) return []
  const { lane, events = '', lowBalanceMicros } = termsOf(entry)
  const low = lowBalanceMicros === undefined
    ? undefined
    : lowBalanceOf({
      thresholdMicros: Number(lowBalanceMicros),
      reservedMicros: entry.amountMicros,
      availableMicros: entry.availableMicros,
    })
  const types: EventType[] = [
    ...events.split(' ').includes('job.accepted') ? ['job.accepted'] as const : [],
    ...low === undefined ? [] : ['balance.low'] as const,
  ]
  const { tenant, job, at } = entry
  return types.map(type => ({
    topic: 'jobs.events',
    lane: lane as Lane,
    value: { tenant, job, type, tenth: 0, at },
    rows: undefined,
  }))
}

/** The tables that the stage copies to; the partitions of a topic share an insert. */
export function openCopies (
  { journal, accessCopy, accessHead, clickhouse, recordMac }:
  Pick<Connections, 'clickhouse' | 'recordMac'> & {
    readonly journal: Append<Journal>
    readonly accessCopy: Append<NumberedEntry>
    readonly accessHead: { readonly advance: (seq: number) => Promise<unknown> }
  }
): Pick<LedgerDeps, 'journal' | 'keys' | 'access'> {
  return {
    journal: { append: batchWrites(journal.append) },
    keys: { append: batchWrites(createJobKeyCopy(clickhouse, recordMac).append) },
    access: {
      append: async entries => {
        await accessCopy.append(entries)
        await accessHead.advance(Math.max(...entries.map(({ seq }) => seq)))
      },
    },
  }
}
