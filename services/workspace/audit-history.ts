import type { Journal } from '../../schemas/types.ts'
import type { Attempt } from '../jobs/delivery-history.ts'
import { eventIdOf, eventTypeOf } from '../jobs/events.ts'
import type { Job } from '../jobs/job.ts'
import { breachUnless, type Breach } from './audit-report.ts'

type Found = readonly Omit<Breach, 'tenant'>[]

const DAY_MS = 86_400_000
/** The last try is made 75 h 35 min after the first, a fifth more or less each time. */
const DELIVERED_WITHIN_MS = 4 * DAY_MS

/** Every entry has an id of its own; a key had one job in any 24 hours. */
export function checkIds (entries: readonly Journal[]): Found {
  const byId = Map.groupBy(entries, ({ entryId }) => entryId)
  const twice = [...byId.values()].filter(({ length }) => length > 1)
  return [
    ...twice.flatMap(([one, other]) => breachUnless(false, {
      law: 'every entry has an id of its own',
      job: one?.job ?? '',
      detail: `the entries ${one?.seq} and ${other?.seq} are both ${one?.entryId}`,
    })),
    ...checkKeys(entries),
  ]
}

/** What a reserve entry tells of the key that made its job; claims are in Unix ms. */
type Terms = { readonly idempotencyKey?: string, readonly claimedAt?: string }

/** The key that made the job of a reserve entry; undefined for other entries. */
export function termsOf ({ type, reason }: Journal): Terms | undefined {
  return type === 'reserve' && reason !== '' ? JSON.parse(reason) as Terms : undefined
}

/** A key is taken from its first use on, a moment before its job is accepted. */
function checkKeys (entries: readonly Journal[]): Found {
  const made = entries.filter(entry => termsOf(entry) !== undefined)
    .map(entry => ({ job: entry.job, ...termsOf(entry) }))
  const byKey = Map.groupBy(made, ({ idempotencyKey = '' }) => idempotencyKey)
  byKey.delete('')
  return [...byKey.values()].flatMap(jobs => jobs.slice(1).flatMap(({ job, claimedAt }, index) => {
    const before = jobs[index]
    return breachUnless(Number(claimedAt) - Number(before?.claimedAt) >= DAY_MS, {
      law: 'one job an Idempotency-Key',
      job,
      detail: `its key made ${before?.job} less than 24 hours before`,
    })
  }))
}

/** No job runs for longer than a day. */
export function checkAges (openJobs: readonly Job[], nowMs: number): Found {
  return openJobs.flatMap(({ id, createdAtMs }) => breachUnless(nowMs - createdAtMs < DAY_MS, {
    law: 'every job ends within a day',
    job: id,
    detail: `it runs since ${new Date(createdAtMs).toISOString()}`,
  }))
}

/** Attempts are of one event, the job's own, and the last one is followed by no other. */
export function checkDeliveries (job: Job, attempts: readonly Attempt[], nowMs: number): Found {
  if (attempts.length === 0) return []
  const type = eventTypeOf(job.status)
  const own = type === undefined ? '' : eventIdOf(job.id, type)
  const strange = attempts.filter(({ event }) => event !== own)
  const last = attempts.at(-1)
  const isLate = last?.outcome === 'failed' && nowMs - last.atMs > DELIVERED_WITHIN_MS
  return [
    ...breachUnless(strange.length === 0, {
      law: 'one event a job', job: job.id, detail: `${strange[0]?.event} is not its event`,
    }),
    ...breachUnless(!isLate, {
      law: 'every delivery comes to its end',
      job: job.id,
      detail: `the last of ${attempts.length} attempts has failed and no other follows`,
    }),
  ]
}

/** Where every micro of a tenant came from and went to, a line each. */
export function explain (entries: readonly Journal[], jobs: readonly Job[]): readonly string[] {
  const byId = new Map(jobs.map(job => [job.id, job]))
  return entries.toSorted((a, b) => a.seq - b.seq).map(entry => {
    const { seq, type, job, amountMicros, chargeMicros, availableMicros, reason } = entry
    const rest = `available ${availableMicros}`
    if (type === 'reserve') return `${seq} ${job} reserves ${amountMicros}; ${rest}`
    if (job === '') return `${seq} ${type} of ${amountMicros} (${reason}); ${rest}`
    const known = byId.get(job)
    const rows = known === undefined
      ? ''
      : ` = ${known.counts.billableRows} rows x ${known.unitPriceMicros}`
    return `${seq} ${job} is charged ${chargeMicros}${rows}, ` +
      `${amountMicros - chargeMicros} return; ${rest}`
  })
}
