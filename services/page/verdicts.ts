import type { VerdictsBody } from '../../schemas/api/job.ts'
import {
  PREFLIGHT_REASONS, ROW_STATUSES, type RowStatus,
} from '../../schemas/api/verdicts.ts'
import { ApiError, type Client, type JobStatusResource } from '../client/client.ts'
import { type Segment, shareBar, swatch, VERDICTS } from './charts.ts'
import { count, html, type Html, share } from './html.ts'
import { table } from './layout.ts'

/**
 * How good the rows of a job are: verdicts and reasons, while it runs and at its end. Live updates
 * replace this element by its id.
 */
export function quality (job: JobStatusResource): Html {
  const { id, verdicts, reasons } = job
  return html`<div class="breakdown" id="quality-${id}">${verdicts === null || reasons === null
    ? html`<p class="hint">The verdicts of this job were not counted. The file has them.</p>`
    : html`${verdictTable(verdicts, job.totalRows)}
      ${bounceEstimate(job)}
      ${reasonTable(reasons)}`}</div>`
}

type Reasons = NonNullable<JobStatusResource['reasons']>

function verdictTable (verdicts: VerdictsBody, totalRows: number): Html {
  const open = totalRows - sumOf(verdicts)
  const segments = [
    ...segmentsOf(verdicts), ...open > 0 ? [{ name: 'Open', rows: open, tone: 'seven' }] : [],
  ]
  return html`${shareBar('Verdicts', segments, totalRows)}
    <table>
      <caption class="unseen">Rows by verdict</caption>
      <thead><tr><th scope="col">Verdict</th><th scope="col" class="number">Rows</th>
        <th scope="col" class="number">Share</th></tr></thead>
      <tbody>${segments.map(({ name, rows, tone }) => html`<tr>
        <th scope="row">${swatch(tone)} ${name}</th>
        <td class="number">${count(rows)}</td>
        <td class="number">${share(rows, totalRows)}</td></tr>`)}</tbody>
    </table>`
}

function segmentsOf (verdicts: VerdictsBody): readonly Segment[] {
  return Object.entries(VERDICTS).map(([status, [name, tone]]) =>
    ({ name, tone, rows: verdicts[status as RowStatus] }))
}

function sumOf (verdicts: VerdictsBody): number {
  return ROW_STATUSES.reduce((sum, status) => sum + verdicts[status], 0)
}

function reasonTable (reasons: Reasons): Html | false {
  const sorted = Object.entries(reasons).toSorted(([, one], [, other]) => other - one)
  const whole = sorted.reduce((sum, [, rows]) => sum + rows, 0)
  return sorted.length > 0 && html`<table>
    <caption class="unseen">Rows by reason</caption>
    <thead><tr><th scope="col">Reason</th><th scope="col"><span class="unseen">Drawn</span></th>
      <th scope="col" class="number">Rows</th></tr></thead>
    <tbody>${sorted.map(([reason, rows]) => html`<tr>
      <th scope="row">${reason.replaceAll('_', ' ')}</th>
      <td class="drawn">${shareBar('Share', [
        { name: reason, rows, tone: 'two' }, { name: 'others', rows: whole - rows, tone: 'seven' },
      ], whole)}</td>
      <td class="number">${count(rows)}</td></tr>`)}</tbody>
  </table>`
}

const isUnreadable = (reason: string) => PREFLIGHT_REASONS.some(name => name === reason)

/** What part of the addresses would bounce, at least and at most. */
function bounceEstimate ({ service, verdicts, reasons }: JobStatusResource): Html | false {
  if (service !== 'email-validation' || verdicts === null || reasons === null) return false
  const unreadable = Object.entries(reasons).filter(([reason]) => isUnreadable(reason))
    .reduce((sum, [, rows]) => sum + rows, 0)
  const mailed = sumOf(verdicts) - unreadable
  if (mailed <= 0) return false
  const least = Math.max(0, verdicts.invalid - unreadable)
  const most = least + verdicts.risky + verdicts.unknown
  const range = `${share(least, mailed)} to ${share(most, mailed)}`
  return html`<p><strong>Bounce estimate: ${range}.</strong>
    <span class="hint">If you mailed all ${count(mailed)} readable addresses, at least the invalid
      ones would bounce, and at most also every risky and every unknown one.</span></p>`
}

