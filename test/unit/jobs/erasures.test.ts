import { describe, expect, it } from 'vitest'
import { createErasures, queueErasure, requestErasure } from '../../../services/jobs/erasures.ts'
import { ACCEPTED_KEY_MS } from '../../../services/jobs/job-keys.ts'
import { jobKeys } from '../../../services/jobs/redis-keys.ts'
import { tombstoneTermsOf } from '../../../services/jobs/wrapped-keys.ts'
import type { OutgoingMessage } from '../../../services/runtime/kafka/bus.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { createErasureRedis } from '../../support/redis/erasure-redis.ts'
import { createManualClock, JOB, TENANT } from '../../support/stage-doubles.ts'

const AT_MS = 1_800_000_000_000
const { dataKey, erased } = jobKeys(TENANT, JOB)
const request = { tenant: TENANT, job: JOB, cache: false }

function setUp () {
  const clock = createManualClock(AT_MS)
  const { redis, values, sets } = createErasureRedis()
  const sent: OutgoingMessage[] = []
  let isDown = false
  const producer = {
    send: async (messages: readonly OutgoingMessage[]) => {
      if (isDown) throw new Error('the brokers are down')
      sent.push(...messages)
    },
  }
  values.set(dataKey, { value: 'wrapped', expiresMs: -1 })
  const erase = (more = {}) =>
    requestErasure({ redis, producer, clock }, { ...request, ...more })
  const erasures = createErasures(redis)
  return {
    clock, redis, values, sets, sent, erase, erasures, fail: (down: boolean) => { isDown = down },
  }
}

describe('the request to erase a job', () => {
  it('marks the job, writes a tombstone, deletes its key and queues the rest', async () => {
    const { values, sent, erase, erasures } = setUp()
    expect(await erase({ cache: true })).toEqual({ erasedAtMs: AT_MS, completedAtMs: undefined })
    expect(values.get(erased)).toEqual({ value: '1', expiresMs: AT_MS + ACCEPTED_KEY_MS })
    expect(values.has(dataKey)).toBe(false)
    expect(sent).toMatchObject([{ topic: 'job.keys', key: JOB, value: null }])
    expect(tombstoneTermsOf({ headers: sent[0]?.headers ?? {}, timestampMs: 7 }))
      .toEqual({ atMs: AT_MS, cache: true })
    expect(await erasures.requested(10)).toEqual([{ ...request, cache: true }])
  })

  it('keeps the time of the first one when it is repeated', async () => {
    const { clock, erase } = setUp()
    const first = await erase()
    await clock.sleep(5_000)
    expect(await erase()).toEqual(first)
  })

  it('is not answered before the tombstone is safe, and completes when repeated', async () => {
    const { values, erase, erasures, fail } = setUp()
    fail(true)
    await expect(erase()).rejects.toThrow('brokers')
    expect(values.has(dataKey)).toBe(true)
    // Queued before: ledger completes it, even if nobody repeats it.
    expect(await erasures.requested(10)).toEqual([request])
    fail(false)
    await erase()
    expect(values.has(dataKey)).toBe(false)
  })

  it('fails while the brokers do not respond', async () => {
    const { redis, clock } = setUp()
    const producer = {
      send: (_messages: unknown, signal?: AbortSignal) => new Promise<void>((_resolve, reject) => {
        signal?.addEventListener('abort', () => reject(new Error('aborted')))
      }),
    }
    await expect(requestErasure({ redis, clock, producer, recordWithinMs: 1 }, request))
      .rejects.toThrow(InfrastructureError)
  })

  it('has no effect once the erasure is complete', async () => {
    const { clock, sent, erase, erasures } = setUp()
    await erase()
    await erasures.await([request], AT_MS)
    await erasures.complete([request], AT_MS + 9)
    await clock.sleep(60_000)
    expect(await erase({ cache: true })).toEqual({ erasedAtMs: AT_MS, completedAtMs: AT_MS + 9 })
    expect(sent).toHaveLength(1)
    expect(await erasures.requested(10)).toEqual([])
  })
})

describe('the queue of erasures', () => {
  it('moves an erasure from request to brokers to its end', async () => {
    const { erase, erasures } = setUp()
    await erase()
    await erasures.await([request], AT_MS + 100)
    expect(await erasures.requested(10)).toEqual([])
    expect(await erasures.compacting(10, AT_MS)).toEqual({ erasures: [request], isDue: false })
    expect((await erasures.compacting(10, AT_MS + 100)).isDue).toBe(true)
    await erasures.complete([request], AT_MS + 200)
    expect(await erasures.compacting(10, AT_MS + 300)).toEqual({ erasures: [], isDue: false })
    expect(await erasures.find(TENANT, [JOB, 'job_2'])).toEqual(new Map([
      [JOB, { erasedAtMs: AT_MS, completedAtMs: AT_MS + 200 }],
    ]))
    // A later round does not change the time of the end.
    await erasures.complete([request], AT_MS + 999)
    expect((await erasures.find(TENANT, [JOB])).get(JOB)?.completedAtMs).toBe(AT_MS + 200)
  })

  it('takes an erasure from the topic again, unless it is complete', async () => {
    const { redis, erase, erasures } = setUp()
    await queueErasure(redis, { ...request, cache: true }, 1)
    expect(await erasures.requested(10)).toEqual([{ ...request, cache: true }])
    await erase()
    await erasures.complete([request], AT_MS)
    await queueErasure(redis, { ...request, job: 'job_2' }, 2)
    await queueErasure(redis, { ...request }, 3)
    expect((await erasures.requested(10)).map(({ job, cache }) => [job, cache]))
      .toEqual([[JOB, true], ['job_2', false], [JOB, false]])
  })
})

it('a tombstone of an older release has the time of the brokers', () => {
  expect(tombstoneTermsOf({ headers: {}, timestampMs: 7 })).toEqual({ atMs: 7, cache: false })
})
