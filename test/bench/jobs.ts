import type { Client } from '../../services/client/client.ts'
import { mixedPhones } from './inputs.ts'
import { percentilesOf, type Percentiles } from './percentiles.ts'

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

/** Throughput of the download of a result file in MB/s. */
export function downloadRate ({ csvBytes, csvMs, wallMs }: JobTimes): number {
  return csvBytes / 1_000 / (csvMs - wallMs)
}