/** What rows can be grouped by, with the services that have the column. */
const GROUPS = {
  country: 'Country',
  line_type: 'Line type',
  mail_provider: 'Mail provider',
  domain: 'Domain',
} as const

type Group = keyof typeof GROUPS

/** For each column the values with the most rows, by verdict; no other part of a row is kept. */
export type JobSummary = ReadonlyMap<Group, readonly Counted[]>
type Counted = readonly [value: string, verdicts: VerdictsBody]

const MAX_GROUPS = 10
/** Beyond that, new values count together: a list of addresses can have a domain per row. */
const MAX_VALUES = 20_000

/**
 * Counts the results of an ended job in one pass, for each of its columns that groups rows.
 * undefined when they are erased or older than their retention.
 */
export async function summarize (
  client: Client, { id, service }: JobStatusResource
): Promise<JobSummary | undefined> {
  const { columns = [] } = (await client.services()).find(({ slug }) => slug === service) ?? {}
  const isPhone = !columns.includes('domain')
  const groups = (Object.keys(GROUPS) as Group[]).filter(group =>
    isPhone ? ['country', 'line_type'].includes(group) : columns.includes(group))
  const summary = new Map(groups.map(group =>
    [group, new Map<string, Record<RowStatus, number>>()]))
  try {
    for await (const row of client.resultLines(id, { columns: ['status', ...groups] })) {
      for (const [group, values] of summary) {
        const value = String(row[group] ?? '')
        const name = values.size < MAX_VALUES || values.has(value) ? value : OTHERS
        const verdicts = values.get(name) ?? { valid: 0, invalid: 0, risky: 0, unknown: 0 }
        verdicts[row.status as RowStatus] += 1
        values.set(name, verdicts)
      }
    }
  } catch (error) {
    if (error instanceof ApiError && error.status === 410) return undefined
    throw error
  }
  return new Map([...summary].map(([group, values]) => [group, mostRows(values)]))
}

/** The values with the most rows, and the others together. */
function mostRows (values: ReadonlyMap<string, VerdictsBody>): readonly Counted[] {
  const sorted = [...values].toSorted(([, one], [, other]) => sumOf(other) - sumOf(one))
  const rest = sorted.slice(MAX_GROUPS)
  if (rest.length === 0) return sorted
  const sum = { valid: 0, invalid: 0, risky: 0, unknown: 0 }
  for (const [, verdicts] of rest) {
    for (const status of ROW_STATUSES) sum[status] += verdicts[status]
  }
  return [...sorted.slice(0, MAX_GROUPS), [OTHERS, sum]]
}

/** Names no value: values of columns have no spaces around them. */
const OTHERS = ' others'

/** The summary of a job: for each column the values with the most rows. */
export function summaryTables (summary: JobSummary): Html {
  return html`<div class="columns">${[...summary].map(([group, values]) => html`
    <section><h2>${GROUPS[group]}</h2>${table(`Rows by ${GROUPS[group].toLowerCase()}`, values, [
      { text: GROUPS[group], isHeader: true, look: 'job', cell: ([value]) => nameOf(group, value) },
      { text: 'Rows', isNumber: true, cell: ([, verdicts]) => count(sumOf(verdicts)) },
      {
        text: 'Valid',
        isNumber: true,
        cell: ([, verdicts]) => share(verdicts.valid, sumOf(verdicts)),
      },
      {
        text: 'Verdicts',
        look: 'drawn',
        cell: ([, verdicts]) => shareBar('Verdicts', segmentsOf(verdicts), sumOf(verdicts)),
      },
    ])}</section>`)}</div>`
}

const countries = new Intl.DisplayNames('en', { type: 'region' })

function nameOf (group: Group, value: string): string {
  if (value === '') return 'Not known'
  if (value === OTHERS) return 'All others'
  return group === 'country' ? countries.of(value) ?? value : value.replaceAll('_', ' ')
}
