import { constants } from 'node:perf_hooks'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createHeapGrowth, limitHeapGrowth } from '../../../services/platform/heap-growth.ts'

const { NODE_PERFORMANCE_GC_MAJOR: MAJOR, NODE_PERFORMANCE_GC_MINOR: MINOR } = constants

beforeEach(() => { vi.useFakeTimers() })
afterEach(() => { vi.useRealTimers() })

function growthOf (percent: number) {
  const applied: number[] = []
  const collected = createHeapGrowth({ percent, set: next => { applied.push(next) } })
  return { applied, collected }
}

describe('the heap growth', () => {
  it('is low at first, and the configured one under frequent collections', () => {
    const { applied, collected } = growthOf(150)
    expect(applied).toEqual([40])
    for (let times = 0; times < 3; times++) {
      vi.advanceTimersByTime(14_000)
      collected(MAJOR)
    }
    expect(applied).toEqual([40, 150])
  })

  it('is low again after a time without collections', () => {
    const { applied, collected } = growthOf(150)
    collected(MAJOR)
    vi.advanceTimersByTime(15_000)
    expect(applied).toEqual([40, 150, 40])
    collected(MAJOR)
    expect(applied).toEqual([40, 150, 40, 150])
  })

  it('ignores minor collections', () => {
    const { applied, collected } = growthOf(150)
    collected(MINOR)
    expect(applied).toEqual([40])
  })

  it('never exceeds the configured one', () => {
    const { applied, collected } = growthOf(20)
    collected(MAJOR)
    vi.advanceTimersByTime(60_000)
    expect(applied).toEqual([20])
  })

  it('can be changed in a running process', () => {
    expect(() => limitHeapGrowth(150)).not.toThrow()
  })
})
