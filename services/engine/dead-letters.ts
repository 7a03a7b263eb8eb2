import type { StageName } from '../topology.ts'
import type { OutgoingMessage, Producer, RawMessage } from '../kafka/bus.ts'
import { FatalError } from '../platform/errors.ts'
import { UnsendableError } from '../kafka/safe-producer.ts'
import type { Metrics } from '../platform/metrics.ts'
import { deadTopic } from '../platform/topics.ts'

/** Why a message is dead: it can't be read, its decision keeps failing, or the stage said so. */
export type DeadCause = 'unreadable' | 'failed' | 'decided'

export type DeadLetter = {
  readonly raw: RawMessage
  /** A short text without any content of the message. */
  readonly reason: string
  readonly cause: DeadCause
}

/** The letters of one decision: it failed once, however many messages it was about. */
export type DeadDecision = readonly DeadLetter[]

export type DeadLetters = {
  /** Throws `FatalError` instead of letting the limit of consecutive dead decisions be reached. */
  readonly admit: (decisions: readonly DeadDecision[]) => void
  /** Resolves when the broker has acknowledged all of them. */
  readonly send: (decisions: readonly DeadDecision[], signal?: AbortSignal) => Promise<void>
  /** A message was finished as it should be: dead decisions are counted anew. */
  readonly alive: () => void
}

type DeadLettersOptions = {
  readonly stage: StageName
  readonly producer: () => Producer
  readonly metrics: Metrics
  readonly limit: number
  readonly now: () => number
}

/**
 * Writes dead letters. So many dead decisions in a row say that not the messages are at fault but
 * this release, or what it stands on: then the stage stops, before it drains its topics.
 */
export function createDeadLetters (options: DeadLettersOptions): DeadLetters {
  const { stage, producer, metrics, limit, now } = options
  let inARow = 0
  const admit = (decisions: readonly DeadDecision[]) => {
    if (decisions.length === 0 || inARow + decisions.length < limit) return
    const where = deadTopic(stage)
    throw new FatalError(`${stage}: ${limit} decisions in a row are dead; see why in ${where}`)
  }
  const send = async (decisions: readonly DeadDecision[], signal?: AbortSignal) => {
    const letters = decisions.flat()
    if (letters.length === 0) return
    const messages = letters.map(letter => deadLetter(stage, letter, now()))
    await sendAll(producer(), messages, signal)
    inARow += decisions.length
    for (const { cause } of letters) metrics.count('stage_dead_letters_total', { stage, cause })
  }
  return { admit, send, alive: () => { inARow = 0 } }
}

/**
 * A letter above the limit of the broker goes without what makes it so large: a stage that stopped
 * for it would stop for it again after every restart. All letters are tried together first.
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

/**
 * Where, when and why the message ended, without its value, which is still where it came from for
 * as long as that topic keeps it.
 */
function withoutContent ({ topic, key, headers }: OutgoingMessage): OutgoingMessage {
  const all = Object.entries(headers)
  const bytes = all.reduce((sum, pair) => sum + Buffer.byteLength(pair.join('')), 0)
  const kept = bytes <= KEPT_HEADERS_BYTES
    ? all
    : all.filter(([name]) => DEAD_HEADERS.has(name))
  const place = [headers.dead_topic, headers.dead_partition, headers.dead_offset].join(':')
  return {
    topic,
    key: Buffer.byteLength(key) <= KEPT_KEY_BYTES ? key : place,
    value: null,
    headers: { ...Object.fromEntries(kept), dead_value: 'left out, too large' },
  }
}

const DEAD_HEADERS: ReadonlySet<string> = new Set([
  'dead_reason', 'dead_stage', 'dead_topic', 'dead_partition', 'dead_offset', 'dead_at',
])

/** The message as it came, still sealed, and where, when and why it ended. */
export function deadLetter (
  stage: StageName, { raw, reason }: Omit<DeadLetter, 'cause'>, nowMs: number
): OutgoingMessage {
  const place = `${raw.topic}:${raw.partition}:${raw.offset}`
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
    // A message without a key could be lost by the broker's idempotence, so its place is its key.
    key: raw.key.length > 0 ? raw.key.toString() : place,
    value: raw.value,
    headers: { ...raw.headers, ...dead },
  }
}
