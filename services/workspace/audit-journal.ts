import type { Journal } from '../../schemas/types.ts'
import { canonicalText, type Range } from '../records/journal-chain.ts'
import { breachUnless, type Breach } from './audit-report.ts'

type Found = readonly Omit<Breach, 'tenant'>[]

/** The entries of a tenant by number, as texts to compare. */
export type JournalTexts = ReadonlyMap<number, string>

/** Where the movements of a tenant are; `seq` is the number of the last one in Redis. */
export type StoredMovements = {
  readonly seq: number
  readonly outbox: readonly Journal[]
  /** By seq. */
  readonly copy: readonly Journal[]
}

/** The numbers from 1 to the last one that are not among those that are present. */
export function missingFrom (present: ReadonlySet<number>, last: number): readonly Range[] {
  const missing: Range[] = []
  let from = 1
  for (let seq = 1; seq <= last + 1; seq += 1) {
    if (seq <= last && !present.has(seq)) continue
    if (seq > from) missing.push([from, seq - 1])
    from = seq + 1
  }
  return missing
}

/** Every entry has a number of its own, up to that of the last movement. */
export function checkNumbers ({ seq: last, copy }: StoredMovements): Found {
  const wrong = (job: string, detail: string) =>
    breachUnless(false, { law: 'the journal is numbered 1 to n', job, detail })
  return copy.flatMap(({ seq, job }, index) => {
    if (seq > last) return wrong(job, `entry ${seq} is there, and Redis has ${last} movements`)
    if (seq !== copy[index - 1]?.seq) return []
    return wrong(job, `there are two entries with the number ${seq}`)
  })
}

/** Every movement is in the copy or is still to be shipped; what Kafka has as well is not lost. */
export function checkMovements (
  { seq, outbox, copy }: StoredMovements, kafka: JournalTexts = new Map()
): Found {
  const known = new Set([...copy, ...outbox].map(entry => entry.seq))
  const lost = missingFrom(new Set([...known, ...kafka.keys()]), seq)
  const late = missingFrom(new Set([...known, ...lost.flatMap(numbersOf)]), seq)
  const absent = (detail: string) =>
    breachUnless(false, { law: 'every movement is in the journal', detail })
  return [
    ...lost.flatMap(range => absent(`${textOf(range)} lost from the journal before they were ` +
      'copied: neither the outbox nor Kafka nor the copy has them')),
    ...late.flatMap(range => absent(`${textOf(range)} not copied, and in Kafka`)),
  ]
}

/** Kafka has what the copy has. */
export function checkKafka (copy: readonly Journal[], kafka: JournalTexts): Found {
  return copy.flatMap(entry => breachUnless(kafka.get(entry.seq) === canonicalText(entry), {
    law: 'Kafka and the copy have the same entries',
    job: entry.job,
    detail: `entry ${entry.seq} is ${kafka.has(entry.seq) ? 'another one' : 'missing'} in Kafka`,
  }))
}

const numbersOf = ([first, last]: Range) =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index)

const textOf = ([first, last]: Range) =>
  first === last ? `entry ${first} was` : `entries ${first} to ${last} were`
