import { beforeEach, describe, expect, it } from 'vitest'
import { createErasures, queueErasure, requestErasure } from '../../services/jobs/erasures.ts'
import { ACCEPTED_KEY_MS } from '../../services/jobs/job-keys.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { parseTombstoneTerms } from '../../services/jobs/wrapped-keys.ts'
import type { OutgoingMessage } from '../../services/runtime/kafka/bus.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import { type EraseJobsDeps, startErasing } from '../../services/ledger/erase-jobs.ts'
import { startRedis } from '../support/redis/redis.ts'
import { createManualClock, JOB, TENANT } from '../support/stage-messages.ts'

/** The real time, which decides when the mark of an erasure expires. */
const AT_MS = Date.now()
const { dataKey, erased } = jobRedisKeys(TENANT, JOB)
const request = { tenant: TENANT, job: JOB, cache: false }
const { redis } = await startRedis()
const erasures = createErasures(redis)

beforeEach(async () => {
  await redis.flushall()
  await redis.set(dataKey, 'wrapped')
})

function setUp () {
  const clock = createManualClock(AT_MS)
  const sent: OutgoingMessage[] = []
  let isDown = false
  const producer = {
    send: async (messages: readonly OutgoingMessage[]) => {
      if (isDown) throw new Error('the brokers are down')
      sent.push(...messages)
    },
  }
  const erase = (more = {}) =>
    requestErasure({ redis, producer, clock }, { ...request, ...more })
  return { clock, sent, erase, fail: (down: boolean) => { isDown = down } }
}

describe('the request to erase a job', () => {
  it('marks the job, writes a tombstone, deletes its key and queues the rest', async () => {
    const { sent, erase } = setUp()
    expect(await erase({ cache: true })).toEqual({ erasedAtMs: AT_MS, completedAtMs: undefined })
    expect([await redis.get(erased), await redis.pexpiretime(erased), await redis.exists(dataKey)])
      .toEqual(['1', AT_MS + ACCEPTED_KEY_MS, 0])
    expect(sent).toMatchObject([{ topic: 'job.keys', key: JOB, value: null }])
    expect(parseTombstoneTerms({ headers: sent[0]?.headers ?? {}, timestampMs: 7 }))
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
    const { erase, fail } = setUp()
    fail(true)
    await expect(erase()).rejects.toThrow('brokers')
    expect(await redis.exists(dataKey)).toBe(1)
    // Queued before: ledger completes it, even if nobody repeats it.
    expect(await erasures.requested(10)).toEqual([request])
    fail(false)
    await erase()
    expect(await redis.exists(dataKey)).toBe(0)
  })

  it('fails while the brokers do not respond', async () => {
    const { clock } = setUp()
    const producer = {
      send: (_messages: unknown, signal?: AbortSignal) => new Promise<void>((_resolve, reject) => {
        signal?.addEventListener('abort', () => reject(new Error('aborted')))
      }),
    }
    await expect(requestErasure({ redis, clock, producer, recordWithinMs: 1 }, request))
      .rejects.toThrow(InfrastructureError)
  })

  it('has no effect once the erasure is complete', async () => {
    const { clock, sent, erase } = setUp()
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
    const { erase } = setUp()
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

  it('puts erasures that cannot be carried out now behind all others', async () => {
    const others = ['job_2', 'job_3'].map(job => ({ ...request, job }))
    for (const one of [request, ...others]) await queueErasure(redis, one, AT_MS)
    await erasures.postpone([request, { ...request, job: 'job_gone' }], AT_MS + 1)
    expect(await erasures.requested(10)).toEqual([...others, request])
    const turned = [...others].reverse()
    await erasures.postpone(turned, AT_MS + 2)
    expect(await erasures.requested(10)).toEqual([request, ...turned])
  })

  it('takes an erasure from the topic again, unless it is complete', async () => {
    const { erase } = setUp()
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

/** The series of new metrics, as readings are cached for a while. */
async function seriesAt (nowMs: number) {
  const metrics = createMetrics()
  const clock = createManualClock(nowMs)
  const unused = { keys: {}, eraseCached: {} } as Pick<EraseJobsDeps, 'keys' | 'eraseCached'>
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  await startErasing({
    erasures, clock, metrics, log, isLeader: () => false, everyMs: 1_000, ...unused,
  }).stop()
  return (await metrics.text()).split('\n').filter(line => line.startsWith('erasure'))
}

it('the metrics count erasures by phase until complete, with the age of the oldest', async () => {
  const { clock, erase } = setUp()
  const [first, second] = [{ ...request, job: 'job_1' }, { ...request, job: 'job_2' }]
  await erase(first)
  clock.advance(60_000)
  await erase(second)
  // Its score is the time of the next check from now on.
  await erasures.await([first], AT_MS + 600_000)
  expect(await seriesAt(AT_MS + 90_000)).toEqual([
    'erasures_pending{phase="requested"} 1',
    'erasures_pending{phase="compacting"} 1',
    'erasure_oldest_seconds 90',
  ])
  await erasures.complete([first], AT_MS)
  expect((await seriesAt(AT_MS + 90_000)).at(-1)).toBe('erasure_oldest_seconds 30')
  await erasures.await([second], AT_MS)
  await erasures.complete([second], AT_MS)
  expect(await seriesAt(AT_MS)).toEqual([
    'erasures_pending{phase="requested"} 0',
    'erasures_pending{phase="compacting"} 0',
    'erasure_oldest_seconds 0',
  ])
  // Results that have expired have no mark.
  await queueErasure(redis, { ...request, job: 'job_3' }, AT_MS)
  expect((await seriesAt(AT_MS))[0]).toBe('erasures_pending{phase="requested"} 1')
})

it('a tombstone of an older release has the time of the brokers', () => {
  expect(parseTombstoneTerms({ headers: {}, timestampMs: 7 })).toEqual({ atMs: 7, cache: false })
})
