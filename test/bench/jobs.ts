import type { Client } from '../../services/client/client.ts'
import { mixedPhones } from './inputs.ts'
import { spreadOf, type Spread } from './spread.ts'

/** All times from the moment the POST was sent. */
export type Timed = {
  readonly preflightMs: number
  readonly wallMs: number
  /** When the result file was there to its last byte; the same as `wallMs` if it was not asked. */
  readonly csvMs: number
  readonly csvBytes: number
}

type Ways = {
  readonly withCsv?: boolean
  readonly service?: string
  readonly pollEveryMs?: number
}

/** Up to so many rows a job is over so soon that asking seldom would be what is measured. */
const OFTEN_ASKED_ROWS = 10_000

/** Rows of different jobs start at serial numbers that no other job uses. */
let nextSerial = 0

/** The first of so many serial numbers that no earlier call gave. */
export function serials (rows: number): number {
  nextSerial += rows
  return nextSerial - rows
}

/** So many phone numbers that no earlier call gave. */
export function phones (rows: number): readonly string[] {
  return mixedPhones(rows, serials(rows))
}

/** One job from its POST to `completed`; throws when it ends in any other way. */
export async function timeJob (
  client: Client, inputs: readonly string[], ways: Ways = {}
): Promise<Timed> {
  const { withCsv = false, service = 'phone-validation' } = ways
  const { pollEveryMs = inputs.length > OFTEN_ASKED_ROWS ? 25 : 5 } = ways
  const country = service === 'email-validation' ? {} : { countryCode: 'US' }
  const sentAt = performance.now()
  const { id } = await client.createJob({ service, inputs, ...country })
  const preflightMs = performance.now() - sentAt
  const job = await client.waitForEnd(id, { pollEveryMs })
  const wallMs = performance.now() - sentAt
  if (job.status !== 'completed') throw new Error(`${id} is ${job.status}`)
  if (!withCsv) return { preflightMs, wallMs, csvMs: wallMs, csvBytes: 0 }
  const csvBytes = await countBytes(await client.resultsFile(id))
  return { preflightMs, wallMs, csvMs: performance.now() - sentAt, csvBytes }
}

/** Reads a result file to its last byte, as one does that keeps it in a file. */
async function countBytes (pieces: AsyncIterable<Uint8Array>): Promise<number> {
  let bytes = 0
  for await (const { length } of pieces) bytes += length
  return bytes
}

/** Jobs one after another. */
export async function smallJobs (
  client: Client, inputsOf: () => readonly string[], count: number
): Promise<Spread> {
  const times: number[] = []
  for (let job = 0; job < count; job++) times.push((await timeJob(client, inputsOf())).wallMs)
  return spreadOf(times)
}

/** Megabytes a second of a result file. */
export function downloadRate ({ csvBytes, csvMs, wallMs }: Timed): number {
  return csvBytes / 1_000 / (csvMs - wallMs)
}
