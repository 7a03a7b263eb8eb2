import type { Redis } from 'ioredis'
import type { MessageKeySettings } from '../lib/mac.ts'
import { createHeadsCodec } from '../records/journal-heads.ts'
import type { Proven } from './audit-proof.ts'

/** String: two heads of each tenant, signed: without the last entry that was proven, and with. */
const PROVEN_KEY = '{audit}:proven'

/**
 * Where the next audit goes on. It stands in Redis, so that a copy of Redis that is put back has
 * the position of its own time. What is missing or not authentic is as if nothing was ever proven.
 */
export type Position = {
  readonly read: () => Promise<ReadonlyMap<string, Proven>>
  readonly keep: (proven: ReadonlyMap<string, Proven>) => Promise<void>
}

/** Exported heads are no positions: they were signed before anybody had proven them. */
export function createPosition (
  redis: Pick<Redis, 'get' | 'set'>, settings: MessageKeySettings
): Position {
  const codec = createHeadsCodec(settings, 'proven journal head')
  return {
    read: async () => {
      const { at, tenants } = codec.decode(await redis.get(PROVEN_KEY) ?? '') ??
        { at: 0, tenants: [] }
      const byTenant = Map.groupBy(tenants, ({ tenant }) => tenant)
      return new Map([...byTenant].flatMap(([tenant, [before, head]]) =>
        before === undefined || head === undefined ? [] : [[tenant, { ...head, before, at }]]))
    },
    keep: async proven => {
      const [{ at } = { at: 0 }] = proven.values()
      const tenants = [...proven].flatMap(([tenant, { before, seq, hash, missing }]) =>
        [{ ...before, tenant }, { seq, hash, missing, tenant }])
      await redis.set(PROVEN_KEY, codec.encode({ at, tenants }))
    },
  }
}
