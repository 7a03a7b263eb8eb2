import { Readable } from 'node:stream'
import { parse } from 'csv-parse'
import type { Journal } from '../../schemas/types.ts'
import type { Job } from '../jobs/job.ts'
import { breachUnless, type Breach } from './audit-report.ts'

type Found = readonly Omit<Breach, 'tenant'>[]

/** What a result file says, read by a parser that is not the one that wrote it. */
export type ResultCounts = {
  readonly rows: number
  /** Row number of the first line out of order; 0 when there is none. */
  readonly outOfOrder: number
  /** Checked live for this job, with a verdict. */
  readonly billable: number
  readonly succeeded: number
  /** Rows whose results were lost on the way; what is counted of their duplicates is not known. */
  readonly internal: number
}

/** Reads a result file to its end. */
export async function countResults (
  csv: AsyncIterable<string | Uint8Array>
): Promise<ResultCounts> {
  const counts = { rows: 0, outOfOrder: 0, billable: 0, succeeded: 0, internal: 0 }
  const records = Readable.from(csv).compose(parse({ columns: true }))
  for await (const record of records as AsyncIterable<Readonly<Record<string, string>>>) {
    counts.rows += 1
    if (counts.outOfOrder === 0 && record['row'] !== String(counts.rows)) {
      counts.outOfOrder = counts.rows
    }
    const hasVerdict = record['status'] !== 'unknown' && record['source'] !== 'preflight'
    if (hasVerdict) counts.succeeded += 1
    if (hasVerdict && record['source'] === 'live') counts.billable += 1
    if (record['reason'] === 'internal') counts.internal += 1
  }
  return counts
}

/** Every reservation has its job; each job one reserve entry and, once ended, one that ends it. */
export function checkEntries (jobs: readonly Job[], entries: readonly Journal[]): Found {
  const byJob = Map.groupBy(entries.filter(({ job }) => job !== ''), ({ job }) => job)
  const known = new Set(jobs.map(({ id }) => id))
  const lost = [...byJob.keys()].filter(job => !known.has(job))
  return [
    ...lost.flatMap(job => breachUnless(false, {
      law: 'every reservation has its job', job, detail: 'the job is neither open nor stored',
    })),
    ...jobs.flatMap(job => checkEntriesOf(job, byJob.get(job.id) ?? [])),
  ]
}

function checkEntriesOf (job: Job, entries: readonly Journal[]): Found {
  const reserves = entries.filter(({ type }) => type === 'reserve')
  const ends = entries.filter(({ type }) => type === 'settle' || type === 'void')
  const { maxQuoteMicros } = job.preflight
  const of = { job: job.id }
  return [
    ...breachUnless(reserves.length === 1 && reserves[0]?.amountMicros === maxQuoteMicros, {
      ...of,
      law: 'one reserve of the maximum quote a job',
      detail: `${reserves.length} of ${amountsOf(reserves)}, the quote is ${maxQuoteMicros}`,
    }),
    ...breachUnless(ends.length === (job.ended ? 1 : 0), {
      ...of,
      law: 'one settle or void for a job that has ended, none before',
      detail: `${ends.length} for a job that ${job.ended ? 'has ended' : 'runs'}`,
    }),
    ...ends.flatMap(({ amountMicros, chargeMicros }) => breachUnless(
      amountMicros === maxQuoteMicros && chargeMicros === job.chargedMicros &&
      chargeMicros >= 0 && chargeMicros <= maxQuoteMicros, {
        ...of,
        law: 'charge within the quote, the rest released',
        detail: `charged ${chargeMicros} of ${amountMicros}, the job says ${job.chargedMicros} ` +
          `of ${maxQuoteMicros}`,
      })),
    ...breachUnless(!job.ended || job.chargedMicros + job.releasedMicros === maxQuoteMicros, {
      ...of,
      law: 'charged + released = reserved',
      detail: `${job.chargedMicros} + ${job.releasedMicros} is not ${maxQuoteMicros}`,
    }),
  ]
}

/** The result file has every row once, and what was charged is what it shows. */
export function checkResults (job: Job, results: ResultCounts): Found {
  const { totalRows, invalidRows, duplicateRows } = job.preflight
  const { cacheHits, freshRecords, successRecords, failedRecords } = job.counts
  const charge = results.billable * job.unitPriceMicros
  const of = { job: job.id }
  const kinds = cacheHits + freshRecords + invalidRows + duplicateRows
  return [
    ...breachUnless(results.rows === totalRows && results.outOfOrder === 0, {
      ...of,
      law: 'every row once, in order',
      detail: `${results.rows} of ${totalRows} rows, first out of order: ${results.outOfOrder}`,
    }),
    ...breachUnless(charge === job.chargedMicros, {
      ...of,
      law: 'charge = billable rows x unit price',
      detail: `${results.billable} x ${job.unitPriceMicros} is ${charge}, ` +
        `charged ${job.chargedMicros}`,
    }),
    ...breachUnless(results.internal > 0 || results.succeeded === successRecords, {
      ...of,
      law: 'successRecords = rows with a verdict',
      detail: `${successRecords} counted, ${results.succeeded} in the results`,
    }),
    ...breachUnless(successRecords + failedRecords === totalRows, {
      ...of,
      law: 'successRecords + failedRecords = totalRows',
      detail: `${successRecords} + ${failedRecords} is not ${totalRows}`,
    }),
    ...breachUnless(kinds === totalRows, {
      ...of,
      law: 'cacheHits + freshRecords + invalidRows + duplicateRows = totalRows',
      detail: `${cacheHits} + ${freshRecords} + ${invalidRows} + ${duplicateRows} is not ` +
        `${totalRows}`,
    }),
  ]
}

/** Slots are held by exactly the jobs that run and have fresh rows. */
export function checkSlots (openJobs: readonly Job[], slots: readonly string[]): Found {
  const holders = openJobs.filter(({ ended, preflight }) => !ended && preflight.freshChecks > 0)
    .map(({ id }) => id)
  const held = new Set(slots)
  const without = holders.filter(job => !held.has(job))
  const extra = slots.filter(job => !holders.includes(job))
  return [
    ...without.flatMap(job => breachUnless(false, {
      law: 'a running job with fresh rows holds a slot', job, detail: 'it holds none',
    })),
    ...extra.flatMap(job => breachUnless(false, {
      law: 'only running jobs with fresh rows hold a slot', job, detail: 'it holds one',
    })),
  ]
}

function amountsOf (entries: readonly Journal[]): string {
  return entries.map(({ amountMicros }) => amountMicros).join(', ') || 'nothing'
}
