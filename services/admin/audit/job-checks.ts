import { parse } from 'csv-parse'
import { Readable } from 'node:stream'
import type { Journal } from '../../../schemas/types.ts'
import type { Attempt } from '../../webhooks/delivery-history.ts'
import { isDeliveryOf } from '../../jobs/events.ts'
import type { Job } from '../../jobs/job.ts'
import { breachUnless, type TenantBreaches } from './report.ts'

const DAY_MS = 86_400_000
/** The last attempt is made 75 h 35 min after the first, plus or minus a fifth. */
const MAX_DELIVERY_MS = 4 * DAY_MS

/**
 * The counts of a result file. They are read with another CSV library than the one that wrote it.
 */
type ResultCounts = {
  readonly rows: number
  /** Row number of the first line out of order; 0 when there is none. */
  readonly outOfOrder: number
  /** Rows that were checked live for this job and have a verdict. */
  readonly billable: number
  readonly succeeded: number
  /** Rows whose results were lost. The counts of their duplicates are unknown. */
  readonly internal: number
  readonly bySource: Readonly<Record<string, number>>
}

/** Reads a result file to its end; rejects for invalid CSV. */
export async function countResults (
  csv: AsyncIterable<string | Uint8Array>
): Promise<ResultCounts> {
  const counts = { rows: 0, outOfOrder: 0, billable: 0, succeeded: 0, internal: 0 }
  const bySource: Record<string, number> = {}
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
    const { source = '' } = record
    bySource[source] = (bySource[source] ?? 0) + 1
  }
  return { ...counts, bySource }
}

/**
 * Checks that each reserve entry has a job, and that each job has one reserve entry and, once it
 * has ended, one settle or void entry. Jobs reserved before `recordsSinceMs` may have expired.
 */
export function checkEntries (
  jobs: readonly Job[], entries: readonly Journal[], recordsSinceMs = -Infinity
): TenantBreaches {
  const byJob = Map.groupBy(entries.filter(({ job }) => job !== ''), ({ job }) => job)
  const known = new Set(jobs.map(({ id }) => id))
  const unknown = [...byJob].flatMap(([job, [first]]) =>
    known.has(job) || (first !== undefined && first.at < recordsSinceMs) ? [] : [job])
  return [
    ...unknown.flatMap(job => breachUnless(false, {
      rule: 'every reservation has a job',
      job,
      detail: 'the job is neither open in Redis nor archived in ClickHouse',
    })),
    ...jobs.flatMap(job => checkEntriesOf(job, byJob.get(job.id) ?? [])),
  ]
}

function checkEntriesOf (job: Job, entries: readonly Journal[]): TenantBreaches {
  const reserves = entries.filter(({ type }) => type === 'reserve')
  const ends = entries.filter(({ type }) => type === 'settle' || type === 'void')
  const { maxQuoteMicros } = job.preflight
  const of = { job: job.id }
  return [
    ...breachUnless(reserves.length === 1 && reserves[0]?.amountMicros === maxQuoteMicros, {
      ...of,
      rule: 'one reserve of the maximum quote per job',
      detail: `${reserves.length} reserve entries of ${amountsOf(reserves)}, the quote is ` +
        `${maxQuoteMicros}`,
    }),
    ...breachUnless(ends.length === (job.ended ? 1 : 0), {
      ...of,
      rule: 'one settle or void per ended job, none before',
      detail: `${ends.length} settle or void entries for a job that ` +
        (job.ended ? 'has ended' : 'is running'),
    }),
    ...ends.flatMap(({ amountMicros, chargeMicros }) => breachUnless(
      amountMicros === maxQuoteMicros && chargeMicros === job.chargedMicros &&
      chargeMicros >= 0 && chargeMicros <= maxQuoteMicros, {
        ...of,
        rule: 'charge within the quote, the rest released',
        detail: `the entry charges ${chargeMicros} of ${amountMicros}, the job ` +
          `${job.chargedMicros} of ${maxQuoteMicros}`,
      })),
    ...breachUnless(!job.ended || job.chargedMicros + job.releasedMicros === maxQuoteMicros, {
      ...of,
      rule: 'charged + released = reserved',
      detail: `${job.chargedMicros} + ${job.releasedMicros} is not ${maxQuoteMicros}`,
    }),
  ]
}

/**
 * Checks that a result file has every row once and matches the charge and the counts of its job.
 */
