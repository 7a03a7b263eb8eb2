import { setImmediate } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import {
  resetScheduler, yieldToEventLoop,
} from '../../../../services/runtime/platform/event-loop.ts'

describe('slots of the event loop', () => {
  it('are granted in order, one per iteration', async () => {
    const given: number[] = []
    const all = [1, 2, 3].map(async number => {
      await yieldToEventLoop('bulk')
      given.push(number)
    })
    const seen: number[] = []
    while (given.length < 3) {
      await setImmediate()
      seen.push(given.length)
    }
    await Promise.all(all)
    expect(given).toEqual([1, 2, 3])
    expect(seen).toEqual([1, 2, 3])
  })

  it('go to the lane small first', async () => {
    const given: string[] = []
    const take = async (lane: 'small' | 'bulk', name: string) => {
      await yieldToEventLoop(lane)
      given.push(name)
    }
    await Promise.all([
      take('bulk', 'bulk 1'), take('bulk', 'bulk 2'), take('small', 'small 1'),
      take('small', 'small 2'),
    ])
    expect(given).toEqual(['small 1', 'small 2', 'bulk 1', 'bulk 2'])
  })

  it('go to the lane bulk every fifth time, however many small jobs wait', async () => {
    const given: string[] = []
    const take = async (lane: 'small' | 'bulk') => {
      await yieldToEventLoop(lane)
      given.push(lane)
    }
    const small = Array.from({ length: 9 }, () => take('small'))
    await Promise.all([take('bulk'), take('bulk'), ...small])
    expect(given.flatMap((lane, at) => lane === 'bulk' ? [at] : [])).toEqual([4, 9])
  })

  it('go to the tenant with the least CPU time', async () => {
    let nowMs = 0
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
    const given: string[] = []
    const take = async (tenant: string, workMs: number) => {
      await yieldToEventLoop('bulk', tenant)
      given.push(tenant)
      nowMs += workMs
    }
    await Promise.all([
      ...Array.from({ length: 4 }, () => take('costly', 30)),
      ...Array.from({ length: 8 }, () => take('usual', 10)),
    ])
    expect(given.join(' ')).toBe('costly usual usual usual costly usual usual usual costly usual ' +
      'usual costly')
    clock.mockRestore()
  })

  it('go first to a tenant that was idle, for up to 250 ms', async () => {
    let nowMs = 0
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
    const given: string[] = []
    const take = async (tenant: string) => {
      await yieldToEventLoop('bulk', tenant)
      given.push(tenant)
      nowMs += 50
    }
    await Promise.all(Array.from({ length: 20 }, () => take('busy')))
    given.length = 0
    const both = Array.from({ length: 8 }, () => [take('busy'), take('idle')])
    await Promise.all(both.flat())
    expect(given.indexOf('busy')).toBe(6)
    expect(given.slice(6, 10)).toEqual(['busy', 'idle', 'busy', 'idle'])
    clock.mockRestore()
  })

  it('are granted again after a reset', async () => {
    let isGiven = false
    yieldToEventLoop('bulk').then(() => { isGiven = true }, () => {})
    resetScheduler()
    await yieldToEventLoop('bulk')
    await setImmediate()
    expect(isGiven).toBe(false)
  })
})
