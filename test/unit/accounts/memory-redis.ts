import type { Redis } from 'ioredis'

/** The few commands accounts use, in memory; `calls` counts them by name. */
export function memoryRedis () {
  const hashes = new Map<string, Record<string, string>>()
  const lists = new Map<string, string[]>()
  const sets = new Map<string, Set<string>>()
  const texts = new Map<string, string>()
  const calls: Record<string, number> = {}
  const count = (name: string) => { calls[name] = (calls[name] ?? 0) + 1 }
  const commands = {
    hset: async (key: string, fields: Record<string, string>) => {
      count('hset')
      hashes.set(key, { ...hashes.get(key), ...fields })
    },
    get: async (key: string) => texts.get(key) ?? null,
    set: async (key: string, text: string, when: 'NX' | 'XX') => {
      if (texts.has(key) !== (when === 'XX')) return null
      texts.set(key, text)
      return 'OK'
    },
    hget: async (key: string, field: string) => {
      count('hget')
      return hashes.get(key)?.[field] ?? null
    },
    hmget: async (key: string, ...fields: string[]) =>
      fields.map(field => hashes.get(key)?.[field] ?? null),
    hgetall: async (key: string) => {
      count('hgetall')
      return { ...hashes.get(key) }
    },
    rpush: async (key: string, value: string) => {
      lists.set(key, [...lists.get(key) ?? [], value])
    },
    lrange: async (key: string) => lists.get(key) ?? [],
    sadd: async (key: string, ...members: string[]) => {
      sets.set(key, new Set([...sets.get(key) ?? [], ...members]))
    },
    // The script by which a value takes the place of the one that was read.
    call: async (...args: readonly unknown[]) => {
      const [, , , key, before, after] = args as string[]
      if (texts.get(key!) !== before) return 0
      texts.set(key!, after!)
      return 1
    },
    smembers: async (key: string) => [...sets.get(key) ?? []],
  }
  return { redis: commands as unknown as Redis, calls, hashes, sets, texts }
}
