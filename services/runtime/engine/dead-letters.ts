import type { OutgoingMessage, Producer, RawMessage, TopicPartition } from '../kafka/bus.ts'
import { REPLAY_OF } from '../crypto/mac.ts'
import { UnsendableError } from '../kafka/safe-producer.ts'
import { FatalError } from '../platform/errors.ts'
import { SerialQueues } from '../platform/limits.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { withTimeout } from '../platform/retry.ts'
import { deadTopic } from '../platform/topics.ts'
import type { StageName } from '../../topology.ts'

/**
 * Why a message is a dead letter: not decodable, decision failed, decided by the stage, or it ended
 * its process again and again.
 */
type DeadCause = 'unreadable' | 'failed' | 'decided' | 'poison'

/** The reason of dead letters whose organization lacks a key; they are replayed once it has it. */
export const MISSING_KEY = 'missing_key'

/** The reason of the dead letter of a message that ended the process each time. */
export const POISON = 'poison'

export type DeadLetter = {
  readonly raw: RawMessage
  /** A short text without content of the message. */
  readonly reason: string
  readonly cause: DeadCause
}

/** What an operator decided about a letter, or what a stage did with its replay. */
export type LetterDecision = {
  /** `ignored`: a replay had no effect, so the letter still waits. */
  readonly action: 'replayed' | 'ignored' | 'discarded'
  readonly atMs: number
  /** Why it was discarded or ignored; for a replay, what became of it. */
  readonly reason: string
  /** The job that a replayed contact of a feed is in. */
  readonly job?: string | undefined
}

/** A decision and the position of its letter. */
export type DecisionRecord = { readonly position: string, readonly decision: LetterDecision }

/** What a stage did with the replay of a letter. */
export type ReplayOutcome = Omit<LetterDecision, 'atMs'> & {
  readonly action: 'replayed' | 'ignored'
  /** The position of the letter. */
  readonly letter: string
}

/** The outcome of a message; none if it is no replay. */
export function replayOutcomes (
  { headers, forged }: RawMessage, outcome: Omit<ReplayOutcome, 'letter'>
): readonly ReplayOutcome[] {
  const letter = headers[REPLAY_OF]
  return letter === undefined || forged === true ? [] : [{ ...outcome, letter }]
}

/** The outcome of a replay that becomes another letter. */
export const diedAgain = (reason: string) =>
  ({ action: 'replayed', reason: `dead again: ${reason}` } as const)

/**
 * Builds the message that records a decision. It goes to the dead-letter topic itself, without
 * content: the headers contain the position of the letter (`done_of`), the action (`done_as`), the
 * time and the reason. So decisions need no other store and have the retention of the letters.
 */
export function decisionMessage (
  stage: StageName, { position, decision }: DecisionRecord
): OutgoingMessage {
  const { action, atMs, reason, job } = decision
  return {
    topic: deadTopic(stage),
    key: position,
    value: null,
    headers: {
      done_of: position,
      done_as: action,
      done_at: new Date(atMs).toISOString(),
      done_why: reason,
      ...job !== undefined && { done_job: job },
    },
  }
}

/** The dead letters of one decision, which count as one failure. */
type DeadDecision = readonly DeadLetter[]

export type DeadLetters = ReturnType<typeof createDeadLetters>

type DeadLettersOptions = {
  readonly stage: StageName
  readonly producer: () => Producer
  readonly metrics: Metrics
  readonly limit: number
  readonly now: () => number
}

/**
 * Sends dead letters. Many failed decisions in a row mean a bug or a broken dependency, not invalid
 * messages: then the stage stops before it moves its whole topic to the dead letters. Failures of
 * one job count as one, so that no job of many messages stops the others. Those of an organization
 * that lacks a key say nothing about others and are not counted.
 */
export function createDeadLetters (options: DeadLettersOptions) {
  const { stage, producer, metrics, limit, now } = options
  /** The jobs of the failures in a row, or positions of messages of no job. */
  const inARow = new Set<string>()
  return {
    /** @throws FatalError if these decisions would reach the limit of consecutive failures. */
    checkLimit: (decisions: readonly DeadDecision[]): void => {
      const failing = decisions.filter(isFailure).map(nameOfFailure)
      if (failing.length === 0 || new Set([...inARow, ...failing]).size < limit) return
      throw new FatalError(`stage ${stage} stops: ${limit} decisions in a row failed; find the ` +
        'cause in the log lines before this one, and list the dead letters with ' +
        `"npm run admin -- dead list --stage ${stage}"`)
    },

    /** Resolves when the broker has acknowledged all of them. */
    send: async (decisions: readonly DeadDecision[], signal?: AbortSignal): Promise<void> => {
      const letters = decisions.flat()
      if (letters.length === 0) return
      const messages = letters.map(letter => deadLetter(stage, letter, now()))
      await sendAll(producer(), messages, signal)
      // Without a limit their number has no bound, and partners choose the names.
      if (limit < Infinity) {
        for (const decision of decisions.filter(isFailure)) inARow.add(nameOfFailure(decision))
      }
      for (const letter of letters) {
        metrics.count('stage_dead_letters_total', { stage, cause: findCause(letter) })
      }
    },

    /**
     * Records what became of replayed letters; before the offsets of their replays are committed,
     * as a letter leaves the list only then. Resolves when the broker has acknowledged all of them.
     */
    report: async (outcomes: readonly ReplayOutcome[], signal?: AbortSignal): Promise<void> => {
      if (outcomes.length === 0) return
      await producer().send(outcomes.map(({ letter: position, ...outcome }) =>
        decisionMessage(stage, { position, decision: { ...outcome, atMs: now() } })), signal)
    },

    /** Resets the count of consecutive failures, after a message was processed. */
    reset: (): void => { inARow.clear() },
  }
}

