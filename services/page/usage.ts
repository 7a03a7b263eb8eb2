import type { RouteOptions } from 'fastify'
import type { AttemptBody } from '../../schemas/api/webhooks.ts'
import type { UsageBody, UsageGroup } from '../../schemas/api/account.ts'
import { ROW_STATUSES, type RowStatus } from '../../schemas/api/verdicts.ts'
import type { Journal } from '../../schemas/types.ts'
import { tenantOf } from '../accounts/tenant.ts'
import type { Client, JobStatusResource } from '../client/client.ts'
import { post, readNote, ZERO_AMOUNTS } from '../money/prices.ts'
import {
  customerRoutes, type LogPage, may, type PageDeps, readLogPage, sendCsv, type Visit,
} from './context.ts'
import { count, html, type Html, money, share, signedMoney, time } from './html.ts'
import { jobTable, OUTCOMES, uploadLink, VERDICTS } from './job-components.ts'
import { badge, customerPage, emptyState, figure, sendHtml, table } from './layout.ts'

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

/** The choices of a time range, in days. */
const RANGES = [7, 30, 90] as const
const DEFAULT_RANGE = 30

/** The usage of the last days: a chart by day, and tables by service and key. */
export function usageRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  return [
    route('GET', '/:mode/usage', {
      access: 'usage.view', navigation: 'Usage',
    }, async ({ visit, request, reply }) => {
      const { days, from } = readRange(request.query)
      const usage = await visit.client.usage({ from, group_by: 'day,service,key' })
      return sendHtml(reply, usageView(visit, usage, days))
    }),
    route('GET', '/:mode/usage.csv', {
      access: 'usage.view', records: 'usage.downloaded',
    }, async ({ visit, request, reply }) => {
      const { from } = readRange(request.query)
      const csv = await visit.client.usageFile({ from, group_by: 'day,service,key' })
      return sendCsv(reply, 'usage.csv', csv)
    }),
  ]
}

/** The chosen number of days, the last one included, and the date of the first. */
function readRange (query: unknown): { readonly days: number, readonly from: string } {
  const { days: wanted } = query as { readonly days?: unknown }
  const days = RANGES.find(range => String(range) === wanted) ?? DEFAULT_RANGE
  return { days, from: firstOfDays(days) }
}

/** The page of usage; groups are by day, service and key. */
function usageView (visit: Visit, usage: UsageBody, days: number): Html {
  const { mode } = visit.tenant
  const { data, total } = usage
  return customerPage(visit, {
    title: 'Usage',
    scripts: ['charts.js'],
    body: html`
      <div class="heading"><h1>Usage</h1>
        <a class="button quiet" download
          href="/${mode}/usage.csv?days=${days}">Download CSV</a></div>
      <nav class="modes" aria-label="Time">${RANGES.map(range => html`
        <a href="/${mode}/usage?days=${range}"${range === days && html` aria-current="page"`}>${
          range} days</a>`)}</nav>
      <p class="hint">Jobs that have ended, by the day of their creation in UTC.
        ${count(total.jobs)} jobs, ${count(total.totalRows)} rows,
        ${money(total.chargedMicros)} charged.</p>
      ${data.length === 0
        ? emptyState('No job was created in this time.')
        : html`
          ${usageCharts(usage)}
          <section><h2>By day</h2>${groupTable('Day', newestFirst(summed(data, 'day')))}</section>
          <section><h2>By service</h2>${groupTable('Service', summed(data, 'service'))}</section>
          <section><h2>By API key</h2>${groupTable('API key', summed(data, 'key'))}</section>`}`,
  })
}

type Sum = Record<typeof SUMMED[number] | RowStatus, number>
const SUMMED = ['jobs', 'totalRows', 'freshRecords', 'cacheHits', 'chargedMicros'] as const
const NOTHING = Object.fromEntries([...SUMMED, ...ROW_STATUSES].map(name => [name, 0])) as Sum

