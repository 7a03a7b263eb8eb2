import { Readable } from 'node:stream'
import { parse } from 'csv-parse'
import { DEADLINE_SECONDS } from '../../../schemas/api/create-job.ts'
import type { Journal } from '../../../schemas/types.ts'
import type { Attempt } from '../../webhooks/deliveries.ts'
import { isDeliveryOf } from '../../webhooks/event.ts'
import type { Job, VerdictCounts } from '../../jobs/job.ts'
import { readReserveTerms } from '../../money/entry-reason.ts'
import { canonicalText, type Range } from '../../money/journal.ts'
import { AMOUNTS, type Amounts, post, ZERO_AMOUNTS } from '../../money/prices.ts'
import type { Balance } from '../../money/wallet.ts'
import { breachUnless, type TenantBreaches } from './report.ts'

/** The canonical texts of a tenant's entries, by number: several if they contradict each other. */
export type JournalTexts = ReadonlyMap<number, readonly string[]>

/** The movements of a tenant; `seq` is the number of the last one in Redis. */
export type StoredMovements = {
  readonly seq: number
  readonly outbox: readonly Journal[]
  /** By seq. */
  readonly copy: readonly Journal[]
  /** The number up to which contradictions are resolved, so that they are none any more. */
  readonly resolvedUpTo: number
}

/** Checks that every entry of the copy has its own number, up to that of the last movement. */
export function checkNumbers (
  { seq: last, copy, resolvedUpTo }: StoredMovements
): TenantBreaches {
  const wrong = (job: string, detail: string) =>
    breachUnless(false, { rule: 'the journal is numbered 1 to n', job, detail })
  return copy.flatMap(({ seq, job }, index) => {
    if (seq > last) return wrong(job, `entry ${seq} exists, but Redis has only ${last} movements`)
    if (seq !== copy[index - 1]?.seq || seq <= resolvedUpTo) return []
    return wrong(job, `two entries have the number ${seq}`)
  })
}

/**
 * Checks that every movement is in the copy or in Kafka, from which it can still be copied. One of
 * the outbox was not shipped although the audit waited for it; all others are lost.
 */
export function checkMovements (
  { seq: last, outbox, copy }: StoredMovements, kafka: JournalTexts = new Map()
): TenantBreaches {
  const copied = new Set(copy.map(({ seq }) => seq))
  const missing = Array.from({ length: last }, (_, index) => index + 1)
    .filter(seq => !copied.has(seq) && !kafka.has(seq))
  const inOutbox = new Set(outbox.map(({ seq }) => seq))
  const unshipped = toRanges(missing.filter(seq => inOutbox.has(seq)))
  const lost = toRanges(missing.filter(seq => !inOutbox.has(seq)))
  const details = [
    ...unshipped.map(range => `${rangeText(range, 'is', 'are')} in Redis alone: the outbox was ` +
      'not shipped to Kafka'),
    ...lost.map(range => `${rangeText(range, 'was', 'were')} lost from the journal before they ` +
      'were copied: neither the outbox nor Kafka nor the copy has them'),
  ]
  return details.map(detail => ({ rule: 'every movement is in the journal', job: '', detail }))
}

/** Checks that Kafka has the entries of the copy, and no others than those and the outbox. */
export function checkKafka (
  { seq: last, outbox, copy }: StoredMovements, kafka: JournalTexts
): TenantBreaches {
  const stored = Map.groupBy([...copy, ...outbox], ({ seq }) => seq)
  const inKafka = [...kafka].filter(([seq]) => seq <= last)
  const copied = new Set(copy.map(({ seq }) => seq))
  const uncopied = inKafka.map(([seq]) => seq).filter(seq => !copied.has(seq))
  const lacking = copy.filter(entry =>
    kafka.get(entry.seq)?.includes(canonicalText(entry)) !== true)
  const differing = new Map(lacking.map(({ seq, job }) => [seq, job]))
  for (const [seq, texts] of inKafka) {
    const entries = stored.get(seq) ?? []
    const storedTexts = new Set(entries.map(canonicalText))
    const [entry] = entries
    if (entry !== undefined && !texts.every(text => storedTexts.has(text))) {
      differing.set(seq, entry.job)
    }
  }
  return [
    ...toRanges(uncopied).map(range => ({
      rule: 'every movement is in the journal',
      job: '',
      detail: `${rangeText(range, 'was', 'were')} not copied from Kafka to ClickHouse`,
    })),
    ...[...differing].map(([seq, job]) => ({
      rule: 'Kafka and the copy have the same entries',
      job,
      detail: `entry ${seq} is ${kafka.has(seq) ? 'different' : 'missing'} in Kafka`,
    })),
  ]
}