/** A missing key is a cause of its own, whatever failed without it. */
const findCause = ({ reason, cause }: DeadLetter) => reason === MISSING_KEY ? MISSING_KEY : cause

function nameOfFailure ([letter]: DeadDecision): string {
  if (letter === undefined) return ''
  const { headers, topic, partition, offset } = letter.raw
  return headers['job'] ?? `${topic}:${partition}:${offset}`
}

const isFailure = (letters: DeadDecision) =>
  letters.some(letter => findCause(letter) !== MISSING_KEY)

/**
 * Sends dead letters, first all of them together. One above the limit of the broker is sent without
 * its value: a stage that stopped for it would stop again after every restart.
 */
async function sendAll (
  producer: Producer, messages: readonly OutgoingMessage[], signal: AbortSignal | undefined
): Promise<void> {
  try {
    return await producer.send(messages, signal)
  } catch (error) {
    if (!(error instanceof UnsendableError)) throw error
  }
  await Promise.all(messages.map(async message => {
    try {
      await producer.send([message], signal)
    } catch (error) {
      if (!(error instanceof UnsendableError)) throw error
      await producer.send([withoutContent(message)], signal)
    }
  }))
}

const KEPT_KEY_BYTES = 1_000
const KEPT_HEADERS_BYTES = 10_000

/** The dead letter without its value, which stays in its source topic until the retention ends. */
function withoutContent ({ topic, key, headers }: OutgoingMessage): OutgoingMessage {
  const all = Object.entries(headers)
  const bytes = all.reduce((sum, pair) => sum + Buffer.byteLength(pair.join('')), 0)
  const kept = bytes <= KEPT_HEADERS_BYTES
    ? all
    : all.filter(([name]) => DEAD_HEADERS.has(name))
  const source = [headers.dead_topic, headers.dead_partition, headers.dead_offset].join(':')
  return {
    topic,
    key: Buffer.byteLength(key) <= KEPT_KEY_BYTES ? key : source,
    value: null,
    headers: { ...Object.fromEntries(kept), dead_value: 'left out, too large' },
  }
}

const DEAD_HEADERS: ReadonlySet<string> = new Set([
  'dead_reason', 'dead_stage', 'dead_topic', 'dead_partition', 'dead_offset', 'dead_at',
])

/** The message as it was received, still sealed, with headers for source, time and reason. */
function deadLetter (
  stage: StageName, { raw, reason }: DeadLetter, nowMs: number
): OutgoingMessage {
  const source = `${raw.topic}:${raw.partition}:${raw.offset}`
  const dead = {
    dead_reason: reason,
    dead_stage: stage,
    dead_topic: raw.topic,
    dead_partition: String(raw.partition),
    dead_offset: String(raw.offset),
    dead_at: new Date(nowMs).toISOString(),
  }
  return {
    topic: deadTopic(stage),
    // An idempotent producer needs a key; a message without one gets its source as key.
    key: raw.key.length > 0 ? raw.key.toString() : source,
    value: raw.value,
    headers: { ...raw.headers, ...dead },
  }
}

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

export type Attempts = ReturnType<typeof createAttempts>

type AttemptsOptions = {
  readonly store: AttemptStore
  /** Names this process and no other. */
  readonly process: string
  /** Whether the process is ending because of an error: then it has not ended cleanly. */
  readonly hasFailed: () => boolean
  readonly log: Log
}

/**
 * Finds the message that kills or freezes its process again and again. A generation that does not
 * end cleanly leaves a mark at the offset where it began. After two marks at the same offset, the
 * next process decides the following messages one by one, and marks each before: one that ends
 * three processes while it is decided alone is poison. Nothing is written per message otherwise.
 * The messages of all careful partitions of a process are decided one after another, so that none
 * is blamed for another. Without the store nothing is counted.
 */
export function createAttempts ({ store, process, hasFailed, log }: AttemptsOptions) {
  const alone = new SerialQueues()
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
  /** Begins the attempts at a partition; `signal` ends them when it is given up. */
  const begin = async (
    { group, topic, partition }: TopicPartition & { readonly group: string }, firstOffset: bigint,
    signal: AbortSignal
  ): Promise<PartitionAttempts> => {
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
  return {
    begin,
    /** Resolves when everything about partitions that were given up is stored. */
    settled: async (): Promise<void> => { await Promise.all(closing) },
  }
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
