import type { StageName } from '../../topology.ts'
import type { OutgoingMessage, Producer, RawMessage } from '../kafka/bus.ts'
import { FatalError } from '../platform/errors.ts'
import { REPLAY_OF } from '../kafka/message-mac.ts'
import { UnsendableError } from '../kafka/safe-producer.ts'
import type { Metrics } from '../platform/metrics.ts'
import { deadTopic } from '../platform/topics.ts'

/**
 * Why a message is a dead letter: not decodable, decision failed, decided by the stage, or it ended
 * its process again and again.
 */
type DeadCause = 'unreadable' | 'failed' | 'decided' | 'poison'

/** The reason of dead letters whose organization lacks a key; they are replayed once it has it. */
export const MISSING_KEY = 'missing_key'

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

export type DeadLetters = {
  /** @throws FatalError if these decisions would reach the limit of consecutive failures. */
  readonly checkLimit: (decisions: readonly DeadDecision[]) => void
  /** Resolves when the broker has acknowledged all of them. */
  readonly send: (decisions: readonly DeadDecision[], signal?: AbortSignal) => Promise<void>
  /**
   * Records what became of replayed letters; before the offsets of their replays are committed, as
   * a letter leaves the list only then. Resolves when the broker has acknowledged all of them.
   */
  readonly report: (outcomes: readonly ReplayOutcome[], signal?: AbortSignal) => Promise<void>
  /** Resets the count of consecutive failures, after a message was processed. */
  readonly reset: () => void
}

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
export function createDeadLetters (options: DeadLettersOptions): DeadLetters {
  const { stage, producer, metrics, limit, now } = options
  /** The jobs of the failures in a row, or positions of messages of no job. */
  const inARow = new Set<string>()
  const checkLimit = (decisions: readonly DeadDecision[]) => {
    const failing = decisions.filter(isFailure).map(nameOfFailure)
    if (failing.length === 0 || new Set([...inARow, ...failing]).size < limit) return
    throw new FatalError(`stage ${stage} stops: ${limit} decisions in a row failed; find the ` +
      'cause in the log lines before this one, and list the dead letters with ' +
      `"npm run ops -- dead list --stage ${stage}"`)
  }
  const send = async (decisions: readonly DeadDecision[], signal?: AbortSignal) => {
    const letters = decisions.flat()
    if (letters.length === 0) return
    const messages = letters.map(letter => deadLetter(stage, letter, now()))
    await sendAll(producer(), messages, signal)
    // Without a limit their number has no bound, and partners choose the names.
    if (limit < Infinity) {
      for (const decision of decisions.filter(isFailure)) inARow.add(nameOfFailure(decision))
    }
    for (const letter of letters) {
      metrics.count('stage_dead_letters_total', { stage, cause: causeOf(letter) })
    }
  }
  const report = async (outcomes: readonly ReplayOutcome[], signal?: AbortSignal) => {
    if (outcomes.length === 0) return
    await producer().send(outcomes.map(({ letter: position, ...outcome }) =>
      decisionMessage(stage, { position, decision: { ...outcome, atMs: now() } })), signal)
  }
  return { checkLimit, send, report, reset: () => { inARow.clear() } }
}

/** A missing key is a cause of its own, whatever failed without it. */
const causeOf = ({ reason, cause }: DeadLetter) => reason === MISSING_KEY ? MISSING_KEY : cause

function nameOfFailure ([letter]: DeadDecision): string {
  if (letter === undefined) return ''
  const { headers, topic, partition, offset } = letter.raw
  return headers['job'] ?? `${topic}:${partition}:${offset}`
}

const isFailure = (letters: DeadDecision) =>
  letters.some(letter => causeOf(letter) !== MISSING_KEY)

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
  stage: StageName, { raw, reason }: Omit<DeadLetter, 'cause'>, nowMs: number
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
