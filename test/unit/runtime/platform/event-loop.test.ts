import { setImmediate } from 'node:timers/promises'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { eventLoop } from '../../../../services/runtime/platform/limits.ts'

let nowMs = 0
const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
afterAll(() => clock.mockRestore())

/** Takes slots of a lane, all at once; `given` has who got one, in order. */
function createTaker () {
  const given: string[] = []
  const take = async (name: string, count = 1, { lane = 'bulk', workMs = 0 }: Work = {}) => {
    await Promise.all(Array.from({ length: count }, async () => {
      await eventLoop.yield(lane, name)
      given.push(name)
      nowMs += workMs
    }))
  }
  return { given, take }
}
type Work = { readonly lane?: 'small' | 'bulk', readonly workMs?: number }

describe('slots of the event loop', () => {
  it('are granted in order, one per iteration', async () => {
    const { given, take } = createTaker()
    const all = take('a', 3)
    const seen: number[] = []
    while (given.length < 3) {
      await setImmediate()
      seen.push(given.length)
    }
    await all
    expect(seen).toEqual([1, 2, 3])
  })

  it('go to the lane small first, and to bulk every fifth time', async () => {
    const { given, take } = createTaker()
    await Promise.all([take('', 2), take('small', 9, { lane: 'small' })])
    expect(given.flatMap((name, at) => name === '' ? [at] : [])).toEqual([4, 9])
  })

  it('go to the tenant with the least CPU time', async () => {
    const { given, take } = createTaker()
    await Promise.all([take('costly', 4, { workMs: 30 }), take('usual', 8, { workMs: 10 })])
    expect(given.join(' ')).toBe('costly usual usual usual costly usual usual usual costly usual ' +
      'usual costly')
  })

  it('go first to a tenant that was idle, for up to 250 ms', async () => {
    const { given, take } = createTaker()
    await take('busy', 20, { workMs: 50 })
    given.length = 0
    await Promise.all([take('busy', 8, { workMs: 50 }), take('idle', 8, { workMs: 50 })])
    expect(given.indexOf('busy')).toBe(6)
    expect(given.slice(6, 10)).toEqual(['busy', 'idle', 'busy', 'idle'])
  })

  it('are granted again after a reset', async () => {
    let isGiven = false
    eventLoop.yield('bulk').then(() => { isGiven = true }, () => {})
    eventLoop.clear()
    await eventLoop.yield('bulk')
    await setImmediate()
    expect(isGiven).toBe(false)
  })
})
