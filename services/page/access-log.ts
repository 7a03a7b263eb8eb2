import { Readable } from 'node:stream'
import type { FastifyRequest, RouteOptions } from 'fastify'
import {
  ACCESS_COLUMNS, accessRecord, type NumberedEntry, ORGANIZATION_ACTIONS,
} from '../accounts/access-log/access-log.ts'
import { guardedLine } from '../jobs/results/csv.ts'
import {
  customerRoutes, type LogPage, type PageDeps, readLogPage, sendCsv, type Visit,
} from './context.ts'
import { html, time, type Html } from './html.ts'
import { badge, customerPage, emptyState, select, sendHtml, table } from './layout.ts'
import { type Addresses, readAddresses } from './people.ts'

const ENTRIES_PER_READ = 1_000

/** The filter of the list by field; '' means no filter. */
type Filter = { readonly action: string, readonly actor: string }

/** The access log of an organization, which both modes share: a list with a filter, and a file. */
export function accessLogRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  return [
    route('GET', '/:mode/access-log', {
      access: 'access_log.view', navigation: 'Access log',
    }, async ({ visit, request, reply }) => {
      const filter = readFilter(request)
      const page = await readLogPage(request, range =>
        deps.accessCopy.newest({ ...filter, ...range, organization: visit.tenant.orgId }))
      const addresses = await readAddresses(deps.people, visit)
      return sendHtml(reply, accessLogView(visit, { ...page, filter, addresses }))
    }),
    route('GET', '/:mode/access-log.csv', {
      access: 'access_log.view', records: 'access_log.exported',
    }, async ({ visit, request, reply }) =>
      sendCsv(reply, 'access-log.csv', Readable.from(writeCsv(deps, visit, readFilter(request))))),
  ]
}

function readFilter ({ query }: FastifyRequest): Filter {
  const { action, actor } = query as Readonly<Record<string, unknown>>
  return {
    action: ORGANIZATION_ACTIONS.find(name => name === action) ?? '',
    actor: typeof actor === 'string' ? actor.trim() : '',
  }
}

async function * writeCsv (
  { accessCopy }: PageDeps, { tenant }: Visit, filter: Filter
): AsyncGenerator<string> {
  yield guardedLine(ACCESS_COLUMNS)
  for (let before: number | undefined; ;) {
    const entries = await accessCopy.newest({
      ...filter, organization: tenant.orgId, before, limit: ENTRIES_PER_READ,
    })
    yield entries.map(entry =>
      guardedLine(Object.values(accessRecord(forCustomers(entry))))).join('')
    if (entries.length < ENTRIES_PER_READ) return
    before = entries.at(-1)?.seq
  }
}

type ListView = LogPage<NumberedEntry> & {
  readonly filter: Filter
  readonly addresses: Addresses
}

/** The access log, newest first. */
function accessLogView (visit: Visit, { entries, older, filter, addresses }: ListView): Html {
  const path = `/${visit.tenant.mode}/access-log`
  const isFiltered = filter.action !== '' || filter.actor !== ''
  const query = String(new URLSearchParams(filter))
  return customerPage(visit, {
    title: 'Access log',
    body: html`
      <div class="heading"><h1>Access log</h1>
        <a class="button quiet" download href="${path}.csv?${query}">Download CSV</a></div>
      <p class="hint">Sign-ins, keys, downloads, erasures and changes, of live and test mode. New
        entries appear within seconds, and nobody can change or remove one unnoticed.</p>
      <form class="filter" method="get" role="search" aria-label="Access log">
        <label>Action ${select('action', filter.action, [
          ['', 'Any'], ...ORGANIZATION_ACTIONS.map(name => [name, actionText(name)] as const),
        ])}</label>
        <label>Actor <input type="text" name="actor" value="${filter.actor}"></label>
        <button class="button quiet" type="submit">Show</button>
      </form>
      ${entries.length > 0
        ? entryTable(visit, entries, addresses)
        : isFiltered
          ? emptyState('No entry matches the filter.', html`
            <a class="button quiet" href="${path}">Show all entries</a>`)
          : emptyState('No entry yet.')}
      ${older !== undefined && html`<p><a class="button quiet"
        href="${path}?${query}&amp;before=${older}">Older entries</a></p>`}`,
  })
}

/** An action in words: `key.created` is `Key created`. */
function actionText (action: string): string {
  const text = action.replaceAll(/[._]/g, ' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}

const ACTORS: Readonly<Record<string, string>> = {
  key: 'API key', person: 'Person', link: 'Sign-in link', operator: 'Operator',
}

function entryTable (
  { zone }: Visit, entries: readonly NumberedEntry[], addresses: Addresses
): Html {
  const named = (id: string) => html`<span class="id">${id}</span>${addresses.has(id) && html`<br>
    <span class="hint">${addresses.get(id)}</span>`}`
  return table('Access log', entries, [
    { text: 'When', cell: ({ at }) => time(at, zone) },
    {
      text: 'What',
      cell: entry => {
        const result = OUTCOMES[entry.outcome]
        return html`${actionText(entry.action)} ${result && badge(...result)}${detailText(entry)}`
      },
    },
    { text: 'On', cell: ({ target }) => target === '' ? '–' : named(target) },
    {
      text: 'Who',
      cell: ({ actor, actorKind }) => html`${ACTORS[actorKind] ?? actorKind}<br>${named(actor)}`,
    },
    { text: 'Address', cell: ({ address }) => address === '' ? '–' : address },
  ])
}

/** How a request ended, unless it is done. The result of an attempt comes when it is recorded. */
const OUTCOMES: Readonly<Record<string, readonly [text: string, tone: string]>> = {
  attempted: ['Result not known', 'waiting'],
  refused: ['Refused', 'bad'],
  incomplete: ['Incomplete', 'waiting'],
  failed: ['Failed', 'bad'],
}

/** Without the reason, which operators write for operators. */
function forCustomers (entry: NumberedEntry): NumberedEntry {
  if (entry.actorKind !== 'operator' || entry.details === '') return entry
  const { reason: _, ...details } = JSON.parse(entry.details) as Readonly<Record<string, string>>
  return { ...entry, details: Object.keys(details).length === 0 ? '' : JSON.stringify(details) }
}

function detailText (entry: NumberedEntry): Html | false {
  const { details } = forCustomers(entry)
  if (details === '') return false
  const texts = Object.entries(JSON.parse(details) as Readonly<Record<string, string>>)
  return html`<br><span class="hint">${
    texts.map(([name, text]) => `${name}: ${text}`).join(', ')}</span>`
}
