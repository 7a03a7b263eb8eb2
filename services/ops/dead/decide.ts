import type { OutgoingMessage, RawMessage } from '../../kafka/bus.ts'
import { CommandFailure, UsageError } from '../../platform/run-command.ts'
import { deadTopic, logicalTopic } from '../../platform/topics.ts'
import { topology, type StageName } from '../../topology.ts'
import type { DeadLetterDeps } from './deps.ts'
import {
  decisionMessage, isWaiting, matches, positionOf,
  type DecidedLetter, type LetterDecision, type Filter,
} from './letters.ts'
import { readLetters, unknownLetter } from './list.ts'

type Deps = Pick<DeadLetterDeps, 'read' | 'send' | 'now'>

/** The selected letters, and what the operator has confirmed. */
export type Selection = {
  readonly stage: StageName
  readonly filter: Filter
  /** Includes letters with an earlier decision. */
  readonly again: boolean
  /** Required unless the filter names a single letter. */
  readonly yes: boolean
  /** Maximum number of letters, the oldest first. */
  readonly limit: number
}

export type DecidedLetters = {
  readonly stage: StageName
  readonly action: LetterDecision['action']
  readonly letters: readonly string[]
  /** Number of matching letters beyond the limit. */
  readonly remaining: number
}

/**
 * Sends letters back to the topics that they came from, unchanged, and records that. A crash in
 * between sends them twice, which the pipeline deduplicates. A contact of a feed however becomes a
 * new contact each time, so there the record comes first.
 * @throws UsageError when no letter matches, when a letter cannot be sent, or without confirmation.
 */
export async function replay (deps: Deps, selection: Selection): Promise<DecidedLetters> {
  const { stage } = selection
  const { selected, remaining } = await select(deps, selection, 'replayed')
  const foreign = selected.find(({ from }) => !isReadBy(stage, from.topic))
  if (foreign !== undefined) {
    throw new UsageError(`Letter ${foreign.position} came from topic "${foreign.from.topic}", ` +
      `which ${stage} does not read. It can only be discarded.`)
  }
  const pending = new Set(selected.map(({ position }) => position))
  const letters: string[] = []
  await deps.read(deadTopic(stage), async messages => {
    const batch = messages.filter(message => pending.delete(positionOf(message)))
    if (batch.length === 0) return
    const truncated = batch.find(({ headers }) => 'dead_value' in headers)
    if (truncated !== undefined) {
      throw new CommandFailure(`Letter ${positionOf(truncated)} has no content, because the ` +
        'message was too large for the dead-letter topic. It can only be discarded.')
    }
    const decision = { action: 'replayed', atMs: deps.now(), reason: '' } as const
    const records = batch.map(raw =>
      decisionMessage(stage, { position: positionOf(raw), decision }))
    const originals = batch.flatMap(raw => originalMessage(stage, raw) ?? [])
    const steps = stage === 'feed' ? [records, originals] : [originals, records]
    for (const step of steps) await deps.send(step)
    letters.push(...batch.map(positionOf))
  })
  return { stage, action: 'replayed', letters, remaining }
}

/**
 * Records that letters will not be replayed, and why. The letters remain until the retention of the
 * topic deletes them.
 * @throws UsageError like `replay`.
 */
export async function discard (
  deps: Deps, selection: Selection, reason: string
): Promise<DecidedLetters> {
  const { stage } = selection
  const { selected, remaining } = await select(deps, selection, 'discarded')
  const decision = { action: 'discarded', atMs: deps.now(), reason } as const
  await deps.send(selected.map(({ position }) => decisionMessage(stage, { position, decision })))
  return {
    stage, action: 'discarded', letters: selected.map(({ position }) => position), remaining,
  }
}

async function select (
  deps: Deps, { stage, filter, again, yes, limit }: Selection, action: LetterDecision['action']
): Promise<{ readonly selected: readonly DecidedLetter[], readonly remaining: number }> {
  const matching = (await readLetters(deps, stage)).filter(letter => matches(letter, filter))
  const { position } = filter
  if (position !== undefined) {
    return { selected: [selectOne(matching, { stage, position, again })], remaining: 0 }
  }
  const allowed = matching.filter(letter => again || isWaiting(letter))
  if (allowed.length === 0) throw new UsageError(`No waiting letter of ${stage} matches.`)
  const selected = allowed.slice(0, limit)
  const remaining = allowed.length - selected.length
  if (!yes) {
    const rest = remaining > 0 ? ` (${remaining} more are beyond --limit)` : ''
    throw new UsageError(`${letterCount(selected.length)} of ${stage} would be ${action}${rest}. ` +
      'Add --yes to confirm.')
  }
  return { selected, remaining }
}

function selectOne (
  [letter]: readonly DecidedLetter[],
  { stage, position, again }: { stage: StageName, position: string, again: boolean }
): DecidedLetter {
  if (letter === undefined) throw unknownLetter(stage, position)
  const last = letter.decisions.at(-1)
  if (last === undefined || again) return letter
  throw new UsageError(`Letter ${position} of ${stage} was already ${last.action} at ` +
    `${new Date(last.atMs).toISOString()}. Add --again to repeat it.`)
}

const letterCount = (count: number) => count === 1 ? '1 letter' : `${count} letters`

const ADDED_HEADERS = 'dead_'

/**
 * Returns the original message of a letter: same key, content, headers and topic. Undefined when
 * the stage does not read that topic.
 */
export function originalMessage (stage: StageName, raw: RawMessage): OutgoingMessage | undefined {
  const topic = raw.headers['dead_topic'] ?? ''
  if (!isReadBy(stage, topic)) return undefined
  const headers = Object.fromEntries(
    Object.entries(raw.headers).filter(([name]) => !name.startsWith(ADDED_HEADERS)))
  return { topic, key: raw.key.toString(), value: raw.value, headers }
}

/** Whether a stage reads a topic of the brokers. */
export function isReadBy (stage: StageName, name: string): boolean {
  const reads: readonly string[] = topology.stages[stage].reads
  const topic = logicalTopic(name)?.topic
  return topic !== undefined && reads.includes(topic)
}
