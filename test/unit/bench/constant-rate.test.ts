import { describe, expect, it } from 'vitest'
import { atConstantRate } from '../../bench/jobs.ts'

describe('atConstantRate', () => {
  it('starts calls while earlier ones run, until its end, and resolves with all', async () => {
    const end = Promise.withResolvers<void>()
    const first = Promise.withResolvers<number>()
    let started = 0
    const results = atConstantRate(1, {
      until: end.promise,
      work: async () => {
        started += 1
        if (started === 3) {
          end.resolve()
          first.resolve(1)
        }
        return started === 1 ? await first.promise : started
      },
    })
    expect(await results).toEqual([1, 2, 3])
  })

  it('rejects when a call or its end rejects', async () => {
    const work = async () => { throw new Error('no job') }
    await expect(atConstantRate(1, { until: Promise.resolve(), work })).rejects.toThrow('no job')
    const until = Promise.reject(new Error('no wave'))
    await expect(atConstantRate(1, { until, work: async () => {} })).rejects.toThrow('no wave')
  })
})
