import { randomBytes } from 'node:crypto'
import type { Redis } from 'ioredis'
import { sealContact, type ContactPlace } from '../../../schemas/feeds/seal.ts'
import type { FeedContact } from '../../../schemas/types.ts'
import type { Partner } from '../../../services/accounts/partners.ts'
import { createCursors, createMarkStore } from '../../../services/feed/replay-guard.ts'
import { sleep, systemClock } from '../../../services/runtime/platform/retry.ts'
import { createCodec } from '../../../services/runtime/kafka/registry.ts'
import { localSource } from '../kafka/local-schemas.ts'
import { createWallet } from '../../../services/money/wallet.ts'
import { Capacity } from '../../../services/runtime/platform/limits.ts'
import {
  createPartnerFeed, startPartnerFeeds, type PartnerFeedDeps, type PartnerFeedsDeps,
} from '../../../services/feed/partner-feeds.ts'
import type { MemoryBus } from '../kafka/memory-bus.ts'

const codec = createCodec(localSource())
/** The key of every partner here. */
export const partnerKey = randomBytes(32)
let partners = 0

/** One run of a producer. */
export const SENDER = '0b9f4a3e-7c55-4e0e-9f43-1a2b3c4d5e6f'

/** A contact as a partner sends it: by default for WhatsApp, now, to partition 0. */
export function sealedContact (
  key: Buffer, input: string,
  { partner, ...change }: Partial<FeedContact> & Pick<ContactPlace, 'partner' | 'sequence'>
): FeedContact {
  const place = {
    reference: `c${change.sequence}`,
    service: 'whatsapp',
    countryCode: '',
    forceFresh: false,
    partition: 0,
    sender: SENDER,
    sentAt: Date.now(),
    ...change,
  }
  return { end: false, ...place, sealed: sealContact(key, { partner, ...place }, input) }
}

/** A new partner with 1,000 USD. */
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
    types: 'json',
    createdAtMs: 0,
    revokedAtMs: 0,
    keys: [],
  } as const
  const reservedMicros = async () => (await wallet.balance(tenant)).reservedMicros
  return { partner, topic: `feeds.${name}.submitted`, reservedMicros }
}

/** A message of a feed: a contact for a service, or a copy of the message at an offset. */
export type Sent = { readonly service: string } | { readonly copyOf: number }

/** Sends messages in their order. */
export async function fill (
  bus: MemoryBus, partner: string, log: readonly Sent[]
): Promise<void> {
  const topic = `feeds.${partner}.submitted`
  for (const sent of log) {
    const index = bus.messages(topic).length
    if ('copyOf' in sent) {
      const { key, value } = bus.messages(topic)[sent.copyOf]!
      await bus.producer('adversary').send([{ topic, key: String(key), value, headers: {} }])
      continue
    }
    const { service } = sent
    const contact = sealedContact(
      partnerKey, `input ${index}`, { partner, service, sequence: index })
    const value = await codec.encode('feeds.submitted-value', contact)
    await bus.producer('partner').send([{ topic, key: contact.reference, value, headers: {} }])
  }
}

/** The dependencies of a feed on its own Redis, with short pauses. */
export function feedDeps (
  redis: Redis,
  { limit, submit }: Pick<PartnerFeedDeps, 'submit'> & { readonly limit: number }
): PartnerFeedDeps {
  return {
    codec,
    submit,
    cursors: createCursors(redis),
    marks: createMarkStore(redis),
    partners: { keysOf: async () => [partnerKey] },
    clock: systemClock,
    metrics: { count: () => {} },
    deadLetters: { send: async () => {}, report: async () => {} },
    isReplay: () => false,
    rejections: { reject: async () => {}, fail: async () => {} },
    isConfigured: () => true,
    buffered: new Capacity(1_000),
    batchLimits: { contacts: limit, ageMs: 3 },
    backpressure: { wallet: createWallet(redis), redis, maxPauseMs: 10, pollMs: 1 },
    pauseAfterMs: 1_000,
    now: () => performance.now(),
    // The backoff protects other tenants, of which a test has none.
    sleep: (ms, signal) => sleep(Math.min(ms, 4), signal),
    onBroken: error => { throw error },
    onLost: () => {},
    onReplay: () => {},
    onRetry: () => {},
  }
}

/** Runs the feed of one partner. */
export function runFeed (
  partner: Partner, bus: PartnerFeedsDeps['bus'], deps: PartnerFeedDeps
) {
  return startPartnerFeeds({
    partners: { list: async () => [partner], version: async () => '1' },
    createFeed: one => createPartnerFeed(one, deps),
    bus,
    pollMs: 1,
    now: () => performance.now(),
    log: { info: () => {}, warn: () => {}, error: () => {} },
    fail: error => { throw error },
  })
}
