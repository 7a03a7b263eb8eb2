import { type RedisClient, script } from '../runtime/platform/redis.ts'
import { integer } from '../money/wallet.ts'
import { taggedTenant } from '../money/redis-keys.ts'
import { cursorsKey } from '../jobs/job-record.ts'

/** A partition of a partner's topic. */
type FeedPartition = {
  readonly tenant: string
  readonly partner: string
  readonly partition: number
}

/** The position of each cursor that has moved: the offset of the last contact in a job. */
export type CursorPositions = ReadonlyMap<string, number>

/** The position of a cursor that has never moved. */
export const BEGINNING = -1

export type Cursors = ReturnType<typeof createCursors>

/** The feed cursors in Redis; only `accept` moves them. */
export function createCursors (redis: RedisClient) {
  return {
    read: async ({ tenant, ...partition }: FeedPartition): Promise<CursorPositions> => {
      const fields = await redis.hgetall(cursorsKey(tenant, partition))
      return new Map(Object.entries(fields).map(([cursor, offset]) => [cursor, integer(offset)]))
    },
  }
}

/** High-water mark of a sender: its highest sequence, and its latest `sentAt` in ms. */
type Mark = { readonly sequence: number, readonly sentAt: number }

/** The marks of all senders of a partition as of an offset; -1 if none are stored. */
export type Marks = { readonly offset: number, readonly senders: ReadonlyMap<string, Mark> }

/** From the marks as of `since` to those as of `offset`. */
type MarksChange = {
  readonly since: number
  readonly offset: number
  readonly changed: ReadonlyMap<string, Mark>
  readonly forgotten: readonly string[]
}

/** The authenticated origin of a contact: its sender and its position in the sender's sequence. */
export type Stamp = { readonly sender: string } & Mark

type UnsavedMark = { readonly offset: number, readonly sender: string, readonly mark: Mark }

/** `too_many_senders`: the partition cannot remember one more sender. */
type ReplayVerdict = 'fresh' | 'replayed' | 'too_many_senders'

export type ReplayGuardDeps = {
  readonly marks: Marks
  /** As `MarkStore.write`. */
  readonly write: (change: MarksChange) => Promise<boolean>
  /** As `MarkStore.writeDead`. */
  readonly writeDead: (offsets: readonly number[]) => Promise<void>
  /** Milliseconds since 1970, by the clock that all processes share. */
  readonly now: () => number
}

const DAY_MS = 86_400_000
/** One day longer than a contact is accepted, so a forgotten sender cannot be replayed. */
const FORGET_AFTER_MS = 8 * DAY_MS
/** Longer than a letter is kept and its replay is accepted. No sender may have such a name. */
const FORGET_REPLAY_AFTER_MS = 40 * DAY_MS
/** To look for old senders takes time for each, which a partner must not take from the others. */
const FORGET_EVERY_MS = 3_600_000
const REPLAY = 'replay:'
const DEAD = 'dead:'
/** Letters whose offsets are not committed; further ones may have a second letter. */
const MAX_DEAD = 10_000
/** Limits the memory that one partner uses. */
const MAX_SENDERS = 100_000

/**
 * Recognizes replayed contacts of one partition. A contact is fresh when its sequence is above its
 * sender's mark, so the log alone determines which contacts are fresh. Memory holds the marks as of
 * the newest message that was read. Redis holds those as of the next committed offset, where the
 * next process continues.
 */
export class ReplayGuard {
  /** Everything up to this offset was finished before the guard was created. */
  readonly finishedTo: number
  readonly #deps: ReplayGuardDeps
  readonly #marks: Map<string, Mark>
  readonly #dead: Set<number>
  readonly #unsaved: UnsavedMark[] = []
  #savedTo: number
  #forgetAtMs = 0

