import type { RouteOptions } from 'fastify'
import type { UsageBody } from '../../schemas/api/account.ts'
import { ROW_STATUSES } from '../../schemas/api/verdicts.ts'
import type { AttemptBody } from '../../schemas/api/webhooks.ts'
import type { Client, JobStatusResource } from '../client/client.ts'
import { topUpHint } from './balance.ts'
import { customerRoutes, may, type PageDeps, type Visit } from './context.ts'
import { count, html, type Html, money, share, time } from './html.ts'
import { jobTable, OUTCOMES, uploadLink, VERDICTS } from './job-components.ts'
import { badge, customerPage, emptyState, figure, sendHtml, table } from './layout.ts'
import { firstOfDays, usageCharts } from './usage.ts'

const LATEST_JOBS = 5
const DAYS = 30

/** The first page: verdicts and money of the last days, failing webhooks and the latest jobs. */
export function overviewRoutes (deps: PageDeps): readonly RouteOptions[] {
  return [customerRoutes(deps)('GET', '/:mode/overview', {
    access: 'overview.view', navigation: 'Overview',
  }, async ({ visit, reply }) => {
    const { client, visitor } = visit
    const [balance, usage, page, failing] = await Promise.all([
      may(visitor, 'balance.view') ? client.balance() : undefined,
      may(visitor, 'usage.view')
        ? client.usage({ from: firstOfDays(DAYS), group_by: 'day' })
        : undefined,
      may(visitor, 'jobs.view') ? client.jobsPage({ limit: LATEST_JOBS }) : undefined,
      may(visitor, 'webhooks.view') ? findFailing(client) : [],
    ])
    const overview = { balance, usage, jobs: page?.data, failing }
    return sendHtml(reply, overviewView(visit, overview, deps.supportUrl))
  })]
}

/** What the role of the visitor may see. */
type Overview = {
  readonly balance: Awaited<ReturnType<Client['balance']>> | undefined
  readonly usage: UsageBody | undefined
  readonly jobs: readonly JobStatusResource[] | undefined
  readonly failing: readonly FailingEndpoint[]
}

type FailingEndpoint = { readonly id: string, readonly url: string, readonly attempt: AttemptBody }

/** The enabled endpoints whose latest attempt failed. */
async function findFailing (client: Client): Promise<readonly FailingEndpoint[]> {
  const endpoints = (await client.webhookEndpoints()).filter(({ enabled }) => enabled)
  const latest = await Promise.all(endpoints.map(async ({ id, url }) => {
    const first = await client.endpointDeliveries(id)[Symbol.asyncIterator]().next()
    return first.done === true ? [] : [{ id, url, attempt: first.value }]
  }))
  return latest.flat()
    .filter(({ attempt: { outcome } }) => outcome !== 'delivered' && outcome !== 'discarded')
}

function overviewView (
  visit: Visit, { balance, usage, jobs, failing }: Overview, supportUrl: string
): Html {
  const { mode } = visit.tenant
  const hasJobs = jobs !== undefined && jobs.length > 0
  return customerPage(visit, {
    title: 'Overview',
    scripts: ['live.js', 'charts.js'],
    body: html`
      <div class="heading"><h1>Overview</h1>${hasJobs && uploadLink(visit)}</div>
      ${failing.length > 0 && failingWebhooks(visit, failing)}
      <dl class="figures">
        ${balance && figure('Available', money(balance.availableMicros), mode === 'test'
          ? 'Test jobs are free'
          : topUpHint(supportUrl))}
        ${balance && balance.reservedMicros > 0 && figure('Reserved',
          money(balance.reservedMicros), 'The maximum price of running jobs')}
        ${usage && usageFigures(usage)}
      </dl>
      ${usage && usage.data.length > 0 && html`${usageCharts(usage)}
      <p class="hint">Jobs that have ended in the last ${DAYS} days, by the day of their creation in
        UTC. <a href="/${mode}/usage">Usage</a> has the numbers.</p>`}
      ${jobs && html`<section>
        <div class="heading"><h2>Latest jobs</h2>
          ${hasJobs && html`<a href="/${mode}/jobs">All jobs</a>`}</div>
        ${hasJobs
          ? jobTable(visit, jobs)
          : emptyState('No job yet. Verify a file of phone numbers or e-mail addresses, or send ' +
            'jobs through the REST interface.', uploadLink(visit))}
      </section>`}`,
  })
}

function usageFigures ({ total }: UsageBody): Html {
  const whole = ROW_STATUSES.reduce((sum, status) => sum + total.verdicts[status], 0)
  const [name] = VERDICTS.valid
  return html`
    ${figure('Charged', money(total.chargedMicros), `In ${DAYS} days, for ${count(total.jobs)} ${
      total.jobs === 1 ? 'job' : 'jobs'}`)}
    ${whole > 0 && figure(name, share(total.verdicts.valid, whole),
      `Of ${count(whole)} rows in ${DAYS} days`)}`
}

function failingWebhooks (
  { tenant: { mode }, zone }: Visit, failing: readonly FailingEndpoint[]
): Html {
  return html`<section class="first"><h2>Failing webhooks</h2>
    ${table('Failing webhooks', failing, [
      {
        text: 'Endpoint',
        isHeader: true,
        look: 'job',
        cell: ({ id, url }) => html`<a href="/${mode}/webhooks/${id}">${url}</a>`,
      },
      {
        text: 'Latest attempt',
        cell: ({ attempt: { outcome } }) => badge(...OUTCOMES[outcome] ?? [outcome, 'muted']),
      },
      { text: 'Answer', isNumber: true, cell: ({ attempt }) => attempt.statusCode ?? '–' },
      { text: 'Why', cell: ({ attempt }) => attempt.reason ?? '–' },
      { text: 'When', cell: ({ attempt }) => time(attempt.attemptedAt, zone) },
    ])}
  </section>`
}
