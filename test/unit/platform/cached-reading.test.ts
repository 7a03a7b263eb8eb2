import { describe, expect, it } from 'vitest'
import { createReading } from '../../../services/platform/reading.ts'

function createWorld () {
  const warned: string[] = []
  let [nowMs, reads] = [0, 0]
  let next = async () => [++reads]
  const log = { warn: (_details: object, text: string) => { warned.push(text) } }
  const read = createReading(() => next(), {
    what: 'it', log: log as never, everyMs: 1_000, withinMs: 20, now: () => nowMs,
  })
  return {
    read,
    warned,
    advance: (ms: number) => { nowMs += ms },
    behave: (action: () => Promise<number[]>) => { next = action },
  }
}

describe('a reading', () => {
  it('is made when it is asked for, and told once more while it is young', async () => {
    const { read, advance } = createWorld()
    expect([await read(), await read()]).toEqual([[1], [1]])
    advance(999)
    expect(await read()).toEqual([1])
    advance(1)
    expect(await read()).toEqual([2])
  })

  it('tells nothing when it fails, and is made anew', async () => {
    const { read, advance, behave, warned } = createWorld()
    behave(async () => { throw new Error('down') })
    expect(await read()).toEqual([])
    expect(warned).toEqual(['it cannot be read'])
    behave(async () => [7])
    advance(1_000)
    expect(await read()).toEqual([7])
  })

  it('tells the one before while it is late, but not for long, and is not made twice', async () => {
    const { read, advance, behave } = createWorld()
    expect(await read()).toEqual([1])
    const slow = Promise.withResolvers<number[]>()
    let begun = 0
    behave(() => {
      begun++
      return slow.promise
    })
    advance(30_000)
    expect(await read()).toEqual([1])
    advance(1)
    expect(await read()).toEqual([])
    expect(begun).toBe(1)
    slow.resolve([3])
    expect(await read()).toEqual([3])
  })
})
