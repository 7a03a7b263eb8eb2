import { describe, expect, it } from 'vitest'
import { createCachedReading } from '../../../../services/runtime/platform/metrics.ts'

function createEnvironment () {
  const warned: string[] = []
  let [nowMs, reads] = [0, 0]
  let next = async () => [++reads]
  const log = { warn: (_details: object, text: string) => { warned.push(text) } }
  const read = createCachedReading(() => next(), {
    name: 'it', log: log as never, minAgeMs: 1_000, timeoutMs: 20, now: () => nowMs,
  })
  return {
    read,
    warned,
    advance: (ms: number) => { nowMs += ms },
    behave: (action: () => Promise<number[]>) => { next = action },
  }
}

describe('a cached reading', () => {
  it('reads on demand, and returns the last value while it is recent', async () => {
    const { read, advance } = createEnvironment()
    expect([await read(), await read()]).toEqual([[1], [1]])
    advance(999)
    expect(await read()).toEqual([1])
    advance(1)
    expect(await read()).toEqual([2])
  })

  it('returns nothing after a failure, and reads again', async () => {
    const { read, advance, behave, warned } = createEnvironment()
    behave(async () => { throw new Error('down') })
    expect(await read()).toEqual([])
    expect(warned).toEqual(['failed to read it for metrics'])
    behave(async () => [7])
    advance(1_000)
    expect(await read()).toEqual([7])
  })

  it('returns the previous value of a slow read until maxAgeMs, and reads once', async () => {
    const { read, advance, behave } = createEnvironment()
    expect(await read()).toEqual([1])
    const slow = Promise.withResolvers<number[]>()
    let started = 0
    behave(() => {
      started++
      return slow.promise
    })
    advance(30_000)
    expect(await read()).toEqual([1])
    advance(1)
    expect(await read()).toEqual([])
    expect(started).toBe(1)
    slow.resolve([3])
    expect(await read()).toEqual([3])
  })
})
