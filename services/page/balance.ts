import type { FastifyReply, RouteOptions } from 'fastify'
import type { Journal } from '../../schemas/types.ts'
import { tenantOf } from '../accounts/tenant.ts'
import type { Client, JobStatusResource } from '../client/client.ts'
import { post, ZERO_AMOUNTS } from '../money/prices.ts'
import { customerRoutes, type Exchange, may, type PageDeps, type Visit } from './context.ts'
import { html, type Html, money, signedMoney, time } from './html.ts'
import { jobTable } from './job-components.ts'
import { customerPage, emptyState, sendHtml, table } from './layout.ts'

const LATEST_JOBS = 5
const MOVEMENTS_PER_PAGE = 50

/** The overview, and the balance with its movements. */
export function balanceRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  return [
    route('GET', '/:mode/overview', { access: 'overview.view' }, sendOverview),
    route('GET', '/:mode/balance', { access: 'balance.view' },
      exchange => sendBalance(deps, exchange)),
  ]
}

async function sendOverview ({ visit, reply }: Exchange): Promise<FastifyReply> {
  const [balance, page] = await Promise.all([
    may(visit.visitor, 'balance.view') ? visit.client.balance() : undefined,
    may(visit.visitor, 'jobs.view') ? visit.client.jobsPage({ limit: LATEST_JOBS }) : undefined,
  ])
  return sendHtml(reply, overviewView(visit, { balance, jobs: page?.data }))
}

async function sendBalance (
  { journal }: PageDeps, { visit, request, reply }: Exchange
): Promise<FastifyReply> {
  const { orgId, mode } = visit.tenant
  const { before } = request.query as { readonly before?: unknown }
  const [balance, page] = await Promise.all([
    visit.client.balance(),
    readMovements(journal, tenantOf(orgId, mode), {
      limit: MOVEMENTS_PER_PAGE,
      before: /^\d{1,15}$/.test(String(before)) ? Number(before) : undefined,
    }),
  ])
  return sendHtml(reply, balanceView(visit, { balance, page }))
}

/** A page of journal entries, newest first. */
type MovementPage = {
  readonly movements: readonly Journal[]
  /** The cursor of the next page; undefined on the last page. */
  readonly before: number | undefined
}

/** Reads a page of a tenant's entries before the number `before`, or from the newest entry on. */
export async function readMovements (
  journal: PageDeps['journal'], tenant: string,
  { limit, before }: { readonly limit: number, readonly before: number | undefined }
): Promise<MovementPage> {
  const entries = await journal.readNewest(tenant, { limit: limit + 1, before })
  const movements = entries.slice(0, limit)
  const isLast = entries.length <= limit
  return { movements, before: isLast ? undefined : movements.at(-1)?.seq }
}

type Balance = Awaited<ReturnType<Client['balance']>>

/** What the role of the visitor may see. */
type Overview = {
  readonly balance: Balance | undefined
  readonly jobs: readonly JobStatusResource[] | undefined
}

/** The first page: money and the latest jobs. */
export function overviewView (visit: Visit, { balance, jobs }: Overview): Html {
  const { mode } = visit.tenant
  const upload = may(visit.visitor, 'jobs.change') && html`
    <a class="button" href="/${mode}/upload">Verify a file</a>`
  const hasJobs = jobs !== undefined && jobs.length > 0
  return customerPage(visit, 'overview', {
    title: 'Overview',
    scripts: ['live.js'],
    body: html`
      <div class="heading"><h1>Overview</h1>${hasJobs && upload}</div>
      ${balance && figures(balance)}
      ${jobs && html`<section>
        <div class="heading"><h2>Latest jobs</h2>
          ${hasJobs && html`<a href="/${mode}/jobs">All jobs</a>`}</div>
        ${hasJobs
          ? jobTable(jobs, { mode, zone: visit.zone })
          : emptyState('No job yet. Verify a file of phone numbers or e-mail addresses, or send ' +
            'jobs through the REST interface.', upload)}
      </section>`}`,
  })
}

/** The balance and its movements. */
export function balanceView (
  visit: Visit, { balance, page }: { balance: Balance, page: MovementPage }
): Html {
  const { mode } = visit.tenant
  return customerPage(visit, 'balance', {
    title: 'Balance',
    body: html`
      <h1>Balance</h1>
      ${figures(balance)}
      <section>
        <h2>Movements</h2>
        <p class="hint">From the journal, newest first. New movements appear within seconds.</p>
        ${page.movements.length === 0
          ? emptyState(mode === 'test'
            ? 'No movements: test jobs are free.'
            : 'No movements yet. The operator of this installation adds money.')
          : movementTable(visit, page)}
        ${page.before !== undefined && html`
          <p><a class="button quiet" href="/${mode}/balance?before=${page.before}">Older
            movements</a></p>`}
      </section>`,
  })
}

function figures ({ availableMicros, reservedMicros, balanceMicros }: Balance): Html {
  const figure = (name: string, micros: number, hint: string) => html`
    <div class="figure"><dt>${name}</dt><dd class="amount">${money(micros)}</dd>
      <dd class="hint">${hint}</dd></div>`
  return html`<dl class="figures">
    ${figure('Available', availableMicros, 'What new jobs can reserve')}
    ${figure('Reserved', reservedMicros, 'The maximum price of running jobs')}
    ${figure('Balance', balanceMicros, 'Available and reserved, in USD')}
  </dl>`
}

function movementTable (visit: Visit, { movements }: MovementPage): Html {
  return table('Movements', [
    { text: 'When' }, { text: 'What' },
    { text: 'Change', isNumber: true }, { text: 'Charged', isNumber: true },
    { text: 'Available after', isNumber: true },
  ], movements.map(movement => html`<tr>
    <td>${time(movement.at, visit.zone)}</td>
    <td>${movementLabel(movement)}${movement.job !== '' && html`
      <br>${jobLink(visit, movement.job)}`}</td>
    <td class="number">${signedMoney(post(ZERO_AMOUNTS, movement).availableMicros)}</td>
    <td class="number">${movement.chargeMicros === 0 ? '–' : money(movement.chargeMicros)}</td>
    <td class="number">${money(movement.availableMicros)}</td>
  </tr>`))
}

function jobLink ({ visitor, tenant }: Visit, id: string): Html {
  return may(visitor, 'jobs.view')
    ? html`<a class="id" href="/${tenant.mode}/jobs/${id}">${id}</a>`
    : html`<span class="id">${id}</span>`
}

/** The text for a movement by its type; the type itself when it is unknown. */
export function movementLabel ({ type, reason }: Pick<Journal, 'type' | 'reason'>): string {
  switch (type) {
    case 'topup': return reason === '' ? 'Top-up' : `Top-up: ${reason}`
    case 'adjust': return reason === '' ? 'Correction' : `Correction: ${reason}`
    case 'reserve': return 'Reserved for a job'
    case 'settle': return 'Job settled, rest released'
    case 'void': return 'Reservation released'
    default: return type
  }
}
