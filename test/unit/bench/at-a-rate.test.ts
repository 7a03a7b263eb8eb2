import { describe, expect, it } from 'vitest'
import { atARate } from '../../bench/at-a-rate.ts'

describe('work at a rate', () => {
  it('goes on, late or not, until the other work is over, and gives all of it', async () => {
    const over = Promise.withResolvers<void>()
    const first = Promise.withResolvers<number>()
    let begun = 0
    const given = atARate(1, {
      until: over.promise,
      work: async () => {
        begun += 1
        if (begun === 3) {
          over.resolve()
          first.resolve(1)
        }
        return begun === 1 ? await first.promise : begun
      },
    })
    expect(await given).toEqual([1, 2, 3])
  })

  it('fails as any of it does, or as the other work does', async () => {
    const work = async () => { throw new Error('no job') }
    await expect(atARate(1, { until: Promise.resolve(), work })).rejects.toThrow('no job')
    const until = Promise.reject(new Error('no wave'))
    await expect(atARate(1, { until, work: async () => {} })).rejects.toThrow('no wave')
  })
})
