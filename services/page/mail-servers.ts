import type { RouteOptions } from 'fastify'
import type { Sample } from '../runtime/platform/metrics.ts'
import type { PageDeps } from './context.ts'
import { count, html, type Html, share } from './html.ts'
import { badge, emptyState, operatorRoute, table } from './layout.ts'
import { missingText, type PipelineStatus } from './pipeline/figures.ts'

/** The page of mail servers for operators. */
export function mailServerRoute (deps: PageDeps): RouteOptions {
  return operatorRoute(deps, '/mail-servers', mailServersView)
}

/** What may be asked of one owner of mail servers from one egress, and how it answered. */
type EgressFigures = {
  readonly owner: string
  readonly egress: string
  readonly recipientsAMinute: number
  readonly sessions: number
  /** 0 while it may ask. */
  readonly restingSeconds: number
  readonly recent: Answers
}

/** Recipients with a reply in this hour and the one before, by what the servers said of them. */
type Answers = { readonly asked: number, readonly verdicts: number, readonly blocks: number }

type OwnerFigures = {
  readonly owner: string
  readonly waiting: number
  readonly egresses: number
  readonly resting: number
  readonly recent: Answers
}

/** The mail servers that checks of mailboxes ask: by owner, and by egress at each. */
function mailServersView (status: PipelineStatus): Html {
  const { samples } = status
  const egresses = readEgresses(samples)
  const owners = readOwners(samples, egresses)
  const number = <Row>(text: string, cell: (row: Row) => string) =>
    ({ text, isNumber: true, cell })
  const answers = [
    number<{ recent: Answers }>('Asked', ({ recent }) => count(recent.asked)),
    number<{ recent: Answers }>('With a verdict', ({ recent: { asked, verdicts } }) =>
      asked === 0 ? NO_VALUE : share(verdicts, asked)),
    number<{ recent: Answers }>('Blocks', ({ recent }) => count(recent.blocks)),
  ]
  return html`
    <p class="hint">${missingText(status)} Replies are those
      of this hour and the one before.</p>
    ${owners.length === 0
      ? emptyState('No mail server was asked today, and no row waits for one.')
      : html`
        <section><h2>Owners of mail servers</h2>
          ${table('Owners of mail servers', owners, [
            { text: 'Owner', isHeader: true, cell: ({ owner }) => nameOwner(owner) },
            number('Rows that wait', ({ waiting }) => count(waiting)),
            number('Egresses that rest', ({ resting, egresses }) => egresses === 0
              ? NO_VALUE
              : `${count(resting)} of ${count(egresses)}`),
            ...answers,
          ])}
        </section>
        <section><h2>Egresses</h2>
          ${table('Egresses', egresses, [
            { text: 'Owner', isHeader: true, cell: ({ owner }) => nameOwner(owner) },
            { text: 'Egress', cell: ({ egress }) => html`<code>${egress}</code>` },
            {
              text: 'State',
              cell: ({ restingSeconds, sessions }) => {
                if (restingSeconds > 0) {
                  return badge(`rests for ${durationText(restingSeconds)}`, 'bad')
                }
                return sessions > 0 ? badge('asks', 'running') : badge('idle', 'muted')
              },
            },
            number('Recipients a minute', ({ recipientsAMinute }) =>
              count(Math.round(recipientsAMinute))),
            number('Sessions', ({ sessions }) => count(sessions)),
            ...answers,
          ])}
        </section>`}`
}

const NO_VALUE = '–'
/** The owners that have no policy of their own, in metrics. */
const OTHER_OWNERS = 'other'

const nameOwner = (owner: string) => owner === OTHER_OWNERS ? 'all others' : owner

const MINUTE_S = 60
const HOUR_S = 3_600

function durationText (seconds: number): string {
  if (seconds < MINUTE_S) return `${Math.ceil(seconds)} s`
  if (seconds < HOUR_S) return `${Math.ceil(seconds / MINUTE_S)} min`
  return `${(seconds / HOUR_S).toFixed(1)} h`
}

/**
 * Every egress at every owner, those with the most recipients first. All processes report the same
 * memory, some of them a little later, so the greatest value counts.
 */
function readEgresses (samples: readonly Sample[]): readonly EgressFigures[] {
  const greatest = new Map<string, Map<string, number>>()
  for (const { name, labels: { owner, egress, outcome }, value } of samples) {
    if (owner === undefined || egress === undefined) continue
    const key = JSON.stringify([owner, egress])
    const values = greatest.get(key) ?? new Map<string, number>()
    greatest.set(key, values)
    const figure = outcome === undefined ? name : `${name} ${outcome}`
    values.set(figure, Math.max(values.get(figure) ?? 0, value))
  }
  return [...greatest].map(([key, values]) => {
    const [owner, egress] = JSON.parse(key) as readonly [string, string]
    const readFigure = (figure: string) => values.get(figure) ?? 0
    const [verdicts, blocks, others] = ['verdict', 'block', 'other'].map(outcome =>
      readFigure(`mailbox_egress_recent_recipients ${outcome}`)) as [number, number, number]
    return {
      owner,
      egress,
      recipientsAMinute: readFigure('mailbox_egress_recipients_per_minute'),
      sessions: readFigure('mailbox_egress_sessions'),
      restingSeconds: readFigure('mailbox_egress_resting_seconds'),
      recent: { asked: verdicts + blocks + others, verdicts, blocks },
    }
  }).toSorted((one, other) => other.recent.asked - one.recent.asked)
}

/** The sums of all egresses of an owner, with the rows that wait in all processes. */
function readOwners (
  samples: readonly Sample[], egresses: readonly EgressFigures[]
): readonly OwnerFigures[] {
  const waiting = samples.filter(({ name }) => name === 'mailbox_rows_waiting')
  const names = new Set([
    ...egresses.map(({ owner }) => owner),
    ...waiting.filter(({ value }) => value > 0).map(({ labels }) => labels.owner ?? ''),
  ])
  return [...names].map(owner => {
    const parts = egresses.filter(egress => egress.owner === owner)
    const total = (figure: keyof Answers) =>
      parts.reduce((sum, { recent }) => sum + recent[figure], 0)
    return {
      owner,
      waiting: waiting.filter(({ labels }) => labels.owner === owner)
        .reduce((sum, { value }) => sum + value, 0),
      egresses: parts.length,
      resting: parts.filter(({ restingSeconds }) => restingSeconds > 0).length,
      recent: { asked: total('asked'), verdicts: total('verdicts'), blocks: total('blocks') },
    }
  }).toSorted((one, other) =>
    other.waiting - one.waiting || other.recent.asked - one.recent.asked)
}
