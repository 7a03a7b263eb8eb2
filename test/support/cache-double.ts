import type { RecordCache } from '../../services/cache/cache.ts'
import { TOKEN_BYTES } from '../../services/cache/tokens.ts'
import type { CachedRecord } from '../../services/cache/entries.ts'

/**
 * A cache in memory, whatever tenant, service and version: `entries` and the jobs that hold leases
 * by hex token.
 */
export function createCacheDouble (): RecordCache & {
  entries: Map<string, CachedRecord>, holders: Map<string, string>,
} {
  const entries = new Map<string, CachedRecord>()
  const holders = new Map<string, string>()
  const namesOf = (tokens: Buffer) =>
    Array.from({ length: tokens.length / TOKEN_BYTES }, (_, row) =>
      tokens.toString('hex', row * TOKEN_BYTES, (row + 1) * TOKEN_BYTES))
  return {
    entries,
    holders,
    find: async (_scope, tokens) => namesOf(tokens).map((name) => entries.get(name)),
    claim: async (_scope, tokens, { job, usable }) => namesOf(tokens).map((name) => {
      const record = entries.get(name)
      if (record !== undefined && usable(record)) return record
      if (!holders.has(name)) holders.set(name, job)
      return holders.get(name) === job ? 'mine' : 'leased'
    }),
    store: async (_scope, tokens, records) => {
      for (const [row, name] of namesOf(tokens).entries()) {
        const record = records[row]
        if (record === undefined || record.status === 'unknown') continue
        entries.set(name, record)
        holders.delete(name)
      }
    },
    offer: async (_scope, tokens, { records, usable }) =>
      namesOf(tokens).map((name, row) => {
        const record = entries.get(name)
        if (record !== undefined && usable(record)) return record
        if (holders.has(name)) return 'leased'
        const offered = records[row] as CachedRecord
        entries.set(name, offered)
        return offered
      }),
    release: async (_scope, tokens, job) => {
      for (const name of namesOf(tokens)) if (holders.get(name) === job) holders.delete(name)
    },
    erase: async (_scope, tokens) => {
      for (const name of namesOf(tokens)) entries.delete(name)
    },
  }
}