/** Checks that Redis has the movements of Kafka; `last` was read after Kafka. */
export function checkBehind (last: number, kafka: JournalTexts): TenantBreaches {
  return toRanges([...kafka.keys()].filter(seq => seq > last)).map(range => ({
    rule: 'the journal is numbered 1 to n',
    job: '',
    detail: `${rangeText(range, 'exists', 'exist')} in Kafka, but Redis has only ${last} movements`,
  }))
}

/** Numbers as ranges, the lowest first. */
export function toRanges (seqs: readonly number[]): readonly Range[] {
  const ranges: [first: number, last: number][] = []
  for (const seq of seqs.toSorted((a, b) => a - b)) {
    const range = ranges.at(-1)
    if (range?.[1] === seq - 1) range[1] = seq
    else ranges.push([seq, seq])
  }
  return ranges
}

const rangeText = ([first, last]: Range, verb: string, plural: string) =>
  first === last ? `entry ${first} ${verb}` : `entries ${first} to ${last} ${plural}`

/**
 * Checks that the amounts add up, that none is below zero, and that running jobs explain the
 * reserved amount.
 */
export function checkWallet (balance: Balance, openJobs: readonly Job[]): TenantBreaches {
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = balance
  const sum = availableMicros + reservedMicros + chargedMicros
  const reserved = openJobs.filter(({ ended }) => !ended)
    .reduce((total, { preflight }) => total + preflight.maxQuoteMicros, 0)
  return [
    ...breachUnless(sum === fundedMicros, {
      rule: 'available + reserved + charged = funded',
      detail: `${availableMicros} + ${reservedMicros} + ${chargedMicros} is not ${fundedMicros}`,
    }),
    ...AMOUNTS.flatMap(name => breachUnless(balance[name] >= 0, {
      rule: 'no amount is below zero', detail: `${name} is ${balance[name]}`,
    })),
    ...breachUnless(reserved === reservedMicros, {
      rule: 'reserved = maximum quotes of jobs that have not ended',
      detail: `${reservedMicros} is reserved, the maximum quotes add up to ${reserved}`,
    }),
  ]
}

const MAX_NAMED = 5

/** Reports the rows of the copy that no service signed. All other checks ignore them. */
export function checkForged (forged: readonly number[]): TenantBreaches {
  const named = forged.slice(0, MAX_NAMED).join(', ') + (forged.length > MAX_NAMED ? ', ...' : '')
  return breachUnless(forged.length === 0, {
    rule: 'every row of the copy is signed by a service',
    detail: `${forged.length} rows of the journal in ClickHouse have no authentic MAC and are ` +
      `ignored: seq ${named}`,
  })
}

/**
 * Checks that the journal and the outbox add up to the balances in Redis. An entry after a gap is
 * not compared with the entries before it, nor is one that contradicted another.
 */
export function checkBalances (
  { copy, outbox, resolvedUpTo }: StoredMovements, balance: Balance
): TenantBreaches {
  const entries = new Map([...outbox, ...copy].map(entry => [entry.seq, entry]))
  let amounts: Amounts = ZERO_AMOUNTS
  let last = 0
  const wrong = [...entries.values()].toSorted((a, b) => a.seq - b.seq).flatMap(entry => {
    const follows = entry.seq === last + 1 && entry.seq > resolvedUpTo
    amounts = follows ? post(amounts, entry) : entry
    last = entry.seq
    const differing = AMOUNTS.filter(name => amounts[name] !== entry[name])
    return differing.map(name => ({
      rule: 'each entry adds up to the balances it states',
      job: entry.job,
      detail: `after entry ${entry.seq} ${name} should be ${amounts[name]}, not ${entry[name]}`,
    }))
  })
  return [
    ...wrong,
    ...AMOUNTS.flatMap(name => breachUnless(amounts[name] === balance[name], {
      rule: 'the journal adds up to the balances',
      detail: `${name} is ${balance[name]}, but the journal adds up to ${amounts[name]}`,
    })),
  ]
}

const DAY_MS = 86_400_000

/**
 * Checks that every entry has its own id, and that an Idempotency-Key created at most one job in 24
 * hours.
 */
