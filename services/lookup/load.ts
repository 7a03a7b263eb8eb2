import { LRUCache } from 'lru-cache'
import type { NormalizedRows } from '../../schemas/types.ts'
import type { Incoming } from '../lib/stage.ts'
import { laneOf } from '../lib/topics.ts'
import { turn } from '../lib/turn.ts'
import type { CachedRecord, RecordCache } from '../records/cache.ts'
import { placeOf } from '../records/place.ts'

export type ChunkMessage = Incoming<'rows.normalized'>

/** A chunk's rows and what the cache had for them; no records when the job bypasses the cache. */
export type LoadedChunk = {
  readonly rows: NormalizedRows
  readonly records: readonly (CachedRecord | undefined)[]
}

export type Loader = {
  (message: ChunkMessage): Promise<LoadedChunk>
  /** Keeps nothing more of chunks whose job is done. */
  readonly forget: (messages: Iterable<ChunkMessage>) => void
}

/**
 * Opens a chunk and looks its tokens up in the cache, once a message: the first call, when the
 * chunk arrives, starts the work; the call that needs the result finds it done or under way.
 * Chunks that arrive together are opened one a turn, so that others get theirs in between, and
 * looked up at the same time. Rejects when the rows can't be read or do not fit their envelope.
 *
 * While many big jobs are gathered at once, there is no room for the rows of all: those that were
 * loaded first are dropped, and loaded once more when their job is decided. What is held of them
 * until then is their message, sealed and compressed.
 */
export function createLoader (
  cache: Pick<RecordCache, 'find'>, roomBytes = ROOM_BYTES
): Loader {
  const loading = new WeakMap<ChunkMessage, Promise<LoadedChunk>>()
  const kept = new LRUCache<ChunkMessage, number>({
    maxSize: roomBytes,
    sizeCalculation: bytes => bytes,
    dispose: (_bytes, message) => { loading.delete(message) },
  })
  const loadOnce = (message: ChunkMessage) => {
    const known = loading.get(message)
    if (known !== undefined) return known
    const started = turn(laneOf(message.value.totalRows)).then(() => load(message, cache))
    // Whoever needs the chunk sees the failure; until then nobody may be listening.
    started.then(chunk => kept.set(message, bytesOf(chunk)), () => {})
    loading.set(message, started)
    return started
  }
  return Object.assign(loadOnce, {
    forget: (messages: Iterable<ChunkMessage>) => {
      for (const message of messages) kept.delete(message)
    },
  })
}

/** One of the largest jobs, if its inputs are as long as phone numbers and all of it is cached. */
const ROOM_BYTES = 56 * 1_024 * 1_024
/** What a text takes beside its characters, and a record with its fields. */
const TEXT_BYTES = 24
const RECORD_BYTES = 400

/** About the memory that a chunk takes. */
function bytesOf ({ rows, records }: LoadedChunk): number {
  const texts = [rows.inputs, rows.canonicals].flat()
  const characters = texts.reduce((sum, text) => sum + text.length, 0)
  const found = records.filter(record => record !== undefined).length
  return 1 + characters + texts.length * TEXT_BYTES + rows.tokens.length + found * RECORD_BYTES
}

async function load (message: ChunkMessage, cache: Pick<RecordCache, 'find'>):
Promise<LoadedChunk> {
  const { value } = message
  const rows = message.rows()
  if (rows.inputs.length !== value.rows || rows.canonicals.length !== value.rows) {
    throw new Error('a chunk holds as many rows as its envelope says')
  }
  if (value.forceFresh) return { rows, records: [] }
  const { tenant, service } = placeOf(value)
  const scope = { tenant, service, version: value.tokenVersion, others: rows.otherTokens }
  return { rows, records: await cache.find(scope, rows.tokens) }
}
