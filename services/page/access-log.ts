import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { ORGANIZATION_ACTIONS, type NumberedEntry } from '../accounts/access-log/entry.ts'
import { ACCESS_COLUMNS, accessRecord } from '../accounts/access-log/records.ts'
import { guardedLine } from '../jobs/results/csv.ts'
import { customerRoutes, type Exchange, type PageDeps, type Visit } from './context.ts'
import { html, time, type Html } from './html.ts'
import { select } from './job-list.ts'
import { customerPage, emptyState, sendHtml, table } from './layout.ts'
import { type Addresses, addressesOf } from './people.ts'

const ENTRIES_PER_PAGE = 50
const ENTRIES_PER_READ = 1_000

/** The filter of the list by field; '' means no filter. */
type Filter = { readonly action: string, readonly actor: string }

/** The access log of an organization, which both modes share: a list with a filter, and a file. */
export function accessLogRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  return [
    route('GET', '/:mode/access-log', { access: 'access_log.view' },
      exchange => sendList(deps, exchange)),
    route('GET', '/:mode/access-log.csv', {
      access: 'access_log.view', records: 'access_log.exported',
    }, async ({ visit, request, reply }) =>
      reply.type('text/csv; charset=utf-8')
        .header('content-disposition', 'attachment; filename="access-log.csv"')
        .send(Readable.from(csvOf(deps, visit, filterOf(request))))),
  ]
}

async function sendList (
  { accessCopy, people }: PageDeps, { visit, request, reply }: Exchange
): Promise<FastifyReply> {
  const { before } = request.query as { readonly before?: unknown }
  const filter = filterOf(request)
  const found = await accessCopy.newest({
    ...filter,
    organization: visit.tenant.orgId,
    // One more shows whether there is a next page.
    limit: ENTRIES_PER_PAGE + 1,
    before: /^\d{1,15}$/.test(String(before)) ? Number(before) : undefined,
  })
  const entries = found.slice(0, ENTRIES_PER_PAGE)
  const older = found.length > ENTRIES_PER_PAGE ? entries.at(-1)?.seq : undefined
  const addresses = await addressesOf(people, visit)
  return sendHtml(reply, accessLogView(visit, { entries, older, filter, addresses }))
}

function filterOf ({ query }: FastifyRequest): Filter {
  const { action, actor } = query as Readonly<Record<string, unknown>>
  return {
    action: ORGANIZATION_ACTIONS.find(known => known === action) ?? '',
    actor: typeof actor === 'string' ? actor.trim() : '',
  }
}

async function * csvOf (
  { accessCopy }: PageDeps, { tenant }: Visit, filter: Filter
): AsyncGenerator<string> {
  yield guardedLine(ACCESS_COLUMNS)
  for (let before: number | undefined; ;) {
    const entries = await accessCopy.newest({
      ...filter, organization: tenant.orgId, before, limit: ENTRIES_PER_READ,
    })
    yield entries.map(entry => guardedLine(Object.values(accessRecord(entry)))).join('')
    if (entries.length < ENTRIES_PER_READ) return
    before = entries.at(-1)?.seq
  }
}

type ListView = {
  readonly entries: readonly NumberedEntry[]
  /** The cursor of the next page; undefined on the last page. */
  readonly older: number | undefined
  readonly filter: Filter
  readonly addresses: Addresses
}

/** The access log, newest first. */
function accessLogView (visit: Visit, list: ListView): Html {
  const { entries, older, filter } = list
  const { mode } = visit.tenant
  const isFiltered = filter.action !== '' || filter.actor !== ''
  return customerPage(visit, 'access-log', {
    title: 'Access log',
    body: html`
      <div class="heading"><h1>Access log</h1>
        <a class="button quiet" download
          href="/${mode}/access-log.csv?${queryOf(filter)}">Download CSV</a></div>
      <p class="hint">Sign-ins, keys, downloads, erasures and changes, of live and test mode. New
        entries appear within seconds, and nobody can change or remove one unnoticed.</p>
      ${filterForm(filter)}
      ${entries.length > 0
        ? entryTable(visit, list)
        : isFiltered
          ? emptyState('No entry matches the filter.', html`
            <a class="button quiet" href="/${mode}/access-log">Show all entries</a>`)
          : emptyState('No entry yet.')}
      ${older !== undefined && html`<p><a class="button quiet"
        href="/${mode}/access-log?${queryOf({ ...filter, before: String(older) })}">Older
        entries</a></p>`}`,
  })
}

const queryOf = (fields: Readonly<Record<string, string>>) => String(new URLSearchParams(fields))

function filterForm ({ action, actor }: Filter): Html {
  return html`<form class="filter" method="get" role="search" aria-label="Access log">
    <label>Action ${select(
      'action', action, ORGANIZATION_ACTIONS.map(name => [name, actionText(name)]))}</label>
    <label>Actor <input type="text" name="actor" value="${actor}"></label>
    <button class="button quiet" type="submit">Show</button>
  </form>`
}

/** An action in words: `key.created` is `Key created`. */
export function actionText (action: string): string {
  const text = action.replaceAll(/[._]/g, ' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}

const ACTORS: Readonly<Record<string, string>> = {
  key: 'API key', person: 'Person', link: 'Sign-in link', operator: 'Operator',
}

function entryTable ({ zone }: Visit, { entries, addresses }: ListView): Html {
  const named = (id: string) => html`<span class="id">${id}</span>${addresses.has(id) && html`<br>
    <span class="hint">${addresses.get(id)}</span>`}`
  return table('Access log', [
    { text: 'When' }, { text: 'What' }, { text: 'On' }, { text: 'Who' }, { text: 'Address' },
  ], entries.map(entry => html`<tr>
    <td>${time(entry.at, zone)}</td>
    <td>${actionText(entry.action)} ${resultBadge(entry)}${detailText(entry)}</td>
    <td>${entry.target === '' ? '–' : named(entry.target)}</td>
    <td>${ACTORS[entry.actorKind] ?? entry.actorKind}<br>${named(entry.actor)}</td>
    <td>${entry.address === '' ? '–' : entry.address}</td>
  </tr>`))
}

const OUTCOMES: Readonly<Record<string, readonly [text: string, tone: string]>> = {
  attempted: ['Result not known', 'waiting'],
  refused: ['Refused', 'bad'],
  incomplete: ['Incomplete', 'waiting'],
  failed: ['Failed', 'bad'],
}

/** Shows any result but `done`. That of an attempt is not known until it is recorded. */
function resultBadge ({ outcome }: NumberedEntry): Html | false {
  const [text, tone] = OUTCOMES[outcome] ?? []
  return text !== undefined && html`<span class="badge ${tone}">${text}</span>`
}

function detailText ({ details }: NumberedEntry): Html | false {
  if (details === '') return false
  const texts = Object.entries(JSON.parse(details) as Readonly<Record<string, string>>)
  return html`<br><span class="hint">${
    texts.map(([name, text]) => `${name}: ${text}`).join(', ')}</span>`
}