  constructor (deps: ReplayGuardDeps) {
    const { offset, senders } = deps.marks
    this.#deps = deps
    this.finishedTo = offset
    this.#savedTo = offset
    this.#marks = new Map([...senders].filter(([name]) => !name.startsWith(DEAD)))
    this.#dead = new Set([...senders.keys()].filter(name => name.startsWith(DEAD))
      .map(name => Number(name.slice(DEAD.length))))
  }

  /** Checks an authentic contact. Call it once per contact, in the order of their offsets. */
  check (offset: number, { sender, sequence, sentAt }: Stamp): ReplayVerdict {
    const mark = this.#marks.get(sender)
    if (mark === undefined && this.#marks.size >= MAX_SENDERS) return 'too_many_senders'
    if (mark !== undefined && sequence <= mark.sequence) return 'replayed'
    const next = { sequence, sentAt: Math.max(sentAt, mark?.sentAt ?? sentAt) }
    this.#marks.set(sender, next)
    this.#unsaved.push({ offset, sender, mark: next })
    return 'fresh'
  }

  /**
   * Checks a contact that an operator replays, in the same order: it has a sequence below the mark
   * of its sender. `replayed`: it was taken by an earlier replay of it or of a copy.
   * @param atMs when the operator replayed it, in ms since 1970
   */
  checkReplay (offset: number, stamp: Stamp, atMs: number): ReplayVerdict {
    const { sender, sequence } = stamp
    // A sender of one contact, whatever its letter: a copy of the message may have one as well.
    const once = { sender: `${REPLAY}${sender}:${sequence}`, sequence: 0, sentAt: atMs }
    const verdict = this.check(offset, once)
    // Above the mark of the sender, so that a copy without the signature is no other contact.
    return verdict === 'fresh' && this.check(offset, stamp) === 'too_many_senders'
      ? 'too_many_senders'
      : verdict
  }

  /**
   * Whether the message at an offset is a letter already. It may be read again before its offset is
   * committed, and decodable by then; but only a replay of the letter is a contact.
   */
  isDead (offset: number): boolean {
    return this.#dead.has(offset)
  }

  /** Stores that the messages at these offsets are letters. */
  async addDead (offsets: readonly number[]): Promise<void> {
    const added = offsets.filter(offset => !this.#dead.has(offset))
      .slice(0, MAX_DEAD - this.#dead.size)
    if (added.length === 0) return
    await this.#deps.writeDead(added)
    for (const offset of added) this.#dead.add(offset)
  }

  /**
   * Stores the marks as of an offset up to which everything is finished. Resolves to false when
   * Redis has lost the stored marks: the partition must be opened again.
   */
  async save (offset: number): Promise<boolean> {
    if (offset <= this.#savedTo) return true
    const later = this.#unsaved.findIndex(change => change.offset > offset)
    const saved = this.#unsaved.splice(0, later < 0 ? this.#unsaved.length : later)
    const nowMs = this.#deps.now()
    const isOld = (sender: string, { sentAt }: Mark) => sentAt < nowMs -
      (sender.startsWith(REPLAY) ? FORGET_REPLAY_AFTER_MS : FORGET_AFTER_MS)
    const forgotten: string[] = []
    if (nowMs >= this.#forgetAtMs) {
      this.#forgetAtMs = nowMs + FORGET_EVERY_MS
      for (const [sender, mark] of this.#marks) if (isOld(sender, mark)) forgotten.push(sender)
      for (const sender of forgotten) this.#marks.delete(sender)
    }
    const committed = [...this.#dead].filter(dead => dead <= offset)
    for (const dead of committed) this.#dead.delete(dead)
    const changed = new Map(saved.filter(({ sender, mark }) => !isOld(sender, mark))
      .map(({ sender, mark }) => [sender, mark]))
    const since = this.#savedTo
    this.#savedTo = offset
    return await this.#deps.write({
      since, offset, changed, forgotten: [...forgotten, ...committed.map(dead => DEAD + dead)],
    })
  }
}

export type MarkStore = ReturnType<typeof createMarkStore>

/**
 * Hash: offset, and sender -> sequence:sentAt. `replay:<sender>:<sequence>` in place of a sender is
 * a contact that was replayed, and `dead:<offset>` a letter whose offset is not committed.
 */
const marksKey = ({ tenant, partner, partition }: FeedPartition): string =>
  `marks:${taggedTenant(tenant)}:${partner}:${partition}`

const OFFSET = 'offset'

/**
 * A change may start from older marks than the stored ones: every process computes the same marks
 * of one offset, so the changed senders are correct as of the change's own offset.
 */
const SOURCE = `
local key, since, offset = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local stored = tonumber(redis.call('HGET', key, '${OFFSET}') or '-1')
if stored < since then
  return 0
end
if stored >= offset then
  return 1
end
redis.call('HSET', key, '${OFFSET}', ARGV[2])
local changed = tonumber(ARGV[3])
for i = 4, 3 + 2 * changed, 2 do
  redis.call('HSET', key, ARGV[i], ARGV[i + 1])
end
for i = 4 + 2 * changed, #ARGV do
  redis.call('HDEL', key, ARGV[i])
end
return 1`

/** The marks of all feeds, in Redis. */
export function createMarkStore (redis: RedisClient) {
  const run = script(redis, { name: 'marks', source: SOURCE, numberOfKeys: 1 })
  return {
    read: async (partition: FeedPartition): Promise<Marks> => {
      const { [OFFSET]: offset = '-1', ...senders } = await redis.hgetall(marksKey(partition))
      return {
        offset: integer(offset),
        senders: new Map(Object.entries(senders).map(([sender, mark]) => {
          const [sequence = '', sentAt = ''] = mark.split(':')
          return [sender, { sequence: integer(sequence), sentAt: integer(sentAt) }]
        })),
      }
    },

    /**
     * Stores a change, unless marks as of that offset or a later one are stored. Resolves to false
     * when the marks before the change are no longer stored.
     */
    write: async (
      partition: FeedPartition, { since, offset, changed, forgotten }: MarksChange
    ): Promise<boolean> => {
      const fields = [...changed].flatMap(([sender, { sequence, sentAt }]) =>
        [sender, `${sequence}:${sentAt}`])
      const args = [since, offset, changed.size, ...fields, ...forgotten]
      return await run([marksKey(partition)], args) === 1
    },

    /** Stores offsets of letters, until a change is stored as of a later offset. */
    writeDead: async (partition: FeedPartition, offsets: readonly number[]): Promise<void> => {
      await redis.hset(
        marksKey(partition), ...offsets.flatMap(offset => [`${DEAD}${offset}`, '0:0']))
    },
  }
}
