import { createHash } from 'node:crypto'
import { MAX_SAMPLE_ROWS, MIN_SAMPLE_ROWS, ROWS_PER_SAMPLE_ROW } from '../../schemas/api/quote.ts'
import { TOKEN_BYTES } from '../cache/tokens.ts'
import type { QuoteSample } from '../jobs/job.ts'
import { yieldToEventLoop } from '../runtime/platform/event-loop.ts'
import { type Chunk, classifyRow, type JobTerms } from './row-kinds.ts'

const DIGEST_CHARACTERS = 32

type Candidate = { readonly token: Buffer, readonly row: number }

/**
 * The rows that stand for a list: of the contacts that a job would verify or find in the cache,
 * those with the smallest tokens. Tokens are HMACs of canonical forms, so nobody can choose the
 * rows, and the order, the spelling and the duplicates of a list change nothing. A few more
 * contacts rarely do. undefined for a list that is too small.
 */
export async function chooseSample (
  chunks: readonly Chunk[], { lane }: Pick<JobTerms, 'lane'>
): Promise<QuoteSample | undefined> {
  const smallest: Candidate[] = []
  let contacts = 0
  for (const chunk of chunks) {
    contacts += addSmallest(smallest, chunk)
    await yieldToEventLoop(lane, chunk.coordinates.tenant)
  }
  const size = Math.min(MAX_SAMPLE_ROWS, Math.floor(contacts / ROWS_PER_SAMPLE_ROW))
  if (size < MIN_SAMPLE_ROWS) return undefined
  const chosen = smallest.slice(0, size)
  // The tokens of two services may be the same, as they share a cache.
  const digest = createHash('sha256').update(chunks[0]?.coordinates.service ?? '')
  for (const { token } of chosen) digest.update(token)
  return {
    digest: digest.digest('hex').slice(0, DIGEST_CHARACTERS), rows: chosen.map(({ row }) => row),
  }
}

/** Keeps the smallest tokens, in their order. Returns the number of contacts in the chunk. */
function addSmallest (smallest: Candidate[], chunk: Chunk): number {
  const { coordinates: { firstRow, rows }, rows: { tokens } } = chunk
  let contacts = 0
  for (let row = 0; row < rows; row++) {
    const kind = classifyRow(chunk, row)
    if (kind !== 'hit' && kind !== 'toVerify') continue
    contacts++
    const from = row * TOKEN_BYTES
    const last = smallest.length === MAX_SAMPLE_ROWS ? smallest.at(-1) : undefined
    const isLarger = last !== undefined &&
      last.token.compare(tokens, from, from + TOKEN_BYTES) <= 0
    if (isLarger) continue
    const token = tokens.subarray(from, from + TOKEN_BYTES)
    const place = smallest.findIndex(other => other.token.compare(token) > 0)
    smallest.splice(place < 0 ? smallest.length : place, 0, { token, row: firstRow + row })
    if (smallest.length > MAX_SAMPLE_ROWS) smallest.pop()
  }
  return contacts
}
