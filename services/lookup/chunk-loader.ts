import { LRUCache } from 'lru-cache'
import type { NormalizedRows } from '../../schemas/types.ts'
import { InconsistencyError } from '../platform/errors.ts'
import { withTimeout } from '../platform/retry.ts'
import type { Incoming } from '../engine/stage.ts'
import { laneOf } from '../platform/topics.ts'
import { yieldToEventLoop } from '../platform/event-loop.ts'
import { createFairSlots } from '../platform/fair-slots.ts'
import type { RecordCache } from '../cache/cache.ts'
import type { CachedRecord } from '../cache/entries.ts'
import { coordinatesOf } from '../results/block.ts'

export type ChunkMessage = Incoming<'rows.normalized'>

/** The rows of a chunk and its cached records; no records when the job bypasses the cache. */
type LoadedChunk = {
  readonly rows: NormalizedRows
  readonly records: readonly (CachedRecord | undefined)[]
}

export type Loader = {
  (message: ChunkMessage): Promise<LoadedChunk>
  /** Starts loading a chunk, if there is memory for it. */
  readonly prefetch: (message: ChunkMessage) => void
  /** Releases the chunks of a decided job. */
  readonly forget: (messages: Iterable<ChunkMessage>) => void
}

/**
 * Decrypts a chunk and looks up its tokens in the cache, once per message. `prefetch` starts this
 * when the chunk arrives; the later call gets the result. It yields to other jobs between chunks
 * and limits concurrent lookups. Rejects when the rows are unreadable or do not match their
 * envelope.
 *
 * If there is no memory for the rows of all waiting jobs, further chunks are loaded when their job
 * is decided; until then only their message is held, sealed and compressed. A job larger than the
 * memory drops its first chunks.
 */
export function createLoader (
  cache: Pick<RecordCache, 'find'>, maxBytes = MAX_LOADED_BYTES
): Loader {
  const loading = new WeakMap<ChunkMessage, Promise<LoadedChunk>>()
  const find = withLimit(cache)
  const loaded = new LRUCache<ChunkMessage, number>({
    maxSize: maxBytes,
    sizeCalculation: bytes => bytes,
    dispose: (_bytes, message) => { loading.delete(message) },
  })
  const loadOnce = (message: ChunkMessage) => {
    const known = loading.get(message)
    if (known !== undefined) return known
    const { tenant, totalRows } = message.value
    const started = yieldToEventLoop(laneOf(totalRows), tenant).then(() => load(message, find))
    // The later call sees the failure; until then it may be unhandled.
    started.catch(() => {})
    loading.set(message, started)
    loaded.set(message, bytesOf(message))
    return started
  }
  return Object.assign(loadOnce, {
    prefetch: (message: ChunkMessage) => {
      if (loaded.calculatedSize + bytesOf(message) <= maxBytes) loadOnce(message).catch(() => {})
    },
    forget: (messages: Iterable<ChunkMessage>) => {
      for (const message of messages) loaded.delete(message)
    },
  })
}

/** Concurrent lookups of a lane, so that Redis is never idle. */
const CONCURRENT_LOOKUPS = 2
/** A slower lookup frees its slot: if Redis hangs, all lookups of a job fail at once. */
const LOOKUP_SLOT_MS = 100

/** Lookups by which a tenant that was idle goes before busy ones: a job of 20,000 rows. */
const MAX_CREDIT_LOOKUPS = 10

/**
 * Queues the lookups of one lane here instead of on the connection, which both lanes share: so a
 * lookup of a small job never waits behind a big job, and tenants take turns.
 */
function withLimit (cache: Pick<RecordCache, 'find'>): RecordCache['find'] {
  const slots = createFairSlots({ capacity: CONCURRENT_LOOKUPS, maxCredit: MAX_CREDIT_LOOKUPS })
  return async (...query) => {
    const [{ tenant }] = query
    const { lookup } = await slots.run({ name: tenant, cost: 1 }, async () => {
      const pending = cache.find(...query)
      await withTimeout(pending, LOOKUP_SLOT_MS)
      return { lookup: pending }
    })
    return await lookup
  }
}

/** Fits one of the largest jobs with inputs as long as phone numbers, and some small ones. */
const MAX_LOADED_BYTES = 16 * 1_024 * 1_024
/**
 * Rows take several times the memory of their message, which is compressed except for the tokens.
 */
const MEMORY_PER_BYTE = 4

/** The estimated memory of a chunk, in bytes. */
function bytesOf ({ raw }: ChunkMessage): number {
  return 1 + (raw.value?.length ?? 0) * MEMORY_PER_BYTE
}

async function load (message: ChunkMessage, find: RecordCache['find']): Promise<LoadedChunk> {
  const { value } = message
  const rows = message.rows()
  if (rows.inputs.length !== value.rows || rows.canonicals.length !== value.rows) {
    throw new InconsistencyError(`chunk ${value.chunk} of job ${value.job} has ` +
      `${rows.inputs.length} inputs, ${rows.canonicals.length} canonical forms, expected ` +
      `${value.rows}`)
  }
  if (value.forceFresh) return { rows, records: [] }
  const { tenant, service } = coordinatesOf(value)
  const scope = { tenant, service, version: value.tokenVersion, rotated: rows.rotatedTokens }
  return { rows, records: await find(scope, rows.tokens) }
}
