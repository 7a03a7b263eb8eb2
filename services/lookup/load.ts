import { setImmediate } from 'node:timers/promises'
import type { NormalizedRows } from '../../schemas/types.ts'
import type { Incoming } from '../lib/stage.ts'
import type { CachedRecord, RecordCache } from '../records/cache.ts'
import { placeOf } from '../records/place.ts'

export type ChunkMessage = Incoming<'rows.normalized'>

/** A chunk's rows and what the cache had for them; no records when the job bypasses the cache. */
export type LoadedChunk = {
  readonly rows: NormalizedRows
  readonly records: readonly (CachedRecord | undefined)[]
}

export type Loader = (message: ChunkMessage) => Promise<LoadedChunk>

/**
 * Opens a chunk and looks its tokens up in the cache, once a message: the first call, when the
 * chunk arrives, starts the work; the call that needs the result finds it done or under way.
 * Chunks that arrive together are opened one after another, so that others get their turn in
 * between, and looked up at the same time. Rejects when the rows can't be read or do not fit their
 * envelope.
 */
export function createLoader (cache: Pick<RecordCache, 'find'>): Loader {
  const loading = new WeakMap<ChunkMessage, Promise<LoadedChunk>>()
  let turn = Promise.resolve()
  return (message) => {
    const known = loading.get(message)
    if (known !== undefined) return known
    const started = turn.then(() => load(message, cache))
    turn = turn.then(() => setImmediate())
    // Whoever needs the chunk sees the failure; until then nobody may be listening.
    started.catch(() => {})
    loading.set(message, started)
    return started
  }
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
  const scope = { tenant, service, version: value.tokenVersion }
  return { rows, records: await cache.find(scope, rows.tokens) }
}
