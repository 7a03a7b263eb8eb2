import { constants } from 'node:perf_hooks'
import { describe, expect, it } from 'vitest'
import { createHeapGrowth, limitHeapGrowth } from '../../../services/lib/heap-growth.ts'

const { NODE_PERFORMANCE_GC_MAJOR: MAJOR, NODE_PERFORMANCE_GC_MINOR: MINOR } = constants
const collection = (seconds: number, kind = MAJOR) =>
  ({ startTime: seconds * 1_000, detail: { kind } })

describe('the growth of a heap', () => {
  it('is small at first, and as it is set while the heap fills fast', () => {
    const growth = createHeapGrowth(150)
    expect(growth.percent()).toBe(40)
    growth.collected(collection(3))
    expect(growth.percent()).toBe(150)
    growth.collected(collection(13))
    expect(growth.percent()).toBe(150)
  })

  it('is small again once the heap took long to fill', () => {
    const growth = createHeapGrowth(150)
    growth.collected(collection(3))
    growth.collected(collection(19))
    expect(growth.percent()).toBe(40)
    growth.collected(collection(24))
    expect(growth.percent()).toBe(40)
  })

  it('does not follow collections of what is young', () => {
    const growth = createHeapGrowth(150)
    growth.collected(collection(3, MINOR))
    expect(growth.percent()).toBe(40)
  })

  it('is never more than what is set', () => {
    const growth = createHeapGrowth(20)
    expect(growth.percent()).toBe(20)
    growth.collected(collection(1_000))
    expect(growth.percent()).toBe(20)
  })

  it('can be set for a process that runs', () => {
    expect(() => limitHeapGrowth(150)).not.toThrow()
  })
})
