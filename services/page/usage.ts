import type { RouteOptions } from 'fastify'
import type { UsageBody, UsageGroup } from '../../schemas/api/account.ts'
import { ROW_STATUSES, type RowStatus } from '../../schemas/api/verdicts.ts'
import { customerRoutes, type PageDeps, sendCsv, type Visit } from './context.ts'
import { count, html, type Html, money } from './html.ts'
import { VERDICTS } from './job-components.ts'
import { customerPage, emptyState, sendHtml, table } from './layout.ts'

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
export function firstOfDays (days: number): string {
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
export function usageCharts (usage: UsageBody): Html {
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
