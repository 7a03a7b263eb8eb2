import { Redis } from 'ioredis'
import { createClient } from '../../../services/client/client.ts'
import { freshPhones, median, timeJob } from '../jobs.ts'
import type { BenchContext } from '../run.ts'

export type ListsTimes = { readonly preflightMs: number, readonly wallMs: number }

type Options = { readonly apiKey: string, readonly redisUrl: string }

const FILES = 10
const JOBS = 3
/** Beside numbers: shapes for which a look-up asks too. */
const OTHERS = ['+4479*', '+447*', '+555012*', '+55501*', '+99*']

/**
 * Runs large jobs of an organization without lists, fills the lists with as many entries as there
 * may be, none of which is about a row, and runs such jobs again.
 */
export async function measureLists (
  { access: { baseUrl }, rows, log }: BenchContext, { apiKey, redisUrl }: Options
) {
  const client = createClient({ baseUrl, apiKey })
  const { entries: before, maxEntries } = await client.contactLists()
  if (before > 0) throw new Error(`the organization has ${before} entries already`)
  const timeJobs = async (): Promise<ListsTimes> => {
    const times = []
    for (let job = 0; job < JOBS; job++) times.push(await timeJob(client, freshPhones(rows)))
    return {
      preflightMs: median(times.map(({ preflightMs }) => preflightMs)),
      wallMs: median(times.map(({ wallMs }) => wallMs)),
    }
  }
  log(`lists: ${JOBS} jobs of ${rows} rows, ${maxEntries} entries, ${JOBS} jobs again`)
  await timeJob(client, freshPhones(rows))
  const without = await timeJobs()
  const redis = new Redis(redisUrl)
  const memory = async () => Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1])
  const bytesBefore = await memory()
  const startedAt = performance.now()
  const perFile = maxEntries / FILES
  for (let file = 0; file < FILES; file++) {
    const lines = Array.from({ length: perFile }, (_, line) =>
      OTHERS[file * perFile + line] ?? `+888${10_000_000 + file * perFile + line}`)
    await client.changeContactListsFromFile(
      Buffer.from(lines.join('\n')), { action: 'suppress' })
  }
  const uploadMs = performance.now() - startedAt
  const { entries } = await client.contactLists()
  const bytesPerEntry = (await memory() - bytesBefore) / entries
  redis.disconnect()
  const after = await timeJobs()
  return {
    entries,
    /** The upload of all entries, in files of 100,000. */
    uploadMs,
    /** What they add to the memory of the state Redis. */
    bytesPerEntry,
    without,
    with: after,
    ratio: after.preflightMs / without.preflightMs,
  }
}
