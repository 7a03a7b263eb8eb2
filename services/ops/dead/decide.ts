import { deadTopic } from '../../lib/topics.ts'
import type { StageName } from '../../topology.ts'
import { UsageError } from '../../lib/run-command.ts'
import { isWaiting, matches, type Filter } from './board.ts'
import { placeOf, type Done, type Entry } from './letter.ts'
import { entriesOf, noLetter } from './look.ts'
import { noteMessage } from './notes.ts'
import type { DeadParts } from './parts.ts'
import { isReadBy, resent } from './resend.ts'

type Parts = Pick<DeadParts, 'read' | 'send' | 'now'>

/** Which letters are meant, and what the operator agreed to. */
export type Choice = {
  readonly stage: StageName
  readonly filter: Filter
  /** Also letters that were decided about before. */
  readonly again: boolean
  /** Needed when no single letter is named. */
  readonly yes: boolean
  /** So many at a time, the longest dead first. */
  readonly limit: number
}

export type Decided = {
  readonly stage: StageName
  readonly as: Done['as']
  readonly letters: readonly string[]
  /** Others that fit the filters, beyond the limit. */
  readonly left: number
}

/**
 * Sends letters back to the topics they came from, as they were, and notes that. A crash in between
 * sends them twice, which nothing counts twice; but each contact of a feed is a new one, so there
 * the notes come first.
 * @throws UsageError when no letter is meant, or one that can't be sent, or the choice is unclear.
 */
export async function replay (parts: Parts, choice: Choice): Promise<Decided> {
  const { stage } = choice
  const { chosen, left } = await choose(parts, choice, 'sent back')
  const strange = chosen.find(({ from }) => !isReadBy(stage, from.topic))
  if (strange !== undefined) {
    throw new UsageError(`Letter ${strange.place} came from no topic that ${stage} reads: it can ` +
      'only be discarded.')
  }
  const open = new Set(chosen.map(({ place }) => place))
  const letters: string[] = []
  await parts.read(deadTopic(stage), async messages => {
    const some = messages.filter(message => open.delete(placeOf(message)))
    if (some.length === 0) return
    const empty = some.find(({ headers }) => 'dead_value' in headers)
    if (empty !== undefined) {
      throw new UsageError(`Letter ${placeOf(empty)} was too large to keep its content: it can ` +
        'only be discarded.')
    }
    const done = { as: 'replayed', atMs: parts.now(), why: '' } as const
    const notes = some.map(raw => noteMessage(stage, { place: placeOf(raw), done }))
    const back = some.flatMap(raw => resent(stage, raw) ?? [])
    for (const step of stage === 'feed' ? [notes, back] : [back, notes]) await parts.send(step)
    letters.push(...some.map(placeOf))
  })
  return { stage, as: 'replayed', letters, left }
}

/**
 * Notes that nothing more is done about letters, and why; they stay where they lie until the topic
 * forgets them.
 * @throws UsageError as `replay`.
 */
export async function discard (parts: Parts, choice: Choice, why: string): Promise<Decided> {
  const { stage } = choice
  const { chosen, left } = await choose(parts, choice, 'discarded')
  const done = { as: 'discarded', atMs: parts.now(), why } as const
  await parts.send(chosen.map(({ place }) => noteMessage(stage, { place, done })))
  return { stage, as: 'discarded', letters: chosen.map(({ place }) => place), left }
}

async function choose (
  parts: Parts, { stage, filter, again, yes, limit }: Choice, what: string
): Promise<{ readonly chosen: readonly Entry[], readonly left: number }> {
  const meant = (await entriesOf(parts, stage)).filter(entry => matches(entry, filter))
  const { place } = filter
  if (place !== undefined) return { chosen: [theOne(meant, { stage, place, again })], left: 0 }
  const fitting = meant.filter(entry => again || isWaiting(entry))
  if (fitting.length === 0) throw new UsageError(`No letter of ${stage} that waits fits this.`)
  const chosen = fitting.slice(0, limit)
  const left = fitting.length - chosen.length
  if (!yes) {
    const rest = left > 0 ? ` (${left} more are left, see --limit)` : ''
    throw new UsageError(
      `${lettersIn(chosen.length)} of ${stage} would be ${what}${rest}. Add --yes to do it.`)
  }
  return { chosen, left }
}

function theOne (
  [entry]: readonly Entry[],
  { stage, place, again }: { stage: StageName, place: string, again: boolean }
): Entry {
  if (entry === undefined) throw noLetter(stage, place)
  const last = entry.done.at(-1)
  if (last === undefined || again) return entry
  const when = new Date(last.atMs).toISOString()
  throw new UsageError(`Letter ${place} of ${stage} was ${last.as} at ${when}. Add --again to do ` +
    'it all the same.')
}

const lettersIn = (count: number) => count === 1 ? '1 letter' : `${count} letters`
