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

/** So many phone numbers that no earlier call gave. */
export function phones (rows: number): readonly string[] {
  nextSerial += rows
  return mixedPhones(rows, nextSerial - rows)
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
  const csv = withCsv ? await client.results(id) : ''
  const csvMs = withCsv ? performance.now() - sentAt : wallMs
  return { preflightMs, wallMs, csvMs, csvBytes: Buffer.byteLength(csv) }
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
