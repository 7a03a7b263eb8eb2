import { bulkhead, type BulkheadPolicy } from 'cockatiel'
import { LRUCache } from 'lru-cache'
import { sleep } from '../../../lib/retry.ts'
import { ProviderError } from '../../provider.ts'
import { createRate, type Rate } from '../../rate.ts'

export type TurnLimits = {
  /** Conversations under way with one owner of mail servers, and those begun in a minute. */
  readonly perOwner: number
  readonly perOwnerAMinute: number
  /** Conversations under way altogether. */
  readonly connections: number
}

export type TurnOptions = {
  readonly signal: AbortSignal
  /** Unix time in milliseconds after which a turn is of no use. */
  readonly beginByMs: number
}

/** Runs the task when it is the key's turn; undefined, and no task run, when none comes in time. */
export type Turns = <T>(
  keys: readonly string[], task: () => Promise<T>, options: TurnOptions,
) => Promise<T | undefined>

const MINUTE_MS = 60_000
const KEYS_REMEMBERED = 50_000

type Queue = { readonly slots: BulkheadPolicy, readonly rate: Rate }

/** Keeps what this process asks of each mail server, and of all, within limits. */
export function createTurns (limits: TurnLimits): Turns {
  const all = bulkhead(limits.connections, Number.MAX_SAFE_INTEGER)
  const queues = new LRUCache<string, Queue>({ max: KEYS_REMEMBERED })
  const queueOf = (key: string): Queue => {
    const known = queues.get(key)
    if (known !== undefined) return known
    const queue = {
      slots: bulkhead(limits.perOwner, Number.MAX_SAFE_INTEGER),
      rate: createRate({ calls: limits.perOwnerAMinute, perMs: MINUTE_MS }, {
        now: () => performance.now(), sleep,
      }),
    }
    queues.set(key, queue)
    return queue
  }
  return async (keys, task, options) => {
    const held: (() => void)[] = []
    const hold = async (slots: BulkheadPolicy) => {
      const release = await acquire(slots, options.signal)
      if (release !== undefined) held.push(release)
      return release !== undefined
    }
    try {
      for (const key of new Set(keys)) {
        const { slots, rate } = queueOf(key)
        if (!await hold(slots) || !await takeRate(rate, options)) return undefined
      }
      return await hold(all) ? await task() : undefined
    } finally {
      for (const release of held) release()
    }
  }
}

/** A place among those under way; undefined when the signal came first. */
async function acquire (slots: BulkheadPolicy, signal: AbortSignal):
Promise<(() => void) | undefined> {
  const turn = Promise.withResolvers<boolean>()
  const held = Promise.withResolvers<void>()
  const stop = () => {
    turn.resolve(false)
    held.resolve()
  }
  signal.addEventListener('abort', stop, { once: true })
  slots.execute(async () => {
    turn.resolve(true)
    await held.promise
  }, signal).catch(() => turn.resolve(false))
  const mine = await turn.promise
  signal.removeEventListener('abort', stop)
  return mine ? held.resolve : undefined
}

async function takeRate (rate: Rate, { signal, beginByMs }: TurnOptions): Promise<boolean> {
  try {
    await rate.take(signal, Math.max(0, beginByMs - Date.now()))
    return !signal.aborted
  } catch (error) {
    if (signal.aborted || error instanceof ProviderError) return false
    throw error
  }
}

/**
 * Whose a mail server is, as far as its name tells: the last two labels, or three where the second
 * to last is as short as those of countries (`co.uk`). Taking too many for one only slows us down.
 */
export function ownerOf (host: string): string {
  const labels = host.replace(/\.$/, '').split('.')
  const [country = '', second = ''] = labels.toReversed()
  return labels.slice(country.length === 2 && second.length <= 3 ? -3 : -2).join('.')
}
