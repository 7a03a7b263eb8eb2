import { expect, it } from 'vitest'
import type { ConsumeOptions } from '../../../services/lib/bus.ts'
import {
  startPartnerFeed, type PartnerFeedParts,
} from '../../../services/feed/partner-feed.ts'
import { createRoom } from '../../../services/feed/room.ts'
import type { Submission } from '../../../services/jobs/submit.ts'
import { systemClock } from '../../../services/lib/clock.ts'
import { createCodec, localSource } from '../../../services/lib/registry.ts'
import { eventually } from '../../support/eventually.ts'
import { sealedContact } from '../../support/feeds.ts'

const partner = {
  name: 'acme',
  orgId: 'org_1',
  tenant: 'org_1.live',
  mode: 'live',
  pricesMicros: {},
  partitions: 1,
  createdAtMs: 0,
  revokedAtMs: 0,
  keys: [],
} as const

it('a feed whose consumer breaks begins anew, and ends no process', async () => {
  const begun: ConsumeOptions[] = []
  const told: unknown[] = []
  let isReady = true
  const parts: Partial<PartnerFeedParts> = {
    bus: {
      consume: async options => {
        begun.push(options)
        return { ready: () => isReady, stop: async () => { told.push('stop') } }
      },
    },
    fail: error => { told.push(['fatal', error]) },
    onBroken: (error, name) => { told.push([name, error]) },
    now: () => 0,
    sleep: async () => {},
  }
  const feed = startPartnerFeed(partner, parts as PartnerFeedParts)
  await eventually(() => expect(feed.state()).toBe('running'))
  isReady = false
  const error = new Error('Snappy compression not implemented')
  begun[0]?.onFailed?.(error)
  await eventually(() => expect(begun).toHaveLength(2))
  expect([told, feed.state()]).toEqual([['stop', ['acme', error]], 'failing'])
  isReady = true
  expect(feed.state()).toBe('running')
  await feed.stop()
  expect(told).toEqual(['stop', ['acme', error], 'stop'])
})

it('asks for no job of what it has taken while its stage is paused', async () => {
  const codec = createCodec(localSource())
  const key = Buffer.alloc(32, 3)
  const asked: Submission[] = []
  const begun: ConsumeOptions[] = []
  const { promise: goesOn, resolve: goOn } = Promise.withResolvers<void>()
  let looks = 0
  const parts: Partial<PartnerFeedParts> = {
    bus: {
      consume: async options => {
        begun.push(options)
        return { ready: () => true, stop: async () => {} }
      },
    },
    codec,
    isConfigured: () => true,
    cursors: { read: async () => new Map() } as unknown as PartnerFeedParts['cursors'],
    marks: {
      read: async () => ({ offset: -1, senders: new Map() }),
      write: async () => true,
    },
    partners: { keysOf: async () => [key] },
    clock: systemClock,
    deadLetters: { send: async () => {} },
    faults: { answer: async () => {}, giveUp: async () => {} },
    metrics: { count: () => {} },
    held: createRoom(10),
    rules: { limit: 1, ageMs: 60_000 },
    submitter: {
      submit: async submission => {
        asked.push(submission)
        return { kind: 'accepted' } as never
      },
    },
    now: () => 0,
    // It is paused between the taking and the asking.
    gate: { isOpen: () => true, opened: async () => { if (++looks > 1) await goesOn } },
  }
  const feed = startPartnerFeed(partner, parts as PartnerFeedParts)
  const sent = sealedContact(key, '+12127365000', { partner: 'acme', sequence: 0 })
  const value = await codec.encode('feeds.submitted-value', sent)
  const topic = 'feeds.acme.submitted'
  const raw = { offset: 0n, timestampMs: 0, key: Buffer.from('k'), value, headers: {} }
  await begun[0]?.onDelivery({
    topic,
    partition: 0,
    messages: [{ topic, partition: 0, ...raw }],
    more: () => [],
    signal: new AbortController().signal,
    commit: async () => {},
  })
  await eventually(() => expect(looks).toBe(2))
  expect(asked).toEqual([])
  goOn()
  await eventually(() => expect(asked.map(({ inputs }) => inputs)).toEqual([['+12127365000']]))
  await feed.stop()
})
