import type { RouteOptions } from 'fastify'
import type { Journal } from '../../schemas/types.ts'
import { tenantOf } from '../accounts/tenant.ts'
import type { Client } from '../client/client.ts'
import { readNote } from '../money/entry-reason.ts'
import { post, ZERO_AMOUNTS } from '../money/prices.ts'
import {
  customerRoutes, type LogPage, may, type PageDeps, readLogPage, type Visit,
} from './context.ts'
import { html, type Html, money, signedMoney, time } from './html.ts'
import { customerPage, emptyState, figure, sendHtml, table } from './layout.ts'

/** The balance with its movements. */
export function balanceRoutes (deps: PageDeps): readonly RouteOptions[] {
  return [customerRoutes(deps)('GET', '/:mode/balance', {
    access: 'balance.view', navigation: 'Balance',
  }, async ({ visit, request, reply }) => {
    const { orgId, mode } = visit.tenant
    const [balance, page] = await Promise.all([
      visit.client.balance(),
      readLogPage(request, range => deps.journal.readNewest(tenantOf(orgId, mode), range)),
    ])
    return sendHtml(reply, balanceView(visit, balance, page, deps.supportUrl))
  })]
}

type Balance = Awaited<ReturnType<Client['balance']>>

function balanceView (
  visit: Visit, { availableMicros, reservedMicros, balanceMicros }: Balance,
  { entries, older }: LogPage<Journal>, supportUrl: string
): Html {
  const { mode } = visit.tenant
  return customerPage(visit, {
    title: 'Balance',
    body: html`
      <h1>Balance</h1>
      <dl class="figures">
        ${figure('Available', money(availableMicros), 'What new jobs can reserve')}
        ${figure('Reserved', money(reservedMicros), 'The maximum price of running jobs')}
        ${figure('Balance', money(balanceMicros), 'Available and reserved, in USD')}
      </dl>
      ${mode === 'live' && html`<p class="hint">${topUpHint(supportUrl)}</p>`}
      <section>
        <h2>Movements</h2>
        <p class="hint">From the journal, newest first. New movements appear within seconds.</p>
        ${entries.length === 0
          ? emptyState(mode === 'test'
            ? 'No movements: test jobs are free.'
            : 'No movements yet.')
          : movementTable(visit, entries)}
        ${older !== undefined && html`
          <p><a class="button quiet" href="/${mode}/balance?before=${older}">Older
            movements</a></p>`}
      </section>`,
  })
}

function movementTable (visit: Visit, movements: readonly Journal[]): Html {
  const { visitor, tenant, zone } = visit
  const jobLink = (id: string) => may(visitor, 'jobs.view')
    ? html`<a class="id" href="/${tenant.mode}/jobs/${id}">${id}</a>`
    : html`<span class="id">${id}</span>`
  return table('Movements', movements, [
    { text: 'When', cell: ({ at }) => time(at, zone) },
    {
      text: 'What',
      cell: movement => html`${movementLabel(movement)}${movement.job !== '' && html`
        <br>${jobLink(movement.job)}`}`,
    },
    {
      text: 'Change',
      isNumber: true,
      cell: movement => signedMoney(post(ZERO_AMOUNTS, movement).availableMicros),
    },
    {
      text: 'Charged',
      isNumber: true,
      cell: ({ chargeMicros }) => chargeMicros === 0 ? '–' : money(chargeMicros),
    },
    {
      text: 'Available after',
      isNumber: true,
      cell: ({ availableMicros }) => money(availableMicros),
    },
  ])
}

/** The text for a movement by its type; the type itself when it is unknown. */
function movementLabel (movement: Journal): string {
  const note = readNote(movement)
  const more = note === '' ? '' : `: ${note}`
  switch (movement.type) {
    case 'topup': return `Top-up${more}`
    case 'adjust': return `Correction${more}`
    case 'reserve': return 'Reserved for a job'
    case 'settle': return 'Job settled, rest released'
    case 'void': return 'Reservation released'
    default: return movement.type
  }
}

/** How a customer adds money: only the operator of the service does. */
export function topUpHint (supportUrl: string): Html {
  return supportUrl === ''
    ? html`Your contact at the service tops it up`
    : html`<a href="${supportUrl}">Top up</a>`
}
