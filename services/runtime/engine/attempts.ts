import type { RawMessage, TopicPartition } from '../kafka/bus.ts'
import type { Log } from '../platform/log.ts'
import { withTimeout } from '../platform/retry.ts'
import { createSerialQueues } from '../platform/limits.ts'

/** The reason of the dead letter of a message that ended the process each time. */
export const POISON = 'poison'

/** Keeps one text per partition of a consumer group, across processes. */
type AttemptStore = {
  readonly read: (partition: string) => Promise<string | undefined>
  readonly write: (partition: string, text: string) => Promise<void>
  readonly remove: (partition: string) => Promise<void>
}

/**
 * What the last owner of a partition left: it is removed when a process gives the partition up, so
 * that it is found only after a process has died or frozen.
 */
type AttemptMark = {
  /** Of the generation that wrote it. */
  readonly owner: string
  /** The first offset of the generation. */
  readonly offset: string
  /** Generations in a row that began at this offset and did not end cleanly, and this one. */
  readonly starts: number
  /** The offset of the message that is being decided alone. */
  readonly suspect?: string | undefined
  /** How often a message ended the process while it was decided alone, by offset. */
  readonly deaths: Readonly<Record<string, number>>
}

/** Beginning with this start at one offset, messages are decided alone. */
const CAREFUL_STARTS = 3
/**
 * A message is poison that ended the process so often while it was decided alone. Kills that have
 * another cause hit the same message at the same committed offset only by chance.
 */
const POISON_DEATHS = 3
/** Messages that are decided alone; doubled by each further start at the offset. */
const CAREFUL_MESSAGES = 100
const MAX_DOUBLINGS = 10
/** Of all deaths of a partition, so that its text stays small. */
const MAX_SUSPECTS = 100
/** How long a delivery waits for the store, without which no attempts are counted. */
const STORE_TIMEOUT_MS = 2_000

/** The attempts at a partition in one generation. */
export type PartitionAttempts = {
  /** Whether messages are decided one by one, because earlier processes ended here. */
  readonly isCareful: () => boolean
  /** Decides one message alone; `decide` gets whether it is poison. */
  readonly decideAlone: <T>(
    message: Pick<RawMessage, 'offset'>, decide: (isPoison: boolean) => Promise<T>
  ) => Promise<T>
}

/** For a stage whose attempts are not counted. */
export const UNCOUNTED: PartitionAttempts = {
  isCareful: () => false,
  decideAlone: async (_message, decide) => await decide(false),
}

export type Attempts = {
  /** Begins the attempts at a partition; `signal` ends them when it is given up. */
  readonly begin: (
    partition: TopicPartition & { readonly group: string }, firstOffset: bigint, signal: AbortSignal
  ) => Promise<PartitionAttempts>
  /** Resolves when everything about partitions that were given up is stored. */
  readonly settled: () => Promise<void>
}

type AttemptsOptions = {
  readonly store: AttemptStore
  /** Names this process and no other. */
  readonly process: string
  /** Whether the process is ending because of an error: then it has not ended cleanly. */
  readonly hasFailed: () => boolean
  readonly log: Pick<Log, 'warn'>
}

/**
 * Finds the message that kills or freezes its process again and again. A generation that does not
 * end cleanly leaves a mark at the offset where it began. After two marks at the same offset, the
 * next process decides the following messages one by one, and marks each before: one that ends
 * three processes while it is decided alone is poison. Nothing is written per message otherwise.
 * The messages of all careful partitions of a process are decided one after another, so that none
 * is blamed for another. Without the store nothing is counted.
 */
export function createAttempts ({ store, process, hasFailed, log }: AttemptsOptions): Attempts {
  const alone = createSerialQueues()
  const closing = new Set<Promise<void>>()
  let generations = 0
  const attempt = async <T>(action: () => Promise<T>): Promise<T | undefined> => {
    let result: T | undefined
    try {
      await withTimeout(action().then(value => { result = value }), STORE_TIMEOUT_MS)
    } catch (error) {
      log.warn({ err: error }, 'failed to count the attempts at a partition')
    }
    return result
  }
  const begin: Attempts['begin'] = async ({ group, topic, partition }, firstOffset, signal) => {
    const name = `${group}:${topic}:${partition}`
    const owner = `${process}:${generations++}`
    // What an earlier generation of this process gave up is no unclean end.
    await Promise.all(closing)
    let current = nextAttempt(parseAttempt(await attempt(() => store.read(name))),
      { owner, offset: String(firstOffset) })
    const write = async (change: Partial<AttemptMark>) => {
      current = { ...current, ...change }
      if (!signal.aborted) await attempt(() => store.write(name, JSON.stringify(current)))
    }
    const close = async () => {
      const stored = parseAttempt(await attempt(() => store.read(name)))
      if (stored?.owner === owner && !hasFailed()) await attempt(() => store.remove(name))
    }
    const end = () => {
      const closed = close().finally(() => { closing.delete(closed) })
      closing.add(closed)
    }
    await write({})
    if (signal.aborted) end()
    else signal.addEventListener('abort', end, { once: true })
    let left = current.starts < CAREFUL_STARTS
      ? 0
      : CAREFUL_MESSAGES * 2 ** Math.min(current.starts - CAREFUL_STARTS, MAX_DOUBLINGS)
    return {
      isCareful: () => left > 0,
      decideAlone: (message, decide) => alone.take('', async () => {
        const suspect = String(message.offset)
        const isPoison = (current.deaths[suspect] ?? 0) >= POISON_DEATHS
        left -= 1
        await write({ suspect })
        const result = await decide(isPoison)
        const { [suspect]: _, ...deaths } = current.deaths
        // A dead letter whose offset is not committed yet must not kill again.
        await write({ suspect: undefined, ...!isPoison && { deaths } })
        return result
      }),
    }
  }
  return { begin, settled: async () => { await Promise.all(closing) } }
}

/** The attempt after the one that an earlier owner has left, if it began at the same offset. */
function nextAttempt (
  left: AttemptMark | undefined, begun: Pick<AttemptMark, 'owner' | 'offset'>
): AttemptMark {
  const { suspect, deaths = {} } = left ?? {}
  const isSame = left !== undefined && (suspect !== undefined || left.offset === begun.offset)
  if (!isSame) return { ...begun, starts: 1, deaths: {} }
  const count = { ...deaths, ...suspect && { [suspect]: (deaths[suspect] ?? 0) + 1 } }
  const latest = Object.entries(count).slice(-MAX_SUSPECTS)
  return { ...begun, starts: left.starts + 1, deaths: Object.fromEntries(latest) }
}

function parseAttempt (text: string | undefined): AttemptMark | undefined {
  return text === undefined ? undefined : JSON.parse(text) as AttemptMark
}
