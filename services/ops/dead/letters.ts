import type { OutgoingMessage, RawMessage } from '../../kafka/bus.ts'
import { rowCountOf } from '../../engine/stage.ts'
import { deadTopic } from '../../platform/topics.ts'
import type { StageName } from '../../topology.ts'

/** A message of a dead-letter topic, without its content. */
type Letter = {
  readonly stage: StageName
  /** `partition:offset` in the dead-letter topic. */
  readonly position: string
  readonly reason: string
  /** NaN when unknown. */
  readonly deadAtMs: number
  /** Where the stage read the message. */
  readonly from: {
    readonly topic: string, readonly partition: string, readonly offset: string,
  }
  readonly tenant: string
  readonly job: string
  readonly service: string
  /** Number of rows in the message; 0 when unknown. */
  readonly rows: number
  readonly bytes: number
}

/** What an operator decided about a letter. */
export type LetterDecision = {
  readonly action: 'replayed' | 'discarded'
  readonly atMs: number
  /** Empty for a replay. */
  readonly reason: string
}

/** A letter with all decisions about it, oldest first. */
export type DecidedLetter = Letter & { readonly decisions: readonly LetterDecision[] }

/** Returns `partition:offset` of a message. */
export function positionOf (
  { partition, offset }: Pick<RawMessage, 'partition' | 'offset'>
): string {
  return `${partition}:${offset}`
}

/**
 * Reads a letter from the headers of a message of `<stage>.dead`. Only the engine writes the
 * headers with the reason and the origin; the others are those of the original message.
 */
export function letterOf (stage: StageName, raw: RawMessage): Letter {
  const { headers } = raw
  return {
    stage,
    position: positionOf(raw),
    reason: headers['dead_reason'] ?? '',
    deadAtMs: Date.parse(headers['dead_at'] ?? ''),
    from: {
      topic: headers['dead_topic'] ?? '',
      partition: headers['dead_partition'] ?? '',
      offset: headers['dead_offset'] ?? '',
    },
    tenant: headers['tenant'] ?? '',
    job: headers['job'] ?? '',
    service: headers['service'] ?? '',
    rows: rowCountOf(headers),
    bytes: raw.value?.length ?? 0,
  }
}

/** A decision and the position of its letter. */
type DecisionRecord = { readonly position: string, readonly decision: LetterDecision }

/**
 * Builds the message that records a decision. It goes to the dead-letter topic itself, without
 * content: the headers contain the position of the letter (`done_of`), the action (`done_as`), the
 * time and the reason. So decisions need no other store and have the retention of the letters.
 */
export function decisionMessage (
  stage: StageName, { position, decision }: DecisionRecord
): OutgoingMessage {
  return {
    topic: deadTopic(stage),
    key: position,
    value: null,
    headers: {
      done_of: position,
      done_as: decision.action,
      done_at: new Date(decision.atMs).toISOString(),
      done_why: decision.reason,
    },
  }
}

/**
 * Parses a decision from the headers of a message; undefined for letters. The engine marks every
 * letter with `dead_stage`, so a sender cannot forge a decision with headers of its own.
 */
export function parseDecision (headers: RawMessage['headers']): DecisionRecord | undefined {
  const { done_of: position, done_as: action, done_at: at = '', done_why: reason = '' } = headers
  if (position === undefined || 'dead_stage' in headers) return undefined
  if (action !== 'replayed' && action !== 'discarded') return undefined
  return { position, decision: { action, atMs: Date.parse(at), reason } }
}

/** Indexes the messages of a dead-letter topic. Keeps no content. */
export function createLetterIndex (stage: StageName) {
  const letters: Letter[] = []
  const decisions = new Map<string, readonly LetterDecision[]>()
  return {
    add: (raw: RawMessage): void => {
      const record = parseDecision(raw.headers)
      if (record === undefined) {
        letters.push(letterOf(stage, raw))
      } else {
        const { position, decision } = record
        decisions.set(position, [...decisions.get(position) ?? [], decision])
      }
    },
    /** All letters, oldest first. */
    letters: (): readonly DecidedLetter[] =>
      letters.map(letter => ({ ...letter, decisions: decisions.get(letter.position) ?? [] })),
  }
}

export type Filter = {
  readonly position?: string | undefined
  readonly reason?: string | undefined
  readonly job?: string | undefined
  readonly tenant?: string | undefined
}

/** Whether there is no decision about a letter yet. */
export function isWaiting ({ decisions }: DecidedLetter): boolean {
  return decisions.length === 0
}

/** Whether a letter matches all defined fields of a filter. */
export function matches (
  letter: DecidedLetter, { position, reason, job, tenant }: Filter
): boolean {
  const same = (wanted: string | undefined, found: string) =>
    wanted === undefined || wanted === found
  return same(position, letter.position) && same(reason, letter.reason) &&
    same(job, letter.job) && same(tenant, letter.tenant)
}
