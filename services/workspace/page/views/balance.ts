import type { Client, JobStatusResource } from '../../../client/client.ts'
import { NOTHING, post } from '../../../money/fold.ts'
import type { Visit } from '../context.ts'
import { money, signedMoney, time } from '../format.ts'
import { html, type Html } from '../html.ts'
import { customerPage } from '../layout.ts'
import type { Movement, MovementPage } from '../movements.ts'
import { emptyState, jobTable, table } from './parts.ts'

type Balance = Awaited<ReturnType<Client['balance']>>

/** The first page: money and the latest jobs. */
export function overviewView (
  visit: Visit, { balance, jobs }: { balance: Balance, jobs: readonly JobStatusResource[] }
): Html {
  const { mode } = visit.tenant
  const upload = html`<a class="button" href="/${mode}/upload">Verify a file</a>`
  return customerPage(visit, 'overview', {
    title: 'Overview',
    scripts: ['live.js'],
    body: html`
      <div class="heading"><h1>Overview</h1>${jobs.length > 0 && upload}</div>
      ${figures(balance)}
      <section>
        <div class="heading"><h2>Latest jobs</h2>
          ${jobs.length > 0 && html`<a href="/${mode}/jobs">All jobs</a>`}</div>
        ${jobs.length === 0
          ? emptyState('No job yet. Verify a file of phone numbers or e-mail addresses, or send ' +
            'jobs through the REST interface.', upload)
          : jobTable(jobs, { mode, zone: visit.zone })}
      </section>`,
  })
}

/** The balance and what moved it. */
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
        <p class="hint">From the journal, newest first. A movement shows up within seconds.</p>
        ${page.movements.length === 0 ? noMovements(mode) : movementTable(visit, page)}
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
    ${figure('Reserved', reservedMicros, 'What running jobs may cost at most')}
    ${figure('Balance', balanceMicros, 'Both together, in USD')}
  </dl>`
}

function noMovements (mode: string): Html {
  return emptyState(mode === 'test'
    ? 'Nothing moved: test jobs are free.'
    : 'Nothing moved yet. Money is added by whoever runs this installation.')
}

function movementTable (visit: Visit, { movements }: MovementPage): Html {
  return table('Movements', [
    { text: 'When' }, { text: 'What' },
    { text: 'Change', isNumber: true }, { text: 'Charged', isNumber: true },
    { text: 'Available after', isNumber: true },
  ], movements.map(movement => html`<tr>
    <td>${time(movement.atMs, visit.zone)}</td>
    <td>${wordsOf(movement)}${movement.job !== '' && html`
      <br><a class="id" href="/${visit.tenant.mode}/jobs/${movement.job}">${movement.job}</a>`}</td>
    <td class="number">${signedMoney(post(NOTHING, movement).availableMicros)}</td>
    <td class="number">${movement.chargeMicros === 0 ? '–' : money(movement.chargeMicros)}</td>
    <td class="number">${money(movement.availableMicros)}</td>
  </tr>`))
}

/** What a movement is called. */
export function wordsOf ({ type, reason }: Pick<Movement, 'type' | 'reason'>): string {
  switch (type) {
    case 'topup': return reason === '' ? 'Top-up' : `Top-up: ${reason}`
    case 'adjust': return reason === '' ? 'Correction' : `Correction: ${reason}`
    case 'reserve': return 'Reserved for a job'
    case 'settle': return 'Job settled, rest released'
    case 'void': return 'Reservation released'
    default: return type
  }
}