export function checkIds (entries: readonly Journal[]): TenantBreaches {
  const byId = Map.groupBy(entries, ({ entryId }) => entryId)
  const twice = [...byId.values()].filter(({ length }) => length > 1)
  return [
    ...twice.map(([first, second]) => ({
      rule: 'every entry has a unique id',
      job: first?.job ?? '',
      detail: `the entries ${first?.seq} and ${second?.seq} have the id ${first?.entryId}`,
    })),
    ...checkKeys(entries),
  ]
}

/** A key is claimed at its first use, shortly before its job is accepted. */
function checkKeys (entries: readonly Journal[]): TenantBreaches {
  const created = entries.map(entry => {
    const { idempotencyKey = '', claimedAt } = readReserveTerms(entry) ?? {}
    return { job: entry.job, idempotencyKey, claimedAt }
  })
  const byKey = Map.groupBy(created, ({ idempotencyKey }) => idempotencyKey)
  byKey.delete('')
  return [...byKey.values()].flatMap(jobs => jobs.slice(1).flatMap(({ job, claimedAt }, index) => {
    const before = jobs[index]
    return breachUnless(Number(claimedAt) - Number(before?.claimedAt) >= DAY_MS, {
      rule: 'one job per Idempotency-Key in 24 hours',
      job,
      detail: `its key created ${before?.job} less than 24 hours earlier`,
    })
  }))
}

/** Every movement of a tenant's money in words, one line each. */
export function explain (entries: readonly Journal[], jobs: readonly Job[]): readonly string[] {
  const byId = new Map(jobs.map(job => [job.id, job]))
  return entries.toSorted((a, b) => a.seq - b.seq).map(entry => {
    const { seq, type, job, amountMicros, chargeMicros, availableMicros, reason } = entry
    const rest = `available ${availableMicros}`
    if (type === 'reserve') return `${seq} ${job} reserves ${amountMicros}; ${rest}`
    if (job === '') return `${seq} ${type} of ${amountMicros} (${reason}); ${rest}`
    const recorded = byId.get(job)
    const rows = recorded === undefined
      ? ''
      : ` = ${recorded.counts.freshRecords} rows x ${recorded.unitPriceMicros}`
    return `${seq} ${job} is charged ${chargeMicros}${rows}, ` +
      `${amountMicros - chargeMicros} is released; ${rest}`
  })
}

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
  readonly byVerdict: VerdictCounts
}

/** Reasons of contacts that the lists of the organization refuse; their duplicates repeat them. */
const REFUSED: ReadonlySet<string> = new Set(['block_listed', 'suppressed'])

/** Reads a result file to its end; rejects for invalid CSV. */
export async function countResults (
  csv: AsyncIterable<string | Uint8Array>
): Promise<ResultCounts> {
  const counts = { rows: 0, outOfOrder: 0, billable: 0, succeeded: 0, internal: 0 }
  const bySource: Record<string, number> = {}
  const byVerdict: Record<string, number> = {}
  const records = Readable.from(csv).compose(parse({ columns: true }))
  for await (const record of records as AsyncIterable<Readonly<Record<string, string>>>) {
    counts.rows += 1
    if (counts.outOfOrder === 0 && record['row'] !== String(counts.rows)) {
      counts.outOfOrder = counts.rows
    }
    const hasVerdict = record['status'] !== 'unknown' && record['source'] !== 'preflight' &&
      !REFUSED.has(record['reason'] ?? '')
    if (hasVerdict) counts.succeeded += 1
    if (hasVerdict && record['source'] === 'live') counts.billable += 1
    if (record['reason'] === 'internal') counts.internal += 1
    const { source = '' } = record
    bySource[source] = (bySource[source] ?? 0) + 1
    const verdict = `${record['status']} ${record['reason']}`
    byVerdict[verdict] = (byVerdict[verdict] ?? 0) + 1
  }
  return { ...counts, bySource, byVerdict }
}

/**
 * Checks that each reserve entry has a job, and that each job has one reserve entry and, once it
 * has ended, one settle or void entry. Jobs reserved before `recordsSinceMs` may have expired. The
 * record of a job may have the charge of any of its ends, of which one counts.
 */
