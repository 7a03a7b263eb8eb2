import { LRUCache } from 'lru-cache'
import type { Job } from '../jobs/job.ts'
import type { RawMessage } from '../lib/bus.ts'
import { rowsOf } from '../lib/row-headers.ts'

export type OpenRows = {
  /** Notes how many rows of a job are still to come. */
  readonly counted: (job: Pick<Job, 'id' | 'preflight' | 'counts'>) => void
  /** Whether these blocks may be the last ones of a job, so that they should wait for no others. */
  readonly mayEnd: (blocks: readonly Pick<RawMessage, 'headers'>[]) => boolean
}

/** The longest that blocks wait for others; an insert of more of them costs hardly more. */
export const GATHER_MS = 150

/** Jobs that are noted; of one that is not any more, all rows count as open. */
const MOST_JOBS = 10_000

/** Knows how many rows of each job are still to come, as the tally said last. */
export function createOpenRows (): OpenRows {
  // Told by size, it takes no room before there is need of it.
  const open = new LRUCache<string, number>({ maxSize: MOST_JOBS, sizeCalculation: () => 1 })
  return {
    counted: ({ id, preflight, counts }) => {
      open.set(id, preflight.totalRows - counts.finishedRows)
    },
    mayEnd: (blocks) => {
      const came = new Map<string, number>()
      for (const { headers } of blocks) {
        const { job = '', totalRows } = headers
        const rows = (came.get(job) ?? 0) + rowsOf(headers)
        came.set(job, rows)
        if (rows >= (open.get(job) ?? Number(totalRows))) return true
      }
      return false
    },
  }
}
