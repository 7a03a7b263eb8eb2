import type { RawMessage } from '../../runtime/kafka/bus.ts'
import type { DecisionRecord, LetterDecision } from '../../runtime/engine/dead-letters.ts'
import { rowCountOf } from '../../runtime/engine/stage.ts'
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

const ACTIONS = ['replayed', 'ignored', 'discarded'] as const

/**
 * Parses a decision from the headers of a message; undefined for letters. The engine marks every
 * letter with `dead_stage`, so a sender cannot forge a decision with headers of its own.
 */
export function parseDecision (headers: RawMessage['headers']): DecisionRecord | undefined {
  const {
    done_of: position, done_as: done, done_at: at = '', done_why: reason = '', done_job: job,
  } = headers
  if (position === undefined || 'dead_stage' in headers) return undefined
  const action = ACTIONS.find(name => name === done)
  if (action === undefined) return undefined
  const decision = { action, atMs: Date.parse(at), reason }
  return { position, decision: job === undefined ? decision : { ...decision, job } }
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

/** Whether a letter was neither discarded nor taken: a replay without effect leaves it waiting. */
export function isWaiting ({ decisions }: DecidedLetter): boolean {
  return decisions.every(({ action }) => action === 'ignored')
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
