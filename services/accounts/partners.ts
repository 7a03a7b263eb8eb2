import { randomBytes } from 'node:crypto'
import type { Redis } from 'ioredis'
import { textOfPartnerKey } from '../../schemas/feeds/seal.ts'
import type { KeyRing, Wrapped } from '../lib/key-ring.ts'
import { createSwap } from '../lib/swap.ts'
import { isMode, tenantOf, type Mode } from './tenant.ts'

/** Who sends contacts in bulk through topics of its own. */
export type Partner = {
  readonly name: string
  readonly orgId: string
  readonly tenant: string
  readonly mode: Mode
  /** Unit prices in USD micros that differ from the price list, by service. */
  readonly pricesMicros: Readonly<Record<string, number>>
  readonly partitions: number
  readonly createdAtMs: number
  /** 0 while its contacts are taken. */
  readonly revokedAtMs: number
}

export type NewPartner =
  Pick<Partner, 'name' | 'orgId' | 'mode' | 'pricesMicros' | 'partitions'>

export type Partners = ReturnType<typeof createPartners>

type Options = {
  readonly redis: Redis
  readonly ring: Pick<KeyRing, 'wrap' | 'unwrap'>
  readonly now?: () => number
}
type Stored = Omit<Partner, 'tenant'> & { readonly key: string }

const KEY_BYTES = 32
const NAMES_KEY = 'partners'
const NAME = /^[a-z0-9][a-z0-9-]{0,62}$/
const keyOf = (name: string) => `partner:${name}`
const aadOf = (name: string) => ['partner-key', name]

/**
 * The registered partners of bulk feeds, in Redis as `partner:<name>`, their keys sealed by the
 * ring. A name is never used twice: what its topics hold belongs to the first who had it.
 */
export function createPartners ({ redis, ring, now = Date.now }: Options) {
  const read = (name: string) => readStored(redis, name)
  return {
    /** Registers a partner; its key is shown here and never again. Undefined: the name is taken. */
    async create (partner: NewPartner): Promise<{ readonly key: string } | undefined> {
      checkName(partner.name)
      const key = randomBytes(KEY_BYTES)
      const wrapped = ring.wrap(key, aadOf(partner.name)).toString('base64')
      const stored: Stored = { ...partner, createdAtMs: now(), revokedAtMs: 0, key: wrapped }
      // Listed first: a crash in between leaves no partner that nobody sees.
      await redis.sadd(NAMES_KEY, partner.name)
      const set = await redis.set(keyOf(partner.name), JSON.stringify(stored), 'NX')
      return set === null ? undefined : { key: textOfPartnerKey(key) }
    },

    /** Takes no more contacts of a partner; results under way still reach it. */
    async revoke (name: string): Promise<boolean> {
      const stored = await read(name)
      if (stored === undefined) return false
      if (stored.revokedAtMs === 0) {
        await redis.set(keyOf(name), JSON.stringify({ ...stored, revokedAtMs: now() }), 'XX')
      }
      return true
    },

    /** All partners by name, revoked ones included. */
    async list (): Promise<Partner[]> {
      const names = await redis.smembers(NAMES_KEY)
      const found = await Promise.all(names.toSorted().map(read))
      return found.flatMap(stored => stored === undefined ? [] : [shown(stored)])
    },

    async find (name: string): Promise<Partner | undefined> {
      const stored = await read(name)
      return stored === undefined ? undefined : shown(stored)
    },

    /** The partners' keys as the ring wraps them. */
    wrapped: () => wrappedKeys(redis),

    /** The key that contacts and results of a partner are sealed with. */
    async keyOf (name: string): Promise<Buffer | undefined> {
      const stored = await read(name)
      if (stored === undefined) return undefined
      return ring.unwrap(Buffer.from(stored.key, 'base64'), aadOf(name))
    },
  }
}

/** Throws RangeError for a name that can't be part of a topic's name. */
export function checkName (name: string): void {
  if (NAME.test(name)) return
  throw new RangeError('A partner is named by 1 to 63 small letters, digits and dashes, and does ' +
    'not begin with a dash.')
}

async function wrappedKeys (redis: Redis): Promise<Wrapped[]> {
  const swap = createSwap(redis)
  const found = await Promise.all((await redis.smembers(NAMES_KEY)).map(async name => {
    const text = await redis.get(keyOf(name))
    if (text === null) return []
    const stored = JSON.parse(text) as Stored
    const replace = (fresh: Buffer) => {
      const after = JSON.stringify({ ...stored, key: fresh.toString('base64') })
      return swap({ key: keyOf(name) }, text, after)
    }
    return [{ bytes: Buffer.from(stored.key, 'base64'), binding: aadOf(name), replace }]
  }))
  return found.flat()
}

async function readStored (redis: Redis, name: string): Promise<Stored | undefined> {
  const text = await redis.get(keyOf(name))
  return text === null ? undefined : JSON.parse(text) as Stored
}

function shown ({ key: _key, ...stored }: Stored): Partner {
  if (!isMode(stored.mode)) throw new Error(`partner ${stored.name} has no mode`)
  return { ...stored, tenant: tenantOf(stored.orgId, stored.mode) }
}
