import type { ChunkPlan } from './merge.ts'
import type { StoredBlock } from './result-blocks.ts'

/** How many chunks are read at once. */
export type ReadAheadOptions = {
  /** The size of the first batch, when the sizes of chunks are unknown. */
  readonly firstChunks: number
  /** Whether the next batch is read while the current one is consumed. */
  readonly ahead: boolean
}

/** Some chunks, with all their stored blocks. */
export type ChunkBatch = readonly [plans: readonly ChunkPlan[], stored: readonly StoredBlock[]]

type Read = (plans: readonly ChunkPlan[]) => Promise<readonly StoredBlock[]>

type Request = { readonly plans: readonly ChunkPlan[], readonly answer: Promise<ChunkBatch[1]> }

/** The fixed cost of a query equals that of reading about as many bytes. */
const BYTES_PER_BATCH = 1_048_576
const MAX_CHUNKS = 25

/**
 * Reads the blocks of chunks in order, in batches; starts the first read at once. Later batches
 * take as many chunks as hold about a megabyte of sealed bytes, estimated from the previous batch,
 * so memory is bounded. Reads at most one batch ahead; a batch that is not consumed is dropped with
 * its failure.
 */
export function readAhead (
  plans: readonly ChunkPlan[], { firstChunks, ahead }: ReadAheadOptions, read: Read
): AsyncIterable<ChunkBatch> {
  let at = 0
  const start = (chunks: number): Request | undefined => {
    const next = plans.slice(at, at + chunks)
    at += next.length
    if (next.length === 0) return undefined
    const answer = read(next)
    // Avoids an unhandled rejection if it is never awaited; a consumer still gets the failure.
    answer.catch(() => {})
    return { plans: next, answer }
  }
  const first = start(firstChunks)
  return (async function * () {
    for (let request = first; request !== undefined;) {
      const stored = await request.answer
      const chunks = ahead ? chunksAfter(request.plans.length, stored) : firstChunks
      const next = ahead ? start(chunks) : undefined
      yield [request.plans, stored] as const
      request = ahead ? next : start(chunks)
    }
  })()
}

function chunksAfter (chunks: number, stored: readonly StoredBlock[]): number {
  const bytes = stored.reduce((sum, { sealed }) => sum + sealed.length, 1)
  return Math.min(Math.max(Math.floor(BYTES_PER_BATCH * chunks / bytes), 1), MAX_CHUNKS)
}