export function checkResults (job: Job, results: ResultCounts): TenantBreaches {
  const { totalRows } = job.preflight
  const { counts, counts: { successRecords, failedRecords } } = job
  const charge = results.billable * job.unitPriceMicros
  const of = { job: job.id }
  const counters = [
    ['cache', 'cacheHits', counts.cacheHits],
    ['live', 'freshRecords', counts.freshRecords],
    ['preflight', 'invalidRecords', counts.invalidRecords],
    ['duplicate', 'duplicateRecords', counts.duplicateRecords],
    ['none', 'unknownRecords + cancelledRecords', counts.unknownRecords + counts.cancelledRecords],
  ] as const
  return [
    ...breachUnless(results.rows === totalRows && results.outOfOrder === 0, {
      ...of,
      rule: 'every row once, in order',
      detail: `${results.rows} of ${totalRows} rows, first row out of order: ` +
        (results.outOfOrder === 0 ? 'none' : `${results.outOfOrder}`),
    }),
    ...breachUnless(charge === job.chargedMicros, {
      ...of,
      rule: 'charge = billable rows x unit price',
      detail: `${results.billable} x ${job.unitPriceMicros} is ${charge}, ` +
        `charged ${job.chargedMicros}`,
    }),
    ...breachUnless(results.internal > 0 || results.succeeded === successRecords, {
      ...of,
      rule: 'successRecords = rows with a verdict',
      detail: `${successRecords} in the job, ${results.succeeded} in the results`,
    }),
    ...breachUnless(successRecords + failedRecords === totalRows, {
      ...of,
      rule: 'successRecords + failedRecords = totalRows',
      detail: `${successRecords} + ${failedRecords} is not ${totalRows}`,
    }),
    ...counters.flatMap(([source, name, counted]) => {
      const { [source]: found = 0 } = results.bySource
      return breachUnless(counted === found, {
        ...of,
        rule: 'each counter = its rows by source',
        detail: `${name} is ${counted}, ${found} rows in the results are of the source ${source}`,
      })
    }),
  ]
}

/** Checks that as many slots are held as jobs with fresh rows run. */
export function checkSlots (openJobs: readonly Job[], slots: number): TenantBreaches {
  const running = openJobs.filter(({ ended, preflight }) => !ended && preflight.freshChecks > 0)
  return breachUnless(slots === running.length, {
    rule: 'exactly the running jobs with fresh rows hold a slot',
    detail: `${slots} slots are held, ${running.length} such jobs run`,
  })
}

function amountsOf (entries: readonly Journal[]): string {
  return entries.map(({ amountMicros }) => amountMicros).join(', ') || 'nothing'
}

/** Checks that no open job is older than a day. */
export function checkAges (openJobs: readonly Job[], nowMs: number): TenantBreaches {
  return openJobs.flatMap(({ id, createdAtMs }) => breachUnless(nowMs - createdAtMs < DAY_MS, {
    rule: 'every job ends within a day',
    job: id,
    detail: `it was created at ${new Date(createdAtMs).toISOString()} and is still open`,
  }))
}

/**
 * Checks that all delivery attempts are of the job's events, and that another attempt follows a
 * failed one of the same delivery within four days, unless the delivery has ended. An event of
 * progress needs no other attempt: the next one replaces it.
 */
export function checkDeliveries (
  job: Job, attempts: readonly Attempt[], nowMs: number
): TenantBreaches {
  const foreign = attempts.find(attempt => !isDeliveryOf(job, attempt))
  const deliveries = [...Map.groupBy(attempts, ({ event }) => event)]
  return [
    ...breachUnless(foreign === undefined, {
      rule: 'deliveries are of events of their job',
      job: job.id,
      detail: `an attempt delivered ${foreign?.event} as ${foreign?.type}, which is not an event ` +
        'of the job',
    }),
    ...deliveries.flatMap(([delivery, made]) => {
      const last = made.at(-1)
      const isLate = last?.outcome === 'failed' && last.type !== 'job.progress' &&
        nowMs - last.atMs > MAX_DELIVERY_MS
      return breachUnless(!isLate, {
        rule: 'every delivery ends',
        job: job.id,
        detail: `the last of ${made.length} attempts to deliver ${delivery} failed more than 4 ` +
          'days ago, and no other followed',
      })
    }),
  ]
}
