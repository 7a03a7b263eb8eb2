import type { Client } from '../../../services/client/client.ts'
import { collectGarbage } from '../core.ts'
import { freshPhones, median } from '../jobs.ts'
import type { BenchContext } from '../run.ts'

const PAIRS = 5

/**
 * Runs fresh large jobs, in turns without a reader and with one that gets every row as soon as it
 * is complete: the times from POST to `completed`, and to the last row at the reader. The reader
 * runs on the same cores as the services.
 */
export async function measureProvisional (
  { client, rows, log }: Pick<BenchContext, 'client' | 'rows' | 'log'>
) {
  log(`${PAIRS} pairs of jobs of ${rows} rows, one without and one with a reader`)
  const alone: number[] = []
  const read: number[] = []
  const lastRow: number[] = []
  for (let pair = 0; pair < PAIRS; pair++) {
    alone.push((await timeRead(client, freshPhones(rows), { isRead: false })).wallMs)
    const times = await timeRead(client, freshPhones(rows), { isRead: true })
    read.push(times.wallMs)
    lastRow.push(times.lastRowMs)
  }
  const [aloneMs, readMs] = [median(alone), median(read)]
  return { rows, aloneMs, readMs, ratio: readMs / aloneMs, lastRowMs: median(lastRow) }
}

async function timeRead (
  client: Client, inputs: readonly string[], { isRead }: { readonly isRead: boolean }
) {
  collectGarbage()
  const sentAt = performance.now()
  const { id } = await client.createJob({
    service: 'phone-validation', inputs, countryCode: 'US',
  })
  const reading = isRead ? countRows(client, id) : Promise.resolve(inputs.length)
  // It is awaited after the job.
  reading.catch(() => {})
  const { status } = await client.waitForEnd(id)
  const wallMs = performance.now() - sentAt
  const rows = await reading
  if (status !== 'completed' || rows !== inputs.length) {
    throw new Error(`${id} is ${status}; its reader got ${rows} of ${inputs.length} rows`)
  }
  return { wallMs, lastRowMs: performance.now() - sentAt }
}

async function countRows (client: Client, id: string): Promise<number> {
  const numbers = new Set<unknown>()
  for await (const { row } of client.provisionalResults(id)) numbers.add(row)
  return numbers.size
}
