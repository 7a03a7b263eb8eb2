import { coordinatesOfHeaders } from '../../jobs/results/block.ts'
import type { DecisionRecord, LetterDecision } from '../../runtime/engine/dead-letters.ts'
import { rowCountOf } from '../../runtime/engine/stage.ts'
import type { RawMessage } from '../../runtime/kafka/bus.ts'
import { indexes } from '../../runtime/platform/bitmap.ts'
import { UsageError } from '../../runtime/platform/run-command.ts'
import { deadTopic, logicalTopic } from '../../runtime/platform/topics.ts'
import type { StageName } from '../../topology.ts'
import { formatHeaders, safeText } from './content.ts'
import type { DeadLetterDeps, ReplayEffect } from './inspector.ts'

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
export function formatPosition (
  { partition, offset }: Pick<RawMessage, 'partition' | 'offset'>
): string {
  return `${partition}:${offset}`
}

/**
 * Reads a letter from the headers of a message of `<stage>.dead`. Only the engine writes the
 * headers with the reason and the origin; the others are those of the original message.
 */
export function parseLetter (stage: StageName, raw: RawMessage): Letter {
  const { headers } = raw
  return {
    stage,
    position: formatPosition(raw),
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
function createLetterIndex (stage: StageName) {
  const letters: Letter[] = []
  const decisions = new Map<string, readonly LetterDecision[]>()
  return {
    add: (raw: RawMessage): void => {
      const record = parseDecision(raw.headers)
      if (record === undefined) {
        letters.push(parseLetter(stage, raw))
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
  const same = (wanted: string | undefined, actual: string) =>
    wanted === undefined || wanted === actual
  return same(position, letter.position) && same(reason, letter.reason) &&
    same(job, letter.job) && same(tenant, letter.tenant)
}

export type LetterList = {
  /** Number of waiting letters by stage, regardless of the filter. */
  readonly waiting: Readonly<Record<string, number>>
  /** The matching letters; of each stage the oldest first. */
  readonly letters: readonly Summary[]
}

const WARNING = 'This output contains the decrypted content. Do not store it or pass it on.'

/** Reads all letters of a stage with the decisions about them. */
export async function readLetters (
  { read }: Pick<DeadLetterDeps, 'read'>, stage: StageName
): Promise<readonly DecidedLetter[]> {
  const index = createLetterIndex(stage)
  await read(deadTopic(stage), messages => messages.forEach(index.add))
  return index.letters()
}

/** Lists the waiting letters of these stages; with `all` also those with a decision. */
export async function list (
  deps: Pick<DeadLetterDeps, 'read' | 'now'>, stages: readonly StageName[],
  filter: Filter & { readonly all?: boolean }
): Promise<LetterList> {
  const lettersByStage = await Promise.all(stages.map(stage => readLetters(deps, stage)))
  const waiting = stages.map((stage, index) =>
    [stage, (lettersByStage[index] ?? []).filter(isWaiting).length] as const)
  const letters = lettersByStage.flat()
    .filter(letter => matches(letter, filter) && (filter.all === true || isWaiting(letter)))
  return {
    waiting: Object.fromEntries(waiting),
    letters: letters.map(letter => summarize(letter, deps.now())),
  }
}

/**
 * Returns everything about a letter except its content. `open` adds the decrypted content.
 * @throws UsageError when the letter does not exist.
 */
export async function show (
  deps: DeadLetterDeps, { stage, position }: { readonly stage: StageName, position: string },
  open: boolean
) {
  const index = createLetterIndex(stage)
  let raw: RawMessage | undefined
  await deps.read(deadTopic(stage), messages => {
    raw ??= messages.find(message => formatPosition(message) === position)
    messages.forEach(index.add)
  })
  const letter = index.letters().find(each => each.position === position)
  if (raw === undefined || letter === undefined) throw unknownLetter(stage, position)
  const message = raw
  return await deps.inspect(open, async inspector => ({
    ...open && { warning: WARNING },
    ...summarize(letter, deps.now()),
    rowsOfJob: rowRanges(message.headers),
    ...logicalTopic(letter.from.topic)?.partner === undefined
      ? await inspector.replayEffect(letter.tenant, letter.job)
      : CONTACT_REPLAY_EFFECT,
    history: letter.decisions
      .map(({ action, atMs, reason }) => ({ action, at: formatTime(atMs), reason })),
    headers: formatHeaders(message.headers),
    keyBytes: message.key.length,
    envelope: await inspector.envelope(message),
    ...open && { content: await inspector.content(message) },
  }))
}

/** Returns the error for a position without a letter. */
export function unknownLetter (stage: StageName, position: string): UsageError {
  return new UsageError(`Letter ${position} does not exist in ${deadTopic(stage)}, which retains ` +
    'letters for 30 days. "list --all" shows the existing ones.')
}

/** A contact of a feed belongs to no job yet. */
export const CONTACT_REPLAY_EFFECT: ReplayEffect = {
  jobStatus: 'no job',
  replayEffect: 'adds the contact to the feed, unless an earlier replay of it was taken: ' +
    'checked, charged and answered like any other',
}

/** Summarizes a letter for a list. Makes untrusted texts safe for a terminal. */
export function summarize (letter: DecidedLetter, nowMs: number) {
  const { stage, position, from, rows, bytes, deadAtMs, decisions } = letter
  const last = decisions.at(-1)
  return {
    stage,
    letter: position,
    reason: safeText(letter.reason),
    deadAt: formatTime(deadAtMs),
    ageSeconds: Number.isNaN(deadAtMs) ? null : Math.max(0, Math.round((nowMs - deadAtMs) / 1_000)),
    tenant: safeText(letter.tenant),
    job: safeText(letter.job),
    service: safeText(letter.service),
    rows,
    bytes,
    from: safeText(`${from.topic} ${from.partition}:${from.offset}`),
    decision: last === undefined
      ? null
      : {
          action: last.action,
          at: formatTime(last.atMs),
          reason: safeText(last.reason),
          count: decisions.length,
        },
  }
}

export type Summary = ReturnType<typeof summarize>

/** Formats the rows of the job in a message, counted from 1, for example `1-200, 205`. */
export function rowRanges (headers: Readonly<Record<string, string>>): string {
  const rows = coordinatesOfHeaders(headers)
  if (rows === undefined) return 'unknown'
  const { firstRow } = rows.coordinates
  const ranges: [number, number][] = []
  for (const index of indexes(rows.rows)) {
    const row = firstRow + index + 1
    const last = ranges.at(-1)
    if (last?.[1] === row - 1) last[1] = row
    else ranges.push([row, row])
  }
  return ranges.map(([from, to]) => from === to ? `${from}` : `${from}-${to}`).join(', ')
}

/** Formats a time in ISO 8601; null when it is unknown. */
export function formatTime (ms: number): string | null {
  return Number.isNaN(ms) ? null : new Date(ms).toISOString()
}
