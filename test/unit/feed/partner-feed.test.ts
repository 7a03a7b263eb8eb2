import { expect, it, vi } from 'vitest'
import type { ConsumeOptions } from '../../../services/lib/bus.ts'
import {
  startPartnerFeed, type PartnerFeedParts,
} from '../../../services/feed/partner-feed.ts'

const partner = {
  name: 'acme',
  orgId: 'org_1',
  tenant: 'org_1.live',
  mode: 'live',
  pricesMicros: {},
  partitions: 1,
  createdAtMs: 0,
  revokedAtMs: 0,
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
  const feed = startPartnerFeed({ partner, key: Buffer.alloc(32) }, parts as PartnerFeedParts)
  await vi.waitFor(() => expect(feed.state()).toBe('running'))
  isReady = false
  const error = new Error('Snappy compression not implemented')
  begun[0]?.onFailed?.(error)
  await vi.waitFor(() => expect(begun).toHaveLength(2))
  expect([told, feed.state()]).toEqual([['stop', ['acme', error]], 'failing'])
  isReady = true
  expect(feed.state()).toBe('running')
  await feed.stop()
  expect(told).toEqual(['stop', ['acme', error], 'stop'])
})
