import type { JobStatusResource } from '../../client/client.ts'
import { count, share } from './format.ts'
import { html, type Html } from './html.ts'

/** A part of all rows of a job; `tone` names its colour. */
export type Part = { readonly name: string, readonly rows: number, readonly tone: string }

type Counts = Pick<JobStatusResource,
  'id' | 'totalRows' | 'freshRecords' | 'cacheHits' | 'duplicateRows' | 'invalidRows' |
  'successRecords' | 'failedRecords'>

const WIDTH = 1_000
const HEIGHT = 28
/** A part that is there is seen, however small it is. */
const THINNEST = 4

/** Where the verdicts of a job come from; what is not finished yet is open. */
export function partsOf (job: Counts): readonly Part[] {
  const { freshRecords, cacheHits, duplicateRows, invalidRows, totalRows } = job
  const known = freshRecords + cacheHits + duplicateRows + invalidRows
  return [
    { name: 'Checked live', rows: freshRecords, tone: 'one' },
    { name: 'From your cache', rows: cacheHits, tone: 'two' },
    { name: 'Duplicates', rows: duplicateRows, tone: 'three' },
    { name: 'Not readable', rows: invalidRows, tone: 'four' },
    { name: 'Open', rows: Math.max(0, totalRows - known), tone: 'five' },
  ]
}

/** The widths of the parts, which fill the whole; what is there has at least a few units. */
export function widthsOf (parts: readonly Part[]): readonly number[] {
  const whole = parts.reduce((sum, { rows }) => sum + rows, 0)
  if (whole === 0) return parts.map(() => 0)
  const wished = parts.map(({ rows }) =>
    rows === 0 ? 0 : Math.max(THINNEST, WIDTH * rows / whole))
  const sum = wished.reduce((all, width) => all + width, 0)
  return wished.map(width => width * WIDTH / sum)
}

/** The breakdown of a job: a bar of its parts, and the same as a table. */
export function breakdown (job: Counts): Html {
  const parts = partsOf(job)
  return html`<div class="breakdown" id="breakdown-${job.id}">
    ${bar(parts, job.totalRows)}
    <table>
      <caption class="unseen">Rows by where their verdicts come from</caption>
      <thead><tr><th scope="col">Rows</th><th scope="col" class="number">Number</th>
        <th scope="col" class="number">Share</th></tr></thead>
      <tbody>${parts.map(({ name, rows, tone }) => html`<tr>
        <th scope="row">${swatch(tone)} ${name}</th>
        <td class="number">${count(rows)}</td>
        <td class="number">${share(rows, job.totalRows)}</td>
      </tr>`)}</tbody>
      <tfoot>
        <tr><th scope="row">With a verdict</th><td class="number">${count(job.successRecords)}</td>
          <td class="number">${share(job.successRecords, job.totalRows)}</td></tr>
        <tr><th scope="row">Without a verdict, free</th>
          <td class="number">${count(job.failedRecords)}</td>
          <td class="number">${share(job.failedRecords, job.totalRows)}</td></tr>
      </tfoot>
    </table>
  </div>`
}

function bar (parts: readonly Part[], whole: number): Html {
  const widths = widthsOf(parts)
  const told = parts.filter(({ rows }) => rows > 0)
    .map(({ name, rows }) => `${name} ${share(rows, whole)}`)
  let x = 0
  const rects = parts.map(({ name, rows, tone }, index) => {
    const width = widths[index] ?? 0
    const rect = width > 0 && html`<rect class="tone-${tone}" x="${x.toFixed(2)}" y="0"
      width="${width.toFixed(2)}" height="${HEIGHT}"><title>${name}: ${count(rows)}</title></rect>`
    x += width
    return rect
  })
  return html`<svg class="bar" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none"
    role="img" aria-label="Where verdicts come from: ${told.join(', ')}.">${rects}</svg>`
}

function swatch (tone: string): Html {
  return html`<svg class="swatch" viewBox="0 0 10 10" width="10" height="10" aria-hidden="true"
    focusable="false"><rect class="tone-${tone}" width="10" height="10" rx="2"/></svg>`
}
