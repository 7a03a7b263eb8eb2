import type { RouteOptions } from 'fastify'
import type { UsageBody, UsageGroup } from '../../schemas/api/usage.ts'
import { customerRoutes, type PageDeps, sendCsv, type Visit } from './context.ts'
import { count, html, money, type Html } from './html.ts'
import { customerPage, emptyState, sendHtml, table } from './layout.ts'

/** The choices of a time range, in days. */
const RANGES = [7, 30, 90] as const
const DEFAULT_RANGE = 30
const DAY_MS = 86_400_000

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
  return { days, from: toDate(Date.now() - (days - 1) * DAY_MS) }
}

const toDate = (ms: number) => new Date(ms).toISOString().slice(0, 10)

/** The page of usage; groups are by day, service and key. */
function usageView (visit: Visit, usage: UsageBody, days: number): Html {
  const { mode } = visit.tenant
  const { data, total } = usage
  return customerPage(visit, {
    title: 'Usage',
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
          <section><h2>Rows by day</h2>${chart(usage, summed(data, 'day'))}</section>
          <section><h2>By service</h2>${groupTable('Service', summed(data, 'service'))}</section>
          <section><h2>By API key</h2>${groupTable('API key', summed(data, 'key'))}</section>`}`,
  })
}

type Sum = Pick<UsageGroup, typeof SUMMED[number]>
const SUMMED = ['jobs', 'totalRows', 'freshRecords', 'cacheHits', 'chargedMicros'] as const

/** The groups added up by one of their names. */
function summed (
  groups: readonly UsageGroup[], by: 'day' | 'service' | 'key'
): ReadonlyMap<string, Sum> {
  const sums = new Map<string, Record<typeof SUMMED[number], number>>()
  for (const group of groups) {
    const name = group[by] ?? ''
    const sum = sums.get(name) ??
      { jobs: 0, totalRows: 0, freshRecords: 0, cacheHits: 0, chargedMicros: 0 }
    for (const field of SUMMED) sum[field] += group[field]
    sums.set(name, sum)
  }
  return sums
}

const WIDTH = 1_000
const HEIGHT = 200
const GAP = 2
/** A day with rows is always visible. */
const MIN_HEIGHT = 2

/**
 * A bar per day: rows checked live, below rows from the cache and rows without a check. The table
 * below has the same numbers.
 */
function chart ({ from, to }: UsageBody, sums: ReadonlyMap<string, Sum>): Html {
  // Every date of the range, those without a job included.
  const days: string[] = []
  for (let ms = Date.parse(from); ms < Date.parse(to); ms += DAY_MS) days.push(toDate(ms))
  const highest = Math.max(1, ...[...sums.values()].map(({ totalRows }) => totalRows))
  const width = WIDTH / days.length
  const bars = days.map((day, index) => {
    const sum = sums.get(day)
    return sum !== undefined && bar(sum, { day, x: index * width, width: width - GAP, highest })
  })
  return html`
    <svg class="chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img"
      aria-label="Rows by day from ${days[0]} to ${days.at(-1)}, at most ${count(highest)}. The
        table below has the numbers.">${bars}</svg>
    ${groupTable('Day', new Map([...sums].toSorted(([one], [other]) => one < other ? 1 : -1)))}`
}

function bar (
  { totalRows, freshRecords, cacheHits }: Sum,
  { day, x, width, highest }: Readonly<Record<'x' | 'width' | 'highest', number>> & { day: string }
): Html {
  const segments = [
    ['one', freshRecords], ['two', cacheHits], ['six', totalRows - freshRecords - cacheHits],
  ] as const
  let bottom = HEIGHT
  return html`<g><title>${day}: ${count(totalRows)} rows, ${count(freshRecords)} checked live,
    ${count(cacheHits)} from your cache</title>${segments.map(([tone, rows]) => {
      if (rows === 0) return false
      const height = Math.max(MIN_HEIGHT, HEIGHT * rows / highest)
      bottom -= height
      const y = Math.max(0, bottom)
      return html`<rect class="tone-${tone}" x="${x.toFixed(2)}" y="${y.toFixed(2)}"
        width="${width.toFixed(2)}" height="${height.toFixed(2)}"/>`
    })}</g>`
}

function groupTable (name: string, sums: ReadonlyMap<string, Sum>): Html {
  const number = (text: string, of: (sum: Sum) => string) =>
    ({ text, isNumber: true, cell: ([, sum]: readonly [string, Sum]) => of(sum) })
  return table(`Usage by ${name}`, sums, [
    { text: name, isHeader: true, cell: ([group]) => group === '' ? 'Unknown' : group },
    number('Jobs', ({ jobs }) => count(jobs)),
    number('Rows', ({ totalRows }) => count(totalRows)),
    number('Checked live', ({ freshRecords }) => count(freshRecords)),
    number('From your cache', ({ cacheHits }) => count(cacheHits)),
    number('Charged', ({ chargedMicros }) => money(chargedMicros)),
  ])
}
