import { constants } from 'node:perf_hooks'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createHeapGrowth, limitHeapGrowth } from '../../../services/platform/heap-growth.ts'

const { NODE_PERFORMANCE_GC_MAJOR: MAJOR, NODE_PERFORMANCE_GC_MINOR: MINOR } = constants

beforeEach(() => { vi.useFakeTimers() })
afterEach(() => { vi.useRealTimers() })

function growthOf (percent: number) {
  const told: number[] = []
  const collected = createHeapGrowth({ percent, set: next => { told.push(next) } })
  return { told, collected }
}

describe('the growth of a heap', () => {
  it('is small at first, and as it is set while the heap is cleaned up often', () => {
    const { told, collected } = growthOf(150)
    expect(told).toEqual([40])
    for (let times = 0; times < 3; times++) {
      vi.advanceTimersByTime(14_000)
      collected(MAJOR)
    }
    expect(told).toEqual([40, 150])
  })

  it('is small again before the heap is cleaned up after a long time', () => {
    const { told, collected } = growthOf(150)
    collected(MAJOR)
    vi.advanceTimersByTime(15_000)
    expect(told).toEqual([40, 150, 40])
    collected(MAJOR)
    expect(told).toEqual([40, 150, 40, 150])
  })

  it('does not follow collections of what is young', () => {
    const { told, collected } = growthOf(150)
    collected(MINOR)
    expect(told).toEqual([40])
  })

  it('is never more than what is set', () => {
    const { told, collected } = growthOf(20)
    collected(MAJOR)
    vi.advanceTimersByTime(60_000)
    expect(told).toEqual([20])
  })

  it('can be set for a process that runs', () => {
    expect(() => limitHeapGrowth(150)).not.toThrow()
  })
})
