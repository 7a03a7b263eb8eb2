import { setTimeout as delay } from 'node:timers/promises'
import examples from 'libphonenumber-js/examples.mobile.json'
import { getExampleNumber, type CountryCode, type PhoneNumber } from 'libphonenumber-js/max'
import type { Client } from '../../services/client/client.ts'
import { seededRandom } from '../support/random.ts'

/** Latencies of a job, all from the moment its POST is sent. */
export type JobTimes = {
  readonly preflightMs: number
  readonly wallMs: number
  /** Until the last byte of the result file; `wallMs` when it is not downloaded. */
  readonly csvMs: number
  readonly csvBytes: number
}

type JobOptions = {
  readonly withCsv?: boolean
  readonly service?: string
  readonly pollEveryMs?: number
}

/** No two jobs share a serial number, so no job finds rows of another one in the cache. */
let nextSerial = 0

/** Reserves serial numbers; returns the first one. */
export function reserveSerials (rows: number): number {
  nextSerial += rows
  return nextSerial - rows
}

/** Phone numbers that no earlier job contains. */
export function freshPhones (rows: number): readonly string[] {
  return mixedPhones(rows, reserveSerials(rows))
}

/** Runs one job from its POST to `completed`; throws when it ends with another status. */
export async function timeJob (
  client: Client, inputs: readonly string[], options: JobOptions = {}
): Promise<JobTimes> {
  const { withCsv = false, service = 'phone-validation' } = options
  const { pollEveryMs } = options
  const country = service === 'email-validation' ? {} : { countryCode: 'US' }
  const sentAt = performance.now()
  const { id } = await client.createJob({ service, inputs, ...country })
  const preflightMs = performance.now() - sentAt
  const job = await client.waitForEnd(id, pollEveryMs === undefined ? {} : { pollEveryMs })
  const wallMs = performance.now() - sentAt
  if (job.status !== 'completed') throw new Error(`${id} is ${job.status}`)
  if (!withCsv) return { preflightMs, wallMs, csvMs: wallMs, csvBytes: 0 }
  const csvBytes = await countBytes(await client.resultsFile(id))
  return { preflightMs, wallMs, csvMs: performance.now() - sentAt, csvBytes }
}

/** Consumes a result file as a stream. */
async function countBytes (chunks: AsyncIterable<Uint8Array>): Promise<number> {
  let bytes = 0
  for await (const { length } of chunks) bytes += length
  return bytes
}

/** Runs jobs one after another; returns the percentiles of their wall times. */
export async function timeSequentialJobs (
  client: Client, inputsOf: () => readonly string[], count: number
): Promise<Percentiles> {
  const times: number[] = []
  for (let job = 0; job < count; job++) times.push((await timeJob(client, inputsOf())).wallMs)
  return percentilesOf(times)
}

/** Calls `work` so many times, by so many callers that each have one call at a time. */
export async function repeat (
  count: number, callers: number, work: () => Promise<unknown>
): Promise<void> {
  let left = count
  const call = async () => { while (left-- > 0) await work() }
  await Promise.all(Array.from({ length: callers }, call))
}

/** Throughput of the download of a result file in MB/s. */
export function downloadRate ({ csvBytes, csvMs, wallMs }: JobTimes): number {
  return csvBytes / 1_000 / (csvMs - wallMs)
}

const COUNTRIES = [
  'US', 'GB', 'DE', 'FR', 'IN', 'BR', 'AU', 'ES', 'IT', 'JP', 'MX', 'ZA',
] as const satisfies readonly CountryCode[]

const countryOf = (serial: number) => COUNTRIES[serial % COUNTRIES.length] ?? 'US'

function numberOf (country: CountryCode, serial: number): PhoneNumber {
  const example = getExampleNumber(country, examples)
  if (example === undefined) throw new Error(`no example number for ${country}`)
  const tail = String(serial).padStart(6, '0').slice(-6)
  example.nationalNumber = `${example.nationalNumber.slice(0, -6)}${tail}` as never
  example.number = `+${example.countryCallingCode}${example.nationalNumber}` as never
  return example
}

/** A mobile number in E.164 form; serial numbers below three million give different ones. */
export function mobileNumber (serial: number): string {
  return numberOf(countryOf(serial), serial).number
}

/** Chooses one of several formats by a random number. */
function formatted (number: PhoneNumber, choice: number): string {
  if (choice < 0.4) return number.number
  if (choice < 0.65) return number.formatInternational()
  if (choice < 0.8 || number.country !== 'US') {
    return number.formatInternational().replaceAll(' ', '-')
  }
  return number.formatNational()
}

/**
 * Generates phone numbers like those of customers: 12 countries, 40 % E.164, the rest in other
 * formats, 5 % not numbers, 5 % duplicates of an earlier number in another format. Calls with
 * disjoint serial numbers share no phone number. National formats are of the US.
 */
export function mixedPhones (rows: number, firstSerial = 0): readonly string[] {
  const random = seededRandom(20_261_121 + firstSerial)
  const inputs: string[] = []
  for (let row = 0; row < rows; row++) {
    const kind = random()
    const isDuplicate = kind >= 0.05 && kind < 0.10 && row > 0
    const serial = firstSerial + (isDuplicate ? Math.floor(random() * row) : row)
    const number = numberOf(countryOf(serial), serial)
    inputs.push(kind < 0.05 ? `call me ${serial}` : formatted(number, random()))
  }
  return inputs
}

/** Median and 95th percentile of latencies in milliseconds. */
export type Percentiles = { readonly p50Ms: number, readonly p95Ms: number }

/**
 * Returns the quantile of a share from 0 to 1: a measured value, without interpolation. NaN when
 * there are no values.
 */
function quantile (values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN
}

/** The median; the upper one of two middle values. */
export function median (values: readonly number[]): number {
  return quantile(values, 0.5)
}

export function percentilesOf (timesMs: readonly number[]): Percentiles {
  return { p50Ms: quantile(timesMs, 0.5), p95Ms: quantile(timesMs, 0.95) }
}

/**
 * An open-loop load generator: starts `work` at a constant rate, whether earlier calls have ended
 * or not, until `until` settles. Resolves with all results in order of their start; rejects with
 * the first failure.
 */
export async function atConstantRate<T> (
  everyMs: number, { until, work }: {
    readonly until: Promise<unknown>, readonly work: () => Promise<T>,
  }
): Promise<readonly T[]> {
  const stop = new AbortController()
  const end = until.finally(() => stop.abort())
  // Both kinds of rejections are awaited below; until then they must not end the process.
  end.catch(() => {})
  const started: Promise<T>[] = []
  for (let nextAt = performance.now(); !stop.signal.aborted; nextAt += everyMs) {
    const call = work()
    call.catch(() => {})
    started.push(call)
    const pauseMs = Math.max(0, nextAt + everyMs - performance.now())
    await delay(pauseMs, undefined, { signal: stop.signal }).catch(() => {})
  }
  await end
  return await Promise.all(started)
}

const DEADLINE_MS = 60_000

/** Resolves as the work does; rejects with its name when it takes longer than a minute. */
export async function withDeadline<T> (name: string, work: Promise<T>): Promise<T> {
  const deadline = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => deadline.reject(new Error(`${name} did not end within ${DEADLINE_MS} ms`)), DEADLINE_MS)
  try {
    return await Promise.race([work, deadline.promise])
  } finally {
    clearTimeout(timer)
  }
}
