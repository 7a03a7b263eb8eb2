import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import type { AccessEntry } from '../../../schemas/types.ts'
import { globalKey } from '../../runtime/platform/redis.ts'
import {
  type AccessDescription, type AccessEvent, type AccessResult, entryOfEvent, resultIdOf,
} from './entry.ts'

/** Stream: entries that the topic `access.log` has not acknowledged yet. */
export const ACCESS_OUTBOX_KEY = globalKey('access-log:outbox')

/** Sorted set with one member: the highest number that was copied to ClickHouse. */
const ACCESS_HEAD_KEY = globalKey('access-log:head')

export type AccessLog = {
  /**
   * Adds an entry; resolves with its id in the outbox. Of an action whose result is not known yet,
   * use `recordAttempt`.
   * @throws InfrastructureError, or an error of Redis, when the entry is not stored.
   */
  readonly append: (event: AccessEvent) => Promise<string>
  /** Removes an entry from the outbox; false if it was shipped before. */
  readonly withdraw: (id: string) => Promise<boolean>
}

/** The access log. An entry is in Redis first; `ledger` ships it to the topic `access.log`. */
export function createAccessLog (redis: Pick<Redis, 'xadd' | 'xdel'>): AccessLog {
  return {
    append: async event => {
      // Redis adds the time.
      const { at: _at, ...entry } = entryOfEvent({ entryId: randomUUID(), ...event }, 0)
      return await redis.xadd(ACCESS_OUTBOX_KEY, '*', 'entry', JSON.stringify(entry)) ?? ''
    },
    withdraw: async id => await redis.xdel(ACCESS_OUTBOX_KEY, id) === 1,
  }
}

export type AccessAttempt = {
  /** Adds the entry with its result; repeating it adds nothing to lists. */
  readonly record: (result: AccessResult, about?: AccessDescription) => Promise<void>
  /** Removes the attempt of an action that did nothing; false if it was shipped before. */
  readonly withdraw: () => Promise<boolean>
}

/**
 * Records that a privileged action is attempted. Call it before the action, and do not act if it
 * throws: so a crash may leave an attempt without a result, and never an action without an entry.
 * @throws InfrastructureError, or an error of Redis, when the entry is not stored.
 */
export async function recordAttempt (log: AccessLog, event: AccessEvent): Promise<AccessAttempt> {
  const entryId = randomUUID()
  const id = await log.append({ ...event, entryId, outcome: 'attempted' })
  return {
    record: async (result, { target = event.target, details, outcome = result } = {}) => {
      await log.append({
        ...event,
        entryId: resultIdOf(entryId),
        outcome: result === 'done' ? outcome : result,
        ...target !== undefined && { target },
        ...details !== undefined && { details: { ...event.details, ...details } },
      })
    },
    withdraw: async () => await log.withdraw(id),
  }
}

/** An entry in the outbox; `id` is that of the stream. */
type PendingEntry = { readonly id: string, readonly entry: AccessEntry }

/** The entries that are not in the topic yet. */
export function createAccessOutbox (redis: Pick<Redis, 'xrange' | 'xdel'>) {
  return {
    /** Up to `limit` entries, oldest first; only those added until `untilMs`, by Redis time. */
    oldest: async (limit: number, untilMs?: number): Promise<readonly PendingEntry[]> => {
      const last = untilMs === undefined ? '+' : String(Math.max(0, Math.floor(untilMs)))
      const found = await redis.xrange(ACCESS_OUTBOX_KEY, '-', last, 'COUNT', limit)
      return found.map(([id, [, json = '{}']]) =>
        ({ id, entry: { ...JSON.parse(json) as AccessEntry, at: Number(id.split('-')[0]) } }))
    },

    /** Removes entries that the topic has acknowledged. Idempotent. */
    remove: async (entries: readonly PendingEntry[]): Promise<void> => {
      if (entries.length === 0) return
      await redis.xdel(ACCESS_OUTBOX_KEY, ...entries.map(({ id }) => id))
    },
  }
}

export type AccessOutbox = ReturnType<typeof createAccessOutbox>

/** The highest number that was copied to ClickHouse; a loss of Redis resets it to a lower one. */
export function createAccessHead (redis: Pick<Redis, 'zadd' | 'zscore'>) {
  return {
    /** Ignores a number below the current one. */
    advance: async (seq: number): Promise<void> => {
      await redis.zadd(ACCESS_HEAD_KEY, 'GT', seq, 'copied')
    },
    /** 0 if nothing is known to be copied. */
    read: async (): Promise<number> => Number(await redis.zscore(ACCESS_HEAD_KEY, 'copied') ?? 0),
  }
}