export function checkEntries (
  jobs: readonly Job[], entries: readonly Journal[],
  { recordsSinceMs = -Infinity, uncounted = [] }: {
    readonly recordsSinceMs?: number | undefined, readonly uncounted?: readonly Journal[],
  } = {}
): TenantBreaches {
  const others = Map.groupBy(uncounted, ({ job }) => job)
  const byJob = Map.groupBy(entries.filter(({ job }) => job !== ''), ({ job }) => job)
  const jobIds = new Set(jobs.map(({ id }) => id))
  const unknown = [...byJob].flatMap(([job, [first]]) =>
    jobIds.has(job) || (first !== undefined && first.at < recordsSinceMs) ? [] : [job])
  return [
    ...unknown.map(job => ({
      rule: 'every reservation has a job',
      job,
      detail: 'the job is neither open in Redis nor archived in ClickHouse',
    })),
    ...jobs.flatMap(job => checkJobEntries(job, byJob.get(job.id) ?? [], others.get(job.id))),
  ]
}

function checkJobEntries (
  job: Job, entries: readonly Journal[], uncounted: readonly Journal[] = []
): TenantBreaches {
  const reserves = entries.filter(({ type }) => type === 'reserve')
  const ends = entries.filter(({ type }) => type === 'settle' || type === 'void')
  const amounts = reserves.map(({ amountMicros }) => amountMicros).join(', ') || 'nothing'
  const { maxQuoteMicros } = job.preflight
  const of = { job: job.id }
  const isOfRecord = ({ type, chargeMicros }: Journal) =>
    type !== 'reserve' && chargeMicros === job.chargedMicros
  return [
    ...breachUnless(reserves.length === 1 && reserves[0]?.amountMicros === maxQuoteMicros, {
      ...of,
      rule: 'one reserve of the maximum quote per job',
      detail: `${reserves.length} reserve entries of ${amounts}, the quote is ` +
        `${maxQuoteMicros}`,
    }),
    ...breachUnless(ends.length === (job.ended ? 1 : 0), {
      ...of,
      rule: 'one settle or void per ended job, none before',
      detail: `${ends.length} settle or void entries for a job that ` +
        (job.ended ? 'has ended' : 'is running'),
    }),
    ...ends.flatMap(({ amountMicros, chargeMicros }) => breachUnless(
      amountMicros === maxQuoteMicros &&
      (chargeMicros === job.chargedMicros || uncounted.some(isOfRecord)) &&
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
  // As `charge_of` in jobs/common.lua.
  const charge = Math.min(results.billable * job.unitPriceMicros, job.preflight.maxQuoteMicros)
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
      const { [source]: rows = 0 } = results.bySource
      return breachUnless(counted === rows, {
        ...of,
        rule: 'each counter = its rows by source',
        detail: `${name} is ${counted}, ${rows} rows in the results are of the source ${source}`,
      })
    }),
    ...checkVerdicts(job, results),
  ]
}

/** A job may not know its verdicts; then it has none. */
function checkVerdicts ({ id, verdicts }: Job, { byVerdict }: ResultCounts): TenantBreaches {
  if (Object.keys(verdicts).length === 0) return []
  const names = new Set([...Object.keys(verdicts), ...Object.keys(byVerdict)])
  return [...names].flatMap(name => {
    const [counted, rows] = [verdicts[name] ?? 0, byVerdict[name] ?? 0]
    return breachUnless(counted === rows, {
      rule: 'verdicts and reasons = rows of each',
      job: id,
      detail: `${counted} rows are counted as ${name}, ${rows} in the results are`,
    })
  })
}

/** Checks that as many slots are held as jobs with fresh rows run. */
export function checkSlots (openJobs: readonly Job[], slots: number): TenantBreaches {
  const running = openJobs.filter(({ ended, preflight }) => !ended && preflight.freshChecks > 0)
  return breachUnless(slots === running.length, {
    rule: 'exactly the running jobs with fresh rows hold a slot',
    detail: `${slots} slots are held, ${running.length} such jobs run`,
  })
}

/** No row of a job without a deadline waits for longer, whatever `verify` is configured to. */
const LONGEST_WAIT_MS = DEADLINE_SECONDS.max * 1_000

/** Checks that no job is open a day after its deadline. */
export function checkAges (openJobs: readonly Job[], nowMs: number): TenantBreaches {
  return openJobs.flatMap(({ id, createdAtMs, deadlineMs = createdAtMs + LONGEST_WAIT_MS }) =>
    breachUnless(nowMs - deadlineMs < DAY_MS, {
      rule: 'every job ends within a day of its deadline',
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
