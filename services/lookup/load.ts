import { bulkhead } from 'cockatiel'
import { LRUCache } from 'lru-cache'
import type { NormalizedRows } from '../../schemas/types.ts'
import { withTimeout } from '../platform/retry.ts'
import type { Incoming } from '../engine/stage.ts'
import { laneOf } from '../platform/topics.ts'
import { yieldToEventLoop } from '../platform/event-loop.ts'
import type { CachedRecord, RecordCache } from '../cache/cache.ts'
import { coordinatesOf } from '../results/chunk-coordinates.ts'

export type ChunkMessage = Incoming<'rows.normalized'>

/** A chunk's rows and what the cache had for them; no records when the job bypasses the cache. */
export type LoadedChunk = {
  readonly rows: NormalizedRows
  readonly records: readonly (CachedRecord | undefined)[]
}

export type Loader = {
  (message: ChunkMessage): Promise<LoadedChunk>
  /** Starts the work for whoever needs the chunk later, if there is room for it. */
  readonly ahead: (message: ChunkMessage) => void
  /** Keeps nothing more of chunks whose job is done. */
  readonly forget: (messages: Iterable<ChunkMessage>) => void
}

/**
 * Opens a chunk and looks its tokens up in the cache, once a message: `ahead`, when the chunk
 * arrives, starts the work; the call that needs the result finds it done or under way. Chunks that
 * arrive together are opened one a turn, so that others get theirs in between, and looked up a few
 * at a time. Rejects when the rows can't be read or do not fit their envelope.
 *
 * While many big jobs are gathered at once, there is no room for the rows of all: the others are
 * loaded when their job is decided. What is held of them until then is their message, sealed and
 * compressed. A job too large for the room drops what was loaded first.
 */
export function createLoader (
  cache: Pick<RecordCache, 'find'>, roomBytes = ROOM_BYTES
): Loader {
  const loading = new WeakMap<ChunkMessage, Promise<LoadedChunk>>()
  const find = fewAtOnce(cache)
  const kept = new LRUCache<ChunkMessage, number>({
    maxSize: roomBytes,
    sizeCalculation: bytes => bytes,
    dispose: (_bytes, message) => { loading.delete(message) },
  })
  const loadOnce = (message: ChunkMessage) => {
    const known = loading.get(message)
    if (known !== undefined) return known
    const { tenant, totalRows } = message.value
    const started = yieldToEventLoop(laneOf(totalRows), tenant).then(() => load(message, find))
    // Whoever needs the chunk sees the failure; until then nobody may be listening.
    started.catch(() => {})
    loading.set(message, started)
    kept.set(message, bytesOf(message))
    return started
  }
  return Object.assign(loadOnce, {
    ahead: (message: ChunkMessage) => {
      if (kept.calculatedSize + bytesOf(message) <= roomBytes) loadOnce(message).catch(() => {})
    },
    forget: (messages: Iterable<ChunkMessage>) => {
      for (const message of messages) kept.delete(message)
    },
  })
}

/** Chunks of a lane that are looked up at a time, so that Redis always has one at hand. */
const LOOKS_AT_ONCE = 2
/** A look that takes longer lets the next begin: where Redis hangs, those of a job fail at once. */
const LOOK_HOLDS_MS = 100

/**
 * The looks of one lane stand in line here and not on the connection, which the other lane uses as
 * well: a small job's look never stands behind a whole big job.
 */
function fewAtOnce (cache: Pick<RecordCache, 'find'>): RecordCache['find'] {
  const places = bulkhead(LOOKS_AT_ONCE, Number.MAX_SAFE_INTEGER)
  return async (...asked) => {
    const { look } = await places.execute(async () => {
      const begun = cache.find(...asked)
      await withTimeout(begun, LOOK_HOLDS_MS)
      return { look: begun }
    })
    return await look
  }
}

/** One of the largest jobs, if its inputs are as long as phone numbers, and some small ones. */
const ROOM_BYTES = 16 * 1_024 * 1_024
/** Rows take several times the memory of their message, compressed but for the tokens. */
const MEMORY_PER_BYTE = 4

/** About the memory that a chunk takes. */
function bytesOf ({ raw }: ChunkMessage): number {
  return 1 + (raw.value?.length ?? 0) * MEMORY_PER_BYTE
}

async function load (message: ChunkMessage, find: RecordCache['find']): Promise<LoadedChunk> {
  const { value } = message
  const rows = message.rows()
  if (rows.inputs.length !== value.rows || rows.canonicals.length !== value.rows) {
    throw new Error('a chunk holds as many rows as its envelope says')
  }
  if (value.forceFresh) return { rows, records: [] }
  const { tenant, service } = coordinatesOf(value)
  const scope = { tenant, service, version: value.tokenVersion, others: rows.otherTokens }
  return { rows, records: await find(scope, rows.tokens) }
}
