import type { Journal } from '../../../schemas/types.ts'
import type { Job } from '../../jobs/job.ts'
import { AMOUNTS, type Amounts, post, ZERO_AMOUNTS } from '../../money/prices.ts'
import type { Balance } from '../../money/wallet.ts'
import { canonicalText, type Range } from '../../money/journal-chain.ts'
import { breachUnless, type TenantBreaches } from './report.ts'

/** The canonical texts of a tenant's entries, by number. */
export type JournalTexts = ReadonlyMap<number, string>

/** The movements of a tenant; `seq` is the number of the last one in Redis. */
export type StoredMovements = {
  readonly seq: number
  readonly outbox: readonly Journal[]
  /** By seq. */
  readonly copy: readonly Journal[]
}

/** The ranges of numbers from 1 to `last` that are not in `present`. */
export function missingRanges (present: ReadonlySet<number>, last: number): readonly Range[] {
  const missing: Range[] = []
  let from = 1
  for (let seq = 1; seq <= last + 1; seq += 1) {
    if (seq <= last && !present.has(seq)) continue
    if (seq > from) missing.push([from, seq - 1])
    from = seq + 1
  }
  return missing
}

/** Checks that every entry of the copy has its own number, up to that of the last movement. */
export function checkNumbers ({ seq: last, copy }: StoredMovements): TenantBreaches {
  const wrong = (job: string, detail: string) =>
    breachUnless(false, { rule: 'the journal is numbered 1 to n', job, detail })
  return copy.flatMap(({ seq, job }, index) => {
    if (seq > last) return wrong(job, `entry ${seq} exists, but Redis has only ${last} movements`)
    if (seq !== copy[index - 1]?.seq) return []
    return wrong(job, `two entries have the number ${seq}`)
  })
}

/**
 * Checks that every movement is in the copy or in the outbox. Movements that Kafka contains can
 * still be copied; all others are lost.
 */
export function checkMovements (
  { seq, outbox, copy }: StoredMovements, kafka: JournalTexts = new Map()
): TenantBreaches {
  const known = new Set([...copy, ...outbox].map(entry => entry.seq))
  const lost = missingRanges(new Set([...known, ...kafka.keys()]), seq)
  const uncopied = missingRanges(new Set([...known, ...lost.flatMap(numbersOf)]), seq)
  const absent = (detail: string) =>
    breachUnless(false, { rule: 'every movement is in the journal', detail })
  return [
    ...lost.flatMap(range => absent(`${rangeText(range)} lost from the journal before they were ` +
      'copied: neither the outbox nor Kafka nor the copy has them')),
    ...uncopied.flatMap(range => absent(`${rangeText(range)} not copied from ` +
      'Kafka to ClickHouse')),
  ]
}

/** Checks that Kafka has the same entries as the copy. */
export function checkKafka (copy: readonly Journal[], kafka: JournalTexts): TenantBreaches {
  return copy.flatMap(entry => breachUnless(kafka.get(entry.seq) === canonicalText(entry), {
    rule: 'Kafka and the copy have the same entries',
    job: entry.job,
    detail: `entry ${entry.seq} is ${kafka.has(entry.seq) ? 'different' : 'missing'} in Kafka`,
  }))
}

const numbersOf = ([first, last]: Range) =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index)

const rangeText = ([first, last]: Range) =>
  first === last ? `entry ${first} was` : `entries ${first} to ${last} were`

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
 * not compared with the entries before it.
 */
export function checkBalances (
  copy: readonly Journal[], outbox: readonly Journal[], balance: Balance
): TenantBreaches {
  const entries = new Map([...outbox, ...copy].map(entry => [entry.seq, entry]))
  let amounts: Amounts = ZERO_AMOUNTS
  let last = 0
  const wrong = [...entries.values()].toSorted((a, b) => a.seq - b.seq).flatMap(entry => {
    amounts = entry.seq === last + 1 ? post(amounts, entry) : entry
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
    ...twice.flatMap(([one, other]) => breachUnless(false, {
      rule: 'every entry has a unique id',
      job: one?.job ?? '',
      detail: `the entries ${one?.seq} and ${other?.seq} have the id ${one?.entryId}`,
    })),
    ...checkKeys(entries),
  ]
}

/** The Idempotency-Key in a reserve entry, and when it was claimed, in Unix ms. */
type Terms = { readonly idempotencyKey?: string, readonly claimedAt?: string }

/** The Idempotency-Key that created the job of a reserve entry; undefined for other entries. */
export function entryTermsOf ({ type, reason }: Journal): Terms | undefined {
  return type === 'reserve' && reason !== '' ? JSON.parse(reason) as Terms : undefined
}

/** A key is claimed at its first use, shortly before its job is accepted. */
function checkKeys (entries: readonly Journal[]): TenantBreaches {
  const created = entries.filter(entry => entryTermsOf(entry) !== undefined)
    .map(entry => ({ job: entry.job, ...entryTermsOf(entry) }))
  const byKey = Map.groupBy(created, ({ idempotencyKey = '' }) => idempotencyKey)
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
    const known = byId.get(job)
    const rows = known === undefined
      ? ''
      : ` = ${known.counts.freshRecords} rows x ${known.unitPriceMicros}`
    return `${seq} ${job} is charged ${chargeMicros}${rows}, ` +
      `${amountMicros - chargeMicros} is released; ${rest}`
  })
}
