import { bulkhead, type BulkheadPolicy } from 'cockatiel'
import { LRUCache } from 'lru-cache'
import { createTokenBuckets, secondsUntil } from '../../runtime/platform/limits.ts'
import { sleep } from '../../runtime/platform/retry.ts'

export type SessionLimits = {
  /** Maximum concurrent sessions with the mail servers of one owner, and starts per minute. */
  readonly perOwner: number
  readonly perOwnerAMinute: number
  /** Maximum concurrent sessions of all owners. */
  readonly connections: number
}

type SessionOptions = {
  readonly signal: AbortSignal
  /** Unix time in milliseconds after which the session must not start any more. */
  readonly startByMs: number
}

/** Runs the session once all its keys allow it; undefined, without running it, if that is late. */
export type SessionLimiter = <T>(
  keys: readonly string[], session: () => Promise<T>, options: SessionOptions,
) => Promise<T | undefined>

const MAX_KEYS = 50_000

/**
 * Limits the sessions of this process, per key (owner or domain) and altogether. The slots are no
 * fair slots of `limits.ts`: a session that is aborted must leave its queue at once.
 */
export function createSessionLimiter (limits: SessionLimits): SessionLimiter {
  const all = bulkhead(limits.connections, Number.MAX_SAFE_INTEGER)
  const slots = new LRUCache<string, BulkheadPolicy>({ max: MAX_KEYS })
  const starts = createTokenBuckets(undefined, MAX_KEYS)
  const perMinute = [{ capacity: limits.perOwnerAMinute, seconds: 60 }] as const
  /** Waits until a session may start; false, without counting it, if that is late. */
  const takeStart = async (key: string, { signal, startByMs }: SessionOptions) => {
    starts.add(key, perMinute, -1)
    const [level] = starts.levels(key, perMinute)
    const waitMs = level === undefined ? 0 : secondsUntil(level, 0) * 1_000
    if (waitMs > Math.max(0, startByMs - Date.now())) {
      starts.add(key, perMinute, 1)
      return false
    }
    // It rejects only when it is aborted.
    if (waitMs > 0) await sleep(waitMs, signal).catch(() => {})
    return !signal.aborted
  }
  return async (keys, session, options) => {
    const releases: (() => void)[] = []
    const takeSlot = async (from: BulkheadPolicy) => {
      const release = await acquire(from, options.signal)
      if (release !== undefined) releases.push(release)
      return release !== undefined
    }
    try {
      for (const key of new Set(keys)) {
        const own = slots.get(key) ?? bulkhead(limits.perOwner, Number.MAX_SAFE_INTEGER)
        slots.set(key, own)
        if (!await takeSlot(own) || !await takeStart(key, options)) return undefined
      }
      return await takeSlot(all) ? await session() : undefined
    } finally {
      for (const release of releases) release()
    }
  }
}

/** Acquires a slot and resolves to its release; undefined if the signal was aborted first. */
async function acquire (slots: BulkheadPolicy, signal: AbortSignal):
Promise<(() => void) | undefined> {
  const acquired = Promise.withResolvers<boolean>()
  const released = Promise.withResolvers<void>()
  const stop = () => {
    acquired.resolve(false)
    released.resolve()
  }
  signal.addEventListener('abort', stop, { once: true })
  slots.execute(async () => {
    acquired.resolve(true)
    await released.promise
  }, signal).catch(() => acquired.resolve(false))
  const isMine = await acquired.promise
  signal.removeEventListener('abort', stop)
  return isMine ? released.resolve : undefined
}

/**
 * The probable owner of a mail server: the last two labels of its name, or three if the second last
 * is as short as in `co.uk`. Different owners that count as one only share a limit.
 */
export function ownerOf (host: string): string {
  const labels = host.replace(/\.$/, '').split('.')
  const [country = '', second = ''] = labels.toReversed()
  return labels.slice(country.length === 2 && second.length <= 3 ? -3 : -2).join('.')
}
