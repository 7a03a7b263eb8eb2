import { BEGINNING, type Positions } from '../jobs/cursors.ts'
import type { Delivery, RawMessage } from '../lib/bus.ts'
import { failpoint } from '../lib/failpoint.ts'
import { createOffsets } from '../lib/offsets.ts'
import { createCursor, type Cursor, type CursorParts } from './cursor.ts'
import { cursorOf, type Contact, type Terms } from './contact.ts'
import type { Marks } from './marks.ts'
import { createReplayGuard, type ReplayGuard, type ReplayGuardParts } from './replays.ts'
import { createRoom, type Room } from './room.ts'

export type PartitionParts =
  Pick<CursorParts, 'rules' | 'submit' | 'giveUp' | 'pause' | 'fail' | 'now' | 'sleep'> & {
    readonly place: { readonly topic: string, readonly partition: number }
    /** Aborted when the partition is lost or the partner is paused. */
    readonly signal: AbortSignal
    /** Where the cursors stand; waits until Redis answers. */
    readonly positions: () => Promise<Positions>
    /** The stored marks of its senders; both wait until Redis answers. */
    readonly marks: {
      readonly read: () => Promise<Marks>
      readonly write: ReplayGuardParts['write']
    }
    readonly clock: { readonly now: ReplayGuardParts['now'] }
    /** Room for the contacts of all partners. */
    readonly held: Room
  }

/** Messages of one partition of a partner, from one generation of its group. */
export type Partition = Pick<ReplayGuard, 'judge'> & {
  /**
   * Where to read from instead, when the first delivery begins behind what the stored marks follow:
   * marks that were lost are rebuilt from the log. Undefined when it need not be, and from the
   * second delivery on, as the log itself may have gaps.
   */
  readonly rewindFrom: (first: bigint) => bigint | undefined
  /** Whether a message was finished before the partition was opened. */
  readonly isFinished: (offset: number) => boolean
  /** Whether the cursor of these terms was beyond the offset when the partition was opened. */
  readonly isPassed: (terms: Parameters<typeof cursorOf>[0], offset: number) => boolean
  /** Messages that are unfinished from now on, and how to commit behind them. */
  readonly begin: (delivery: Delivery) => void
  readonly take: (contact: Contact, terms: Terms) => void
  /** A message that needs no more. */
  readonly finish: (raw: Pick<RawMessage, 'offset'>) => void
  /** All that was collected goes now. */
  readonly close: () => void
  /** Resolves once more contacts may come. */
  readonly room: () => Promise<void>
  /** Commits what all cursors have passed. */
  readonly commit: () => Promise<void>
}

/** A second batch gathers while the first one waits for its preflight. */
const BATCHES_HELD = 2

/**
 * Gives each contact to its cursor. Offsets are committed only up to the first contact that some
 * cursor has not passed, so that whatever a crash forgets is read again; what a cursor has passed
 * is finished on sight.
 */
export async function createPartition (parts: PartitionParts): Promise<Partition> {
  const { signal, held } = parts
  const room = createRoom(parts.rules.limit * BATCHES_HELD)
  const cursors = new Map<string, Cursor>()
  const { read, write } = parts.marks
  const guard = createReplayGuard({ marks: await read(), write, now: parts.clock.now })
  const commits = createCommits(parts, guard)
  const positions = await parts.positions()
  let isFirst = true
  const passed = (contacts: readonly Contact[]) => {
    if (signal.aborted || contacts.length === 0) return
    for (const { offset } of contacts) commits.finish(BigInt(offset))
    held.release(contacts.length)
    room.release(contacts.length)
    commits.commit().catch(parts.fail)
  }
  const open = (terms: Terms): Cursor => {
    const cursor = cursorOf(terms)
    const known = cursors.get(cursor)
    if (known !== undefined) return known
    const position = positions.get(cursor) ?? BEGINNING
    const reread = async () => (await parts.positions()).get(cursor) ?? BEGINNING
    const made = createCursor({ ...parts, cursor, terms, position, reread, passed })
    cursors.set(cursor, made)
    return made
  }
  signal.addEventListener('abort', () => held.release(room.taken()), { once: true })

  return {
    judge: guard.judge,
    rewindFrom: first => {
      const next = BigInt(guard.finishedTo) + 1n
      const isBehind = isFirst && first > next
      isFirst = false
      return isBehind ? next : undefined
    },
    isFinished: offset => offset <= guard.finishedTo,
    isPassed: (terms, offset) => offset <= (positions.get(cursorOf(terms)) ?? BEGINNING),
    begin: commits.begin,
    take: (contact, terms) => {
      if (signal.aborted) return
      if (!open(terms).add(contact)) return commits.finish(BigInt(contact.offset))
      held.take(1)
      room.take(1)
    },
    finish: raw => commits.finish(raw.offset),
    close: () => { for (const cursor of cursors.values()) cursor.close() },
    room: async () => {
      await room.free(signal)
      await held.free(signal)
    },
    commit: commits.commit,
  }
}

/**
 * Commits one after another, each as far as everything below is finished by then. The marks come
 * first: a message that Kafka does not deliver again must have left its mark.
 */
function createCommits (
  { place, signal, fail }: Pick<PartitionParts, 'place' | 'signal' | 'fail'>,
  guard: Pick<ReplayGuard, 'save'>
) {
  const offsets = createOffsets()
  let commitBehind: Delivery['commit'] = async () => {}
  let committing: Promise<void> = Promise.resolve()
  const commitNow = async () => {
    const offset = offsets.toCommit(place)
    if (offset === undefined || signal.aborted) return
    failpoint('feed.committing')
    if (!await guard.save(Number(offset) - 1)) {
      const { topic, partition } = place
      return fail(new Error(`the marks of senders of ${topic}[${partition}] were lost in Redis; ` +
        'the partition is read from its beginning to rebuild them'))
    }
    await commitBehind(offset)
    offsets.committed(place, offset)
  }
  return {
    begin: (delivery: Delivery) => {
      commitBehind = delivery.commit
      offsets.begin(delivery.messages)
    },
    finish: (offset: bigint) => offsets.finish({ ...place, offset }),
    commit: () => {
      // One that fails is not repeated by itself: the next one says more.
      committing = committing.then(commitNow).catch(() => {})
      return committing
    },
  }
}