/** The groups added up by one of their names. */
function summed (
  groups: readonly UsageGroup[], by: 'day' | 'service' | 'key'
): ReadonlyMap<string, Sum> {
  const sums = new Map<string, Sum>()
  for (const group of groups) {
    const name = group[by] ?? ''
    const sum = sums.get(name) ?? { ...NOTHING }
    for (const field of SUMMED) sum[field] += group[field]
    for (const status of ROW_STATUSES) sum[status] += group.verdicts[status]
    sums.set(name, sum)
  }
  return sums
}

const newestFirst = (sums: ReadonlyMap<string, Sum>) =>
  new Map([...sums].toSorted(([one], [other]) => one < other ? 1 : -1))

function groupTable (name: string, sums: ReadonlyMap<string, Sum>): Html {
  const number = (text: string, of: (sum: Sum) => string) =>
    ({ text, isNumber: true, cell: ([, sum]: readonly [string, Sum]) => of(sum) })
  return table(`Usage by ${name}`, sums, [
    {
      text: name,
      isHeader: true,
      cell: ([group]) => group === '' ? 'Unknown' : group,
      ...name === 'Day' && { look: 'day' }
    },
    number('Jobs', ({ jobs }) => count(jobs)),
    number('Rows', ({ totalRows }) => count(totalRows)),
    ...Object.entries(VERDICTS).map(([status, [text]]) =>
      number(text, sum => count(sum[status as RowStatus]))),
    number('Checked live', ({ freshRecords }) => count(freshRecords)),
    number('From your cache', ({ cacheHits }) => count(cacheHits)),
    number('Charged', ({ chargedMicros }) => money(chargedMicros)),
  ])
}

const DAY_MS = 86_400_000
const MICROS = 1_000_000

const toDate = (ms: number) => new Date(ms).toISOString().slice(0, 10)

/** The first of the last days, today included, as a date in UTC. */
function firstOfDays (days: number): string {
  return toDate(Date.now() - (days - 1) * DAY_MS)
}

type DayChart = {
  readonly name: string
  readonly unit: 'rows' | 'usd'
  readonly series: readonly {
    readonly name: string
    readonly tone: string
    readonly valueOf: (usage: UsageGroup) => number
  }[]
}

/** Usage by day as stacked bars, which the script `charts.js` draws; missing days are 0. */
function dayChart ({ from, to, data: groups }: UsageBody, { name, unit, series }: DayChart): Html {
  const days: string[] = []
  for (let ms = Date.parse(from); ms < Date.parse(to); ms += DAY_MS) days.push(toDate(ms))
  const data = {
    unit,
    days,
    series: series.map(({ name, tone, valueOf }) => ({
      name,
      tone,
      values: days.map(day => groups.filter(group => group.day === day)
        .reduce((sum, group) => sum + valueOf(group), 0)),
    })),
  }
  return html`<section><h2>${name} by day</h2>
    <div class="chart"><canvas role="img" data-chart="${JSON.stringify(data)}"
      aria-label="${name} by day from ${days[0]} to ${days.at(-1)}."></canvas></div></section>`
}

/** Rows by verdict and day, and money charged by day. */
function usageCharts (usage: UsageBody): Html {
  return html`<div class="columns">
    ${dayChart(usage, {
      name: 'Verdicts',
      unit: 'rows',
      series: Object.entries(VERDICTS).map(([status, [name, tone]]) =>
        ({ name, tone, valueOf: ({ verdicts }) => verdicts[status as RowStatus] })),
    })}
    ${dayChart(usage, {
      name: 'Charges',
      unit: 'usd',
      series: [{
        name: 'Charged', tone: 'two', valueOf: ({ chargedMicros }) => chargedMicros / MICROS,
      }],
    })}
  </div>`
}

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
function topUpHint (supportUrl: string): Html {
  return supportUrl === ''
    ? html`Your contact at the service tops it up`
    : html`<a href="${supportUrl}">Top up</a>`
}
