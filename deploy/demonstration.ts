import { parse } from 'csv-parse/sync'
import type { Client, Created, JobRequest, JobStatusResource } from '../services/client/client.ts'

export type Show = (line: string) => void

const CSV_LINES = 6
const BAR = 30
const dollars = new Intl.NumberFormat('en-US', {
  style: 'currency', currency: 'USD', minimumFractionDigits: 4, maximumFractionDigits: 6,
})

/** Formats micros as dollars, for display only. */
const money = (micros: number) => `${dollars.format(micros / 1_000_000)} (${micros} micros)`

function showPreflight (created: Created, tookMs: number, show: Show): void {
  const { preflight } = created
  show(`  202 after ${Math.round(tookMs)} ms: ${created.id}, quote ${preflight.quoteId}`)
  show(`  preflight: ${preflight.totalRows} rows = ${preflight.invalidRows} invalid + ` +
    `${preflight.duplicateRows} duplicate + ${preflight.cacheHits} cached + ` +
    `${preflight.freshChecks} fresh`)
  show(`  reserved: at most ${money(preflight.maxQuoteMicros)}`)
}

function progressLine (job: JobStatusResource): string {
  const filled = Math.round(BAR * job.progressPercent / 100)
  const bar = '#'.repeat(filled).padEnd(BAR, '.')
  return `  [${bar}] ${String(job.progressPercent).padStart(3)} % ${job.status}`
}

/** Redraws one line on a terminal; elsewhere prints a line per change. */
function createProgress (show: Show): (job: JobStatusResource) => void {
  let last = ''
  return job => {
    const line = progressLine(job)
    if (line === last) return
    last = line
    if (process.stdout.isTTY) process.stdout.write(`\r${line.padEnd(60)}`)
    else show(line)
  }
}

function showEnd (job: JobStatusResource, csv: string, show: Show): void {
  const lines = csv.split('\r\n')
  show(`  ${job.successRecords} rows with a verdict, ${job.failedRecords} without`)
  show(`  money: reserved ${job.maxQuoteMicros} = charged ${job.chargedMicros} + released ` +
    `${job.releasedMicros} micros; charged ${money(job.chargedMicros)}`)
  show('  first lines of the result:')
  for (const line of lines.slice(0, CSV_LINES)) show(`    ${line}`)
}

/** Throws if the counters do not add up: the demonstration is also a test. */
function check (created: Created, job: JobStatusResource, csv: string): void {
  const records = parse(csv).length - 1
  const wrong = [
    job.status !== 'completed' && `the job is ${job.status}`,
    job.chargedMicros + job.releasedMicros !== created.preflight.maxQuoteMicros &&
      'charged and released do not add up to what was reserved',
    job.successRecords + job.failedRecords !== job.totalRows && 'the rows do not add up',
    records !== job.totalRows && `the result has ${records} rows instead of ${job.totalRows}`,
  ].filter(fault => fault !== false)
  if (wrong.length > 0) throw new Error(`${job.id}: ${wrong.join('; ')}`)
}

/** Posts a job, shows preflight, progress, result and money, and checks that they add up. */
export async function verifyAndShow (
  client: Client, request: JobRequest, show: Show
): Promise<void> {
  show(`\n${request.service}: ${request.inputs.length} contacts`)
  const sentAt = performance.now()
  const created = await client.createJob(request)
  showPreflight(created, performance.now() - sentAt, show)
  const job = await client.waitForEnd(created.id, { onProgress: createProgress(show) })
  if (process.stdout.isTTY) process.stdout.write('\n')
  show(`  ended ${Math.round(performance.now() - sentAt)} ms after it was sent`)
  const csv = await client.results(created.id)
  showEnd(job, csv, show)
  check(created, job, csv)
}
