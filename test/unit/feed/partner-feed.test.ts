import { expect, it } from 'vitest'
import type { ConsumeOptions } from '../../../services/kafka/bus.ts'
import { createCapacity } from '../../../services/feed/partition.ts'
import { startPartnerFeed, type PartnerFeedDeps } from '../../../services/feed/partner-feeds.ts'
import type { Submission } from '../../../services/jobs/send.ts'
import { systemClock } from '../../../services/platform/clock.ts'
import { createCodec, localSource } from '../../../services/kafka/registry.ts'
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

it('a partner feed restarts its failed consumer and does not stop the process', async () => {
  const consumers: ConsumeOptions[] = []
  const events: unknown[] = []
  let isReady = true
  const deps: Partial<PartnerFeedDeps> = {
    bus: {
      consume: async options => {
        consumers.push(options)
        return { ready: () => isReady, stop: async () => { events.push('stop') } }
      },
    },
    fail: error => { events.push(['fatal', error]) },
    onBroken: (error, name) => { events.push([name, error]) },
    now: () => 0,
    sleep: async () => {},
  }
  const feed = startPartnerFeed(partner, deps as PartnerFeedDeps)
  await eventually(() => expect(feed.state()).toBe('running'))
  isReady = false
  const error = new Error('Snappy compression not implemented')
  consumers[0]?.onFailed?.(error)
  await eventually(() => expect(consumers).toHaveLength(2))
  expect([events, feed.state()]).toEqual([['stop', ['acme', error]], 'failing'])
  isReady = true
  expect(feed.state()).toBe('running')
  await feed.stop()
  expect(events).toEqual(['stop', ['acme', error], 'stop'])
})

it('a partner feed requests no job while its stage is paused', async () => {
  const codec = createCodec(localSource())
  const key = Buffer.alloc(32, 3)
  const requested: Submission[] = []
  const consumers: ConsumeOptions[] = []
  const { promise: resumed, resolve: resume } = Promise.withResolvers<void>()
  let checks = 0
  const deps: Partial<PartnerFeedDeps> = {
    bus: {
      consume: async options => {
        consumers.push(options)
        return { ready: () => true, stop: async () => {} }
      },
    },
    codec,
    isConfigured: () => true,
    cursors: { read: async () => new Map() } as unknown as PartnerFeedDeps['cursors'],
    marks: {
      read: async () => ({ offset: -1, senders: new Map() }),
      write: async () => true,
    },
    partners: { keysOf: async () => [key] },
    clock: systemClock,
    deadLetters: { send: async () => {} },
    rejections: { reject: async () => {}, fail: async () => {} },
    metrics: { count: () => {} },
    buffered: createCapacity(10),
    batchLimits: { contacts: 1, ageMs: 60_000 },
    submitter: {
      submit: async submission => {
        requested.push(submission)
        return { kind: 'accepted' } as never
      },
    },
    now: () => 0,
    // The pause begins after the contact is read and before the job is requested.
    gate: { isOpen: () => true, opened: async () => { if (++checks > 1) await resumed } },
  }
  const feed = startPartnerFeed(partner, deps as PartnerFeedDeps)
  const sent = sealedContact(key, '+12127365000', { partner: 'acme', sequence: 0 })
  const value = await codec.encode('feeds.submitted-value', sent)
  const topic = 'feeds.acme.submitted'
  const raw = { offset: 0n, timestampMs: 0, key: Buffer.from('k'), value, headers: {} }
  await consumers[0]?.onDelivery({
    topic,
    partition: 0,
    messages: [{ topic, partition: 0, ...raw }],
    more: () => [],
    signal: new AbortController().signal,
    commit: async () => {},
  })
  await eventually(() => expect(checks).toBe(2))
  expect(requested).toEqual([])
  resume()
  await eventually(() => expect(requested.map(({ inputs }) => inputs)).toEqual([['+12127365000']]))
  await feed.stop()
})
