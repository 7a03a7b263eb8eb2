import { BEGINNING, type CursorPositions } from '../jobs/cursors.ts'
import type { FetchedBatch, RawMessage } from '../runtime/kafka/bus.ts'
import { InconsistencyError } from '../runtime/platform/errors.ts'
import { createCapacity, type Capacity } from '../runtime/platform/limits.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { ReplayOutcome } from '../runtime/engine/dead-letters.ts'
import { Offsets } from '../runtime/engine/offsets.ts'
import { cursorNameOf, type Contact, type Terms } from './contact.ts'
import { createCursor, type Cursor, type CursorDeps, type PassedBy } from './cursor.ts'
import {
  createReplayGuard, type Marks, type ReplayGuard, type ReplayGuardDeps,
} from './replay-guard.ts'

export type PartitionDeps =
  Pick<
    CursorDeps, 'batchLimits' | 'submit' | 'failContact' | 'pause' | 'fail' | 'now' | 'sleep'
  > & {
    readonly topicPartition: { readonly topic: string, readonly partition: number }
    /** Aborted when the partition is lost, or the partner is paused or has failed. */
    readonly signal: AbortSignal
    /** The offsets of the stored cursors; waits until Redis answers. */
    readonly positions: () => Promise<CursorPositions>
    /** The stored marks of the partition; both wait until Redis answers. */
    readonly marks: {
      readonly read: () => Promise<Marks>
      readonly write: ReplayGuardDeps['write']
      readonly writeDead: ReplayGuardDeps['writeDead']
    }
    /** Records what became of replayed letters; waits until Kafka has acknowledged it. */
    readonly reportReplays: (outcomes: readonly ReplayOutcome[]) => Promise<void>
    readonly clock: { readonly now: ReplayGuardDeps['now'] }
    /** The memory for contacts of all partners. */
    readonly buffered: Capacity
  }

/** Messages of one partition of a partner, from its opening until the signal is aborted. */
export type Partition = Pick<ReplayGuard, 'check' | 'checkReplay' | 'isDead' | 'addDead'> & {
  /**
   * The offset to read from instead, if the first delivery does not start at the end of the stored
   * marks. Before it everything is finished; after it the log rebuilds lost marks. Undefined from
   * the second delivery on, because the log itself may have gaps.
   */
  readonly seekTo: (first: bigint) => bigint | undefined
  /** Whether a message was finished before the partition was opened. */
  readonly isFinished: (offset: number) => boolean
  /** Whether the cursor of these terms had passed the offset when the partition was opened. */
  readonly isPassed: (terms: Parameters<typeof cursorNameOf>[0], offset: number) => boolean
  /** Adds the unfinished messages of a delivery, and its way to commit. */
  readonly begin: (delivery: FetchedBatch) => void
  /** `letter`: the position of the letter whose replay the contact is. */
  readonly take: (contact: Contact, terms: Terms, letter?: string) => void
  /** Marks a message as finished, with its outcome if it is the replay of a letter. */
  readonly finish: (raw: Pick<RawMessage, 'offset'>, outcome?: ReplayOutcome) => void
  /** Closes the batches of all cursors. */
  readonly close: () => void
  /** Resolves once the memory has capacity for more contacts. */
  readonly untilFree: () => Promise<void>
  /** Commits the offsets that all cursors have passed. */
  readonly commit: () => Promise<void>
}

/** One batch collects contacts while the other one waits for its preflight. */
const BUFFERED_BATCHES = 2

/**
 * Gives each contact to its cursor. It commits offsets only up to the first contact that its cursor
 * has not passed, so that the next process reads again what a crash loses. That process finishes
 * contacts that a cursor has passed at once.
 */
