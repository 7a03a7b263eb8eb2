import type { Redis } from 'ioredis'
import { ACCOUNTS_RUN_KEY } from '../../../services/accounts/records.ts'

const RUN = 'the run'

/** The few commands accounts use, in memory; `calls` counts them by name. */
export function memoryRedis () {
  const hashes = new Map<string, Record<string, string>>()
  const sorted = new Map<string, Map<string, number>>()
  const sets = new Map<string, Set<string>>()
  const texts = new Map([[ACCOUNTS_RUN_KEY, RUN]])
  const calls: Record<string, number> = {}
  const count = (name: string) => { calls[name] = (calls[name] ?? 0) + 1 }
  const add = (key: string, ...members: string[]) => {
    sets.set(key, new Set([...sets.get(key) ?? [], ...members]))
  }
  const change = createChange(hashes, texts, add)
  const commands = {
    hset: async (key: string, fields: Record<string, string>) => {
      count('hset')
      hashes.set(key, { ...hashes.get(key), ...fields })
    },
    get: async (key: string) => texts.get(key) ?? null,
    set: async (key: string, text: string, when: 'NX') => {
      if (when === 'NX' && texts.has(key)) return null
      texts.set(key, text)
      return 'OK'
    },
    hget: async (key: string, field: string) => {
      count('hget')
      return hashes.get(key)?.[field] ?? null
    },
    hsetnx: async (key: string, field: string, text: string) => {
      hashes.set(key, { [field]: text, ...hashes.get(key) })
    },
    hexists: async (key: string, field: string) => hashes.get(key)?.[field] === undefined ? 0 : 1,
    del: async (key: string) => { hashes.delete(key) },
    hmget: async (key: string, ...fields: string[]) =>
      fields.map(field => hashes.get(key)?.[field] ?? null),
    hgetall: async (key: string) => ({ ...hashes.get(key) }),
    zadd: async (key: string, score: string, member: string) => {
      sorted.set(key, new Map(sorted.get(key)).set(member, Number(score)))
    },
    zrange: async (key: string) => [...sorted.get(key) ?? []]
      .toSorted(([, one], [, other]) => one - other).map(([member]) => member),
    sadd: async (key: string, ...members: string[]) => add(key, ...members),
    srem: async (key: string, member: string) => { sets.get(key)?.delete(member) },
    scard: async (key: string) => sets.get(key)?.size ?? 0,
    smembers: async (key: string) => [...sets.get(key) ?? []],
    // The number of keys distinguishes the scripts that change a record from those that read one.
    call: async (...args: readonly unknown[]) => {
      const [, , keys, ...given] = args.map(String)
      if (keys === '4') {
        count('change')
        return change(given)
      }
      const [name = '', run = '', ...fields] = given
      count(fields.length === 0 ? 'read' : 'read fields')
      const isCurrent = texts.get(run) === RUN
      const stored = hashes.get(name) ?? {}
      return [isCurrent ? 1 : 0, fields.length === 0
        ? Object.entries(stored).flat()
        : fields.map(field => stored[field] ?? null)]
    },
  }
  return { redis: commands as unknown as Redis, calls, hashes, sets, texts }
}

/** The effect of the script that changes a record. */
function createChange (
  hashes: Map<string, Record<string, string>>, texts: ReadonlyMap<string, string>,
  add: (key: string, member: string) => void
) {
  return (given: readonly string[]) => {
    const [key = '', all = '', outbox = '', run = '', name = '', from, random, ...more] = given
    const held = hashes.get(key)
    const isNew = random === '1' && held?.['revision'] === undefined
    if (!isNew && texts.get(run) !== RUN) throw new Error('RECOVERING')
    if (from !== '' && from !== (held?.['revision'] ?? '0')) return 0
    const fields = Object.fromEntries(Array.from({ length: more.length / 2 }, (_, index) =>
      [more[2 * index], more[2 * index + 1]]))
    const revision = String(Number(held?.['revision'] ?? 0) + 1)
    hashes.set(key, { ...held, ...fields, revision })
    add(all, name)
    add(outbox, name)
    return 1
  }
}
