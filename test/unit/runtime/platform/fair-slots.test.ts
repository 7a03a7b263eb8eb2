import { describe, expect, it } from 'vitest'
import { createFairSlots } from '../../../../services/runtime/platform/limits.ts'

describe('fair slots', () => {
  const setUp = (maxCredit = 0) => {
    const slots = createFairSlots({ capacity: 10, maxCredit })
    const started: string[] = []
    const begin = (name: string, cost: number, label = name) => {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const ended = slots.run({ name, cost }, async () => {
        started.push(label)
        await promise
      })
      const end = async () => {
        resolve()
        await ended
      }
      return { end, fail: () => reject(new Error('x')), ended }
    }
    return { begin, started }
  }
  const settle = () => new Promise(setImmediate)

  it('run actions concurrently up to the capacity', async () => {
    const { begin, started } = setUp()
    const first = begin('a', 6, 'a1')
    begin('a', 4, 'a2')
    begin('a', 1, 'a3')
    await settle()
    expect(started).toEqual(['a1', 'a2'])
    await first.end()
    await settle()
    expect(started).toEqual(['a1', 'a2', 'a3'])
  })

  it('run an action that costs more than the capacity alone', async () => {
    const { begin, started } = setUp()
    const large = begin('a', 50, 'large')
    begin('a', 1, 'small')
    await settle()
    expect(started).toEqual(['large'])
    await large.end()
    await settle()
    expect(started).toEqual(['large', 'small'])
  })

  it('go to the name with the least use', async () => {
    const { begin, started } = setUp()
    const running = begin('a', 10)
    const waiting = [begin('a', 10), begin('a', 10), begin('b', 10)]
    await running.end()
    await settle()
    expect(started).toEqual(['a', 'b'])
    await waiting[2]?.end()
    await settle()
    expect(started).toEqual(['a', 'b', 'a'])
  })

  it('are released by an action that fails', async () => {
    const { begin, started } = setUp()
    const failing = begin('a', 10)
    begin('b', 10)
    await settle()
    failing.fail()
    await expect(failing.ended).rejects.toThrow('x')
    await settle()
    expect(started).toEqual(['a', 'b'])
  })
})