export async function createPartition (deps: PartitionDeps): Promise<Partition> {
  const { signal, buffered } = deps
  const own = createCapacity(deps.batchLimits.contacts * BUFFERED_BATCHES)
  const cursors = new Map<string, Cursor>()
  const { read, write, writeDead } = deps.marks
  const guard =
    createReplayGuard({ marks: await read(), write, writeDead, now: deps.clock.now })
  const commits = createCommits(deps, guard)
  const positions = await deps.positions()
  let isFirst = true
  /** By offset, the letters of replayed contacts that no job has yet. */
  const letters = new Map<number, string>()
  const passed = (contacts: readonly Contact[], by: PassedBy) => {
    if (signal.aborted || contacts.length === 0) return
    for (const { offset } of contacts) {
      const letter = letters.get(offset)
      letters.delete(offset)
      commits.finish(BigInt(offset), letter === undefined ? undefined : passedOutcome(letter, by))
    }
    buffered.release(contacts.length)
    own.release(contacts.length)
    commits.commit().catch(deps.fail)
  }
  const cursorOf = (terms: Terms): Cursor => {
    const name = cursorNameOf(terms)
    const known = cursors.get(name)
    if (known !== undefined) return known
    const position = positions.get(name) ?? BEGINNING
    const reread = async () => (await deps.positions()).get(name) ?? BEGINNING
    const created = createCursor({ ...deps, cursor: name, terms, position, reread, passed })
    cursors.set(name, created)
    return created
  }
  signal.addEventListener('abort', () => buffered.release(own.used()), { once: true })

  return {
    check: guard.check,
    checkReplay: guard.checkReplay,
    isDead: guard.isDead,
    addDead: guard.addDead,
    seekTo: first => {
      const next = BigInt(guard.finishedTo) + 1n
      const isElsewhere = isFirst && first !== next
      isFirst = false
      return isElsewhere ? next : undefined
    },
    isFinished: offset => offset <= guard.finishedTo,
    isPassed: (terms, offset) => offset <= (positions.get(cursorNameOf(terms)) ?? BEGINNING),
    begin: commits.begin,
    take: (contact, terms, letter) => {
      if (signal.aborted) return
      if (!cursorOf(terms).add(contact)) {
        const outcome = letter === undefined ? undefined : passedOutcome(letter, {})
        return commits.finish(BigInt(contact.offset), outcome)
      }
      if (letter !== undefined) letters.set(contact.offset, letter)
      buffered.take(1)
      own.take(1)
    },
    finish: (raw, outcome) => commits.finish(raw.offset, outcome),
    close: () => { for (const cursor of cursors.values()) cursor.close() },
    untilFree: async () => {
      await own.untilFree(signal)
      // Another partition has as much memory again, however many contacts this one has.
      await buffered.untilFree(signal, own.used)
    },
    commit: commits.commit,
  }
}

function passedOutcome (letter: string, by: PassedBy): ReplayOutcome {
  return 'answer' in by
    ? { letter, action: 'replayed', reason: `answered: ${by.answer}` }
    : { letter, action: 'replayed', reason: 'taken by a job', job: by.job }
}

/**
 * Commits one offset after another, each as far as all messages below it are finished. The marks
 * are stored first: a message that Kafka does not deliver again must have left its mark, and the
 * outcome of a replay must be recorded by then.
 */
function createCommits (
  { topicPartition, signal, fail, reportReplays }:
  Pick<PartitionDeps, 'topicPartition' | 'signal' | 'fail' | 'reportReplays'>,
  guard: Pick<ReplayGuard, 'save'>
) {
  const outcomes = new Map<bigint, ReplayOutcome>()
  const offsets = new Offsets()
  let commitOffset: FetchedBatch['commit'] = () => {}
  let committing: Promise<void> = Promise.resolve()
  const commitNow = async () => {
    const offset = offsets.committable(topicPartition)
    if (offset === undefined || signal.aborted) return
    const reported = [...outcomes].filter(([finished]) => finished < offset)
    if (reported.length > 0) await reportReplays(reported.map(([, outcome]) => outcome))
    for (const [finished] of reported) outcomes.delete(finished)
    failpoint('feed.committing')
    if (!await guard.save(Number(offset) - 1)) {
      const { topic, partition } = topicPartition
      return fail(new InconsistencyError('Redis has lost the replay-guard state of ' +
        `${topic}[${partition}]; feed rebuilds it by rereading the partition from its beginning`))
    }
    commitOffset(offset)
    offsets.committed(topicPartition, offset)
  }
  return {
    begin: (delivery: FetchedBatch) => {
      commitOffset = delivery.commit
      offsets.add(delivery.messages)
    },
    finish: (offset: bigint, outcome?: ReplayOutcome) => {
      if (outcome !== undefined) outcomes.set(offset, outcome)
      offsets.complete({ ...topicPartition, offset })
    },
    commit: () => {
      // A failed commit is not retried: the next one covers it.
      committing = committing.then(commitNow).catch(() => {})
      return committing
    },
  }
}
