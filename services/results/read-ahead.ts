import type { ChunkPlan } from './merge.ts'
import type { StoredBlock } from './result-blocks.ts'

/** How many chunks are asked for at once. */
export type Steps = {
  /** The first time, when nobody knows yet how large they are. */
  readonly firstChunks: number
  /** The store is asked for the next ones before the present ones are used up. */
  readonly ahead: boolean
}

/** Chunks that belong together, with every block that is stored of them. */
export type Step = readonly [plans: readonly ChunkPlan[], stored: readonly StoredBlock[]]

type Read = (plans: readonly ChunkPlan[]) => Promise<readonly StoredBlock[]>

type Asked = { readonly plans: readonly ChunkPlan[], readonly answer: Promise<Step[1]> }

/** A question costs the store as much as reading so many bytes does. */
const BYTES_A_STEP = 1_048_576
const MAX_CHUNKS = 25

/**
 * Reads the blocks of chunks in order, some chunks a step: the first at once, before anybody asks.
 * Later steps take as many chunks as come to a megabyte of sealed bytes, going by those before, so
 * that memory is bounded however large rows are. At most one step is read ahead; what was read
 * ahead and is not asked for any more is dropped, its failure as well.
 */
export function stepsOver (
  plans: readonly ChunkPlan[], { firstChunks, ahead }: Steps, read: Read
): AsyncIterable<Step> {
  let at = 0
  const ask = (chunks: number): Asked | undefined => {
    const next = plans.slice(at, at + chunks)
    at += next.length
    if (next.length === 0) return undefined
    const answer = read(next)
    // Nobody may ever wait for it; whoever does gets the failure all the same.
    answer.catch(() => {})
    return { plans: next, answer }
  }
  const first = ask(firstChunks)
  return (async function * () {
    for (let asked = first; asked !== undefined;) {
      const stored = await asked.answer
      const chunks = ahead ? chunksAfter(asked.plans.length, stored) : firstChunks
      const next = ahead ? ask(chunks) : undefined
      yield [asked.plans, stored] as const
      asked = ahead ? next : ask(chunks)
    }
  })()
}

function chunksAfter (chunks: number, stored: readonly StoredBlock[]): number {
  const bytes = stored.reduce((sum, { sealed }) => sum + sealed.length, 1)
  return Math.min(Math.max(Math.floor(BYTES_A_STEP * chunks / bytes), 1), MAX_CHUNKS)
}
