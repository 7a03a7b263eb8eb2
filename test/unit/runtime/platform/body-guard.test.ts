import { PassThrough } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { BodyGuard } from '../../../../services/runtime/platform/body-guard.ts'
import { FairPool } from '../../../../services/runtime/platform/limits.ts'

const MEGABYTE = 1_024 * 1_024
const MINIMUM = { graceMs: 5_000, bytesPerSecond: 16_384, completeWithinMs: 60_000 }

beforeEach(() => { vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }) })
afterEach(() => { vi.useRealTimers() })

/** A body that arrives, with the reasons for which the guard ended it. */
function open (length: number | undefined, pool = new FairPool({ capacity: 64 * MEGABYTE })) {
  const ended: string[] = []
  const guard = new BodyGuard({
    pool, minimum: MINIMUM, maxBytes: 34 * MEGABYTE, end: (_request, why) => { ended.push(why) },
  })
  const headers = length === undefined ? {} : { 'content-length': String(length) }
  const request = { headers } as FastifyRequest
  const memory = guard.open(request, 'org_1')
  const body = new PassThrough()
  guard.watch(request, body)
  body.resume()
  const send = async (bytes: number) => {
    if (bytes > 0) body.write(Buffer.alloc(bytes))
    await new Promise(resolve => setImmediate(resolve))
  }
  return { guard, request, memory, body, ended, send }
}

describe('a body below the minimum throughput', () => {
  it.each([
    ['no byte within the grace period', 0, 5_000, 100_000, false],
    ['no byte after the grace period', 0, 5_500, 100_000, true],
    ['exactly the minimum', 16_384, 6_000, 100_000, false],
    ['a byte less than the minimum', 16_383, 6_000, 100_000, true],
    ['the minimum for 20 s', 16_384 * 20, 25_000, MEGABYTE / 2, false],
    ['a body that stalls', 70_000, 10_000, 100_000, true],
    ['a body that is slow at first', 900_000, 10_000, MEGABYTE, false],
    ['a large body at the minimum of a small one', 16_384, 6_000, 6 * MEGABYTE, true],
    ['a large body that ends in time', Math.ceil(6 * MEGABYTE / 60), 6_000, 6 * MEGABYTE, false],
    ['a chunked body at the minimum', 81_920, 10_000, undefined, false],
    ['a chunked body a byte below', 81_919, 10_000, undefined, true],
    ['a small body', 1, 60_000, 65_536, false],
    ['a small chunked body', 65_536, 60_000, undefined, false],
  ])('is ended, others are not: %s', async (_what, bytes, elapsedMs, length, isSlow) => {
    const { memory, ended, send } = open(length)
    await send(bytes)
    vi.advanceTimersByTime(elapsedMs)
    expect(ended).toEqual(isSlow ? ['slow'] : [])
    expect(memory.amount > 0).toBe(!isSlow && bytes > 65_536)
  })
})

describe('the memory of a body', () => {
  it('is reserved ahead of what has arrived, up to its length, until the response', async () => {
    const { guard, request, memory, send } = open(400_000)
    await send(65_536)
    expect(memory.amount).toBe(0)
    await send(1)
    expect(memory.amount).toBe(65_537 + 262_144)
    await send(300_000)
    expect(memory.amount).toBe(400_000)
    guard.release(request)
    expect(memory.amount).toBe(0)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('is what has arrived if there is no more, and the body is ended beyond it', async () => {
    const { memory, ended, body, send } = open(undefined, new FairPool({ capacity: 100_000 }))
    const other = open(undefined, new FairPool({ capacity: 1 }))
    await send(90_000)
    // The only reservation may be larger than the capacity.
    expect(memory.amount).toBe(90_000 + 262_144)
    await other.send(90_000)
    expect(other.ended).toEqual([])
    expect([ended, body.isPaused()]).toEqual([[], false])
  })

  it('is taken by a name with less, unless the body is complete', async () => {
    const pool = new FairPool({ capacity: 400_000 })
    const { memory, ended, body, send } = open(400_000, pool)
    await send(100_000)
    expect(pool.open('org_2').grow(100_000)).toBe(true)
    expect([memory.amount, ended, body.isPaused()]).toEqual([0, ['no memory'], true])
    const complete = open(400_000, new FairPool({ capacity: 400_000 }))
    await complete.send(400_000)
    complete.body.end()
    await complete.send(0)
    expect(complete.memory.isEvictable).toBe(false)
  })

  it('is released at once on request, and then nothing is counted', async () => {
    const { guard, request, memory, ended, send } = open(400_000)
    await send(100_000)
    guard.release(request)
    await send(100_000)
    vi.advanceTimersByTime(60_000)
    expect([memory.amount, ended]).toEqual([0, []])
  })
})
