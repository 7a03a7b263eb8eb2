import { describe, expect, it } from 'vitest'
import type { FeedResult } from '../../schemas/types.ts'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { taggedTenant } from '../../services/money/redis-keys.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { eventually } from '../support/eventually.ts'
import { sumOf } from '../support/metrics.ts'
import { createTestPartner, feedContacts } from '../support/feeds/partner.ts'
import { breachesOf, startEnvironment } from '../support/stacks/environment.ts'
import { createAdversary } from './adversary.ts'

const PARTITIONS = 4
const inputs = mixedPhones(20, 8_000_000)

const environment = closeAfterAll(
  await startEnvironment({ FEED_BATCH_AGE_MS: '200' }, { stages: ['feed'] }))
const adversary = closeAfterAll(await createAdversary(environment.env))
const { codec } = adversary
const redis = closeAfterAll(openRedis(environment.env['REDIS_STATE_URL'] ?? ''))
const partner = await createTestPartner(
  environment.env, { usd: '10', partitions: String(PARTITIONS) })
await feed(inputs)
const all = await adversary.capture(`feeds.${partner.name}.submitted`)
const captured = all.filter(({ key }) => String(key) !== 'end')

/** Sends contacts that bypass the cache, so that each one costs something. */
async function feed (some: readonly string[]) {
  const contacts = some.map(input => ({ input, reference: undefined, countryCode: undefined }))
  const { results } = await feedContacts(partner, contacts, { forceFresh: true })
  expect(results).toHaveLength(some.length)
}

/** What a row, a charge or a result more would change. */
async function outcome () {
  const finished = await adversary.capture(`feeds.${partner.name}.finished`)
  const ids = await Promise.all(finished.map(async ({ value }) =>
    (await codec.decode('feeds.finished', value!) as FeedResult).resultId))
  const { seq: _seq, ...balance } = await createWallet(redis)
    .balance(tenantOf(partner.org, 'live'))
  return { results: new Set(ids).size, balance }
}

const replays = () => sumOf(environment.services.list(), 'feed_replays_total')
const shifted = (by: number) => captured.map(message =>
  ({ ...message, partition: (message.partition + by) % PARTITIONS }))

/**
 * Sends copies of everything captured, and waits until the feed has ignored them. A batch that is
 * delivered again, as after a rebalance, is counted again.
 */
async function replay (by = 0) {
  const before = await replays()
  await adversary.send(shifted(by))
  await eventually(async () => {
    expect(await replays()).toBeGreaterThanOrEqual(before + captured.length)
  })
}

async function restartFeed (meanwhile: () => Promise<unknown> = async () => {}) {
  await environment.services.setScale({ feed: 0 })
  await meanwhile()
  await environment.services.setScale({})
}

describe('a contact that an adversary captured and sends again', () => {
  it('causes no row, charge or result, in any partition, before and after a restart', async () => {
    expect(captured).toHaveLength(inputs.length)
    const before = await outcome()
    await replay()
    await replay(1)
    await restartFeed()
    await replay()
    await replay(2)
    expect(await outcome()).toEqual(before)
  })

  it('is unreadable and free when its sender, sequence or time is another one', async () => {
    const before = await outcome()
    const [one = expect.fail('no contact')] = captured
    const reasons: unknown[] = []
    const listener = await partner.connect()
    await listener.listen(({ cells }) => { reasons.push(cells['reason']) }, error => {
      reasons.push(error)
    })
    const changed = await Promise.all([
      adversary.changed(one, value => ({ ...value, sender: crypto.randomUUID() })),
      adversary.changed(one, value => ({ ...value, sequence: Number(value['sequence']) + 1_000 })),
      adversary.changed(one, value => ({ ...value, sentAt: Number(value['sentAt']) + 1 })),
      adversary.changed(one, value => ({ ...value, partition: (one.partition + 1) % PARTITIONS })),
    ])
    await adversary.send(changed.map(message => ({ ...message, partition: one.partition })))
    await eventually(() => { expect(reasons).toEqual(changed.map(() => 'unreadable_contact')) })
    await listener.close()
    expect((await outcome()).balance).toEqual(before.balance)
  })

  it('is recognized when Redis has lost the marks, which are rebuilt from the log', async () => {
    const before = await outcome()
    const tenant = tenantOf(partner.org, 'live')
    const keys = Array.from({ length: PARTITIONS }, (_, partition) =>
      `marks:${taggedTenant(tenant)}:${partner.name}:${partition}`)
    await restartFeed(async () => {
      expect(await redis.del(...keys)).toBe(PARTITIONS)
      await adversary.send(shifted(0))
    })
    await feed(mixedPhones(1, 8_100_000))
    // In each partition the copies come last, after those that were ignored before.
    await eventually(async () => {
      expect(await replays()).toBeGreaterThanOrEqual(5 * captured.length)
      expect(await redis.exists(...keys)).toBe(PARTITIONS)
    })
    const after = await outcome()
    expect(after.results).toBe(before.results + 1)
    const charged = before.balance.availableMicros - after.balance.availableMicros
    expect(charged).toBeGreaterThanOrEqual(0)
    expect(charged).toBeLessThanOrEqual(5_000)
    expect(await breachesOf(environment.env, partner.org)).toEqual([])
  })
})
