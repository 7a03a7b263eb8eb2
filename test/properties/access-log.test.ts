import { beforeEach, describe, expect, it } from 'vitest'
import type { AccessEntry } from '../../schemas/types.ts'
import {
  AccessShipper, createAccessHead, createAccessLog, createAccessOutbox,
} from '../../services/accounts/access-log/access-log.ts'
import { seededRandom } from '../support/random.ts'
import { createMemoryBus } from '../support/kafka/memory-bus.ts'
import { startRestartableRedis } from '../support/redis/redis.ts'
import { codec } from '../support/clickhouse/results.ts'

const { redis, restart } = await startRestartableRedis()
const { signal } = new AbortController()
beforeEach(async () => { await redis.flushall() })

const CRASH = new Error('crashed')

/** Several ledgers that ship to one topic, each of which may crash between two of its steps. */
function createLedgers (seed: number) {
  const bus = createMemoryBus({ seed, duplicateSends: 0.2, partitionsOf: () => 1 })
  const random = seededRandom(seed)
  const crashes = (rate: number) => { if (random() < rate) throw CRASH }
  const outbox = createAccessOutbox(redis)
  const shipperOf = (rate: number) => new AccessShipper({
    codec,
    // All entries are old enough.
    clock: { now: () => Number.MAX_SAFE_INTEGER },
    log: { warn: () => {} },
    outbox: {
      oldest: async limit => {
        crashes(rate)
        // Small batches, so that there are many steps to crash between.
        return await outbox.oldest(Math.min(limit, 1 + Math.floor(random() * 4)))
      },
      remove: async entries => {
        crashes(rate)
        await outbox.remove(entries)
        crashes(rate)
      },
    },
    producer: {
      send: async (messages, aborted) => {
        crashes(rate)
        await bus.producer('access-log').send(messages, aborted)
      },
    },
  })
  const ship = async (rate: number) => {
    try {
      await shipperOf(rate).ship(signal)
    } catch (error) {
      if (error !== CRASH) throw error
    }
  }
  const topic = async () => await Promise.all(bus.messages('access.log').map(async ({ value }) =>
    await codec.decode('access.log', value!) as AccessEntry))
  return { random, ship, topic }
}

const append = (target: string) => createAccessLog(redis).append({
  organization: 'org_1', actor: { kind: 'key', id: 'key_1' }, action: 'job.erased', target,
})

describe('the access log', () => {
  it.each([1, 2, 3, 4, 5])('loses and changes no entry when ledgers crash, seed %i', async seed => {
    const { random, ship, topic } = createLedgers(seed)
    const targets = Array.from({ length: 40 }, (_, index) => `job_${index}`)
    for (const target of targets) {
      await append(target)
      // Two ledgers believe that they lead.
      if (random() < 0.5) await Promise.all([ship(0.3), ship(0.3)])
    }
    await ship(0)
    expect(await createAccessOutbox(redis).oldest(1)).toEqual([])
    const entries = await topic()
    const byId = Map.groupBy(entries, ({ entryId }) => entryId)
    expect([...byId.values()].map(([first]) => first?.target)).toEqual(targets)
    for (const copies of byId.values()) {
      expect(new Set(copies.map(copy => JSON.stringify(copy))).size).toBe(1)
    }
  })

  it('has every acknowledged entry after a restart of Redis', async () => {
    const { ship, topic } = createLedgers(1)
    await append('job_1')
    await restart()
    await append('job_2')
    await ship(0)
    const found = new Set((await topic()).map(({ target }) => target))
    expect(found).toEqual(new Set(['job_1', 'job_2']))
  })

  it('goes on behind its last entry after a loss of Redis, and is never locked', async () => {
    const { ship, topic } = createLedgers(1)
    const head = createAccessHead(redis)
    await append('job_1')
    await ship(0)
    await head.advance(7)
    await head.advance(5)
    expect(await head.read()).toBe(7)
    await redis.flushall()
    expect(await head.read()).toBe(0)
    await append('job_2')
    await ship(0)
    const targets = (await topic()).map(({ target }) => target)
    expect([targets[0], targets.at(-1)]).toEqual(['job_1', 'job_2'])
  })
})
