import { randomBytes } from 'node:crypto'
import type { Redis } from 'ioredis'
import { sealContact } from '../../schemas/feeds/seal.ts'
import { createCursors } from '../../services/jobs/cursors.ts'
import { createCodec, localSource } from '../../services/lib/registry.ts'
import { sleep } from '../../services/lib/retry.ts'
import { createWallet } from '../../services/money/wallet.ts'
import type { PartnerFeedParts } from '../../services/feed/partner-feed.ts'
import { createRoom } from '../../services/feed/room.ts'
import type { MemoryBus } from './memory-bus.ts'

const codec = createCodec(localSource())
/** The key of every partner here. */
export const partnerKey = randomBytes(32)
let partners = 0

/** A partner nobody has heard of, with 1,000 USD. */
export async function newPartner (redis: Redis) {
  const name = `p${partners += 1}`
  const orgId = `org_${name}`
  const tenant = `${orgId}.live`
  const wallet = createWallet(redis)
  await wallet.topUp(tenant, { id: 'a', amountMicros: 1_000_000_000, reason: '' })
  const partner = {
    name,
    orgId,
    tenant,
    mode: 'live',
    pricesMicros: {},
    partitions: 1,
    createdAtMs: 0,
    revokedAtMs: 0,
  } as const
  const reservedMicros = async () => (await wallet.balance(tenant)).reservedMicros
  return { partner, topic: `feeds.${name}.submitted`, reservedMicros }
}

/** Sends a contact for each of the services, in their order. */
export async function fill (
  bus: MemoryBus, partner: string, services: readonly string[]
): Promise<void> {
  for (const [index, service] of services.entries()) {
    const place = { reference: `c${index}`, service, countryCode: '', forceFresh: false }
    const sealed = sealContact(partnerKey, { partner, ...place }, `input ${index}`)
    const value = await codec.encode('feeds.submitted-value', { ...place, sealed, end: false })
    await bus.producer('partner').send(
      [{ topic: `feeds.${partner}.submitted`, key: place.reference, value, headers: {} }])
  }
}

/** What a feed is made of on a Redis of one's own, with pauses that are short. */
export function feedParts (
  redis: Redis,
  { bus, limit, submitter }:
  Pick<PartnerFeedParts, 'bus' | 'submitter'> & { readonly limit: number }
): PartnerFeedParts {
  return {
    bus,
    codec,
    submitter,
    cursors: createCursors(redis),
    metrics: { count: () => {} },
    deadLetters: { send: async () => {} },
    faults: { answer: async () => {}, giveUp: async () => {} },
    isConfigured: () => true,
    held: createRoom(1_000),
    rules: { limit, ageMs: 3 },
    shortage: { wallet: createWallet(redis), redis, longestMs: 10, pollMs: 1 },
    pauseAfterMs: 1_000,
    fail: error => { throw error },
    now: () => performance.now(),
    // Pauses between two tries are long only for the sake of others.
    sleep: (ms, signal) => sleep(Math.min(ms, 4), signal),
    onBroken: error => { throw error },
    onLost: () => {},
    onRetry: () => {},
  }
}
