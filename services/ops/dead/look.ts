import type { RawMessage } from '../../lib/bus.ts'
import { deadTopic, logicalTopic } from '../../lib/topics.ts'
import type { StageName } from '../../topology.ts'
import { UsageError } from '../../lib/run-command.ts'
import { createBoard, isWaiting, matches, type Filter } from './board.ts'
import type { Inspector } from './inspector.ts'
import { placeOf, type Entry } from './letter.ts'
import type { DeadParts } from './parts.ts'
import { headersShown, rowRanges, summaryOf, timeOf, type Summary } from './shown.ts'
import { CONTACT_STANDING } from './standing.ts'

export type Listed = {
  /** How many letters wait, by stage, whatever the filters say. */
  readonly waiting: Readonly<Record<string, number>>
  /** Those that fit the filters, of each stage the longest dead first. */
  readonly letters: readonly Summary[]
}

const WARNING = 'This shows the content of the message in clear. Do not keep it or pass it on.'

/** Everything that lies in the dead-letter topic of a stage. */
export async function entriesOf (
  { read }: Pick<DeadParts, 'read'>, stage: StageName
): Promise<readonly Entry[]> {
  const board = createBoard(stage)
  await read(deadTopic(stage), messages => messages.forEach(board.add))
  return board.entries()
}

/** The letters of these stages that wait, or with `all` also those that were decided about. */
export async function list (
  parts: Pick<DeadParts, 'read' | 'now'>, stages: readonly StageName[],
  filter: Filter & { readonly all?: boolean }
): Promise<Listed> {
  const found = await Promise.all(stages.map(stage => entriesOf(parts, stage)))
  const waiting = stages.map((stage, index) =>
    [stage, (found[index] ?? []).filter(isWaiting).length] as const)
  const letters = found.flat()
    .filter(entry => matches(entry, filter) && (filter.all === true || isWaiting(entry)))
  return {
    waiting: Object.fromEntries(waiting),
    letters: letters.map(entry => summaryOf(entry, parts.now())),
  }
}

/**
 * All that is known of a letter without its content; that only with `open`.
 * @throws UsageError when there is no such letter.
 */
export async function show (
  parts: DeadParts, letter: { readonly stage: StageName, readonly place: string }, open: boolean
) {
  const { stage, place } = letter
  const board = createBoard(stage)
  let raw: RawMessage | undefined
  await parts.read(deadTopic(stage), messages => {
    raw ??= messages.find(message => placeOf(message) === place)
    messages.forEach(board.add)
  })
  const entry = board.entries().find(one => one.place === place)
  if (raw === undefined || entry === undefined) throw noLetter(stage, place)
  const message = raw
  return await parts.inspect(open, async inspector => ({
    ...open && { warning: WARNING },
    ...summaryOf(entry, parts.now()),
    rowsOfJob: rowRanges(message.headers),
    ...await standingIn(inspector, entry),
    history: entry.done.map(({ as, atMs, why }) => ({ as, at: timeOf(atMs), why })),
    headers: headersShown(message.headers),
    keyBytes: message.key.length,
    envelope: await inspector.envelope(message),
    ...open && { content: await inspector.content(message) },
  }))
}

/** What is said when nothing lies at a place. */
export function noLetter (stage: StageName, place: string): UsageError {
  const where = deadTopic(stage)
  return new UsageError(`There is no letter ${place} in ${where}, which keeps them for 30 days; ` +
    '"list --all" shows those there are.')
}

async function standingIn (inspector: Inspector, { from, tenant, job }: Entry) {
  if (logicalTopic(from.topic)?.partner !== undefined) return CONTACT_STANDING
  return await inspector.standing(tenant, job)
}
