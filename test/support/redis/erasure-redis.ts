import type { Redis } from 'ioredis'

/** The commands of Redis that erasures need, in memory; `values` has strings with their expiry. */
export function createErasureRedis () {
  const values = new Map<string, { value: string, expiresMs: number }>()
  const sets = new Map<string, Map<string, number>>()
  const setOf = (key: string) => {
    const found = sets.get(key) ?? new Map<string, number>()
    sets.set(key, found)
    return found
  }
  const commands = {
    get: async (key: string) => values.get(key)?.value ?? null,
    getBuffer: async (key: string) => {
      const value = values.get(key)?.value
      return value === undefined ? null : Buffer.from(value)
    },
    exists: async (key: string) => values.has(key) ? 1 : 0,
    pexpiretime: async (key: string) => values.get(key)?.expiresMs ?? -2,
    set: async (key: string, value: string, ...options: readonly (string | number)[]) => {
      const known = values.get(key)
      if (options.includes('NX') && known !== undefined) return null
      if (options.includes('XX') && known === undefined) return null
      const expiresMs = options[0] === 'PXAT' ? Number(options[1]) : known?.expiresMs ?? -1
      values.set(key, { value, expiresMs })
      return 'OK'
    },
    del: async (key: string) => values.delete(key) ? 1 : 0,
    zadd: async (key: string, score: number, member: string) => {
      setOf(key).set(member, score)
    },
    zrem: async (key: string, member: string) => setOf(key).delete(member) ? 1 : 0,
    zrange: async (key: string, from: string, to: string) => [...setOf(key)]
      .toSorted(([, one], [, other]) => one - other).map(([member]) => member)
      .slice(Number(from), Number(to) + 1),
    zcard: async (key: string) => setOf(key).size,
    zcount: async (key: string, _from: string, to: number) =>
      [...setOf(key).values()].filter(score => score <= to).length,
  }
  return { redis: commands as unknown as Redis, values, sets }
}
