import { describe, expect, it } from 'vitest'
import { createFairShares } from '../../../../services/runtime/platform/limits.ts'

describe('fair shares', () => {
  const take = (shares: ReturnType<typeof createFairShares>, costs: Record<string, number>) => {
    const name = shares.next(Object.keys(costs)) ?? ''
    shares.addUsage(name, costs[name] ?? 0)
    return name
  }

  it('are equal for all waiting names, whatever a slot costs', () => {
    const shares = createFairShares()
    const given = Array.from({ length: 9 }, () => take(shares, { costly: 20, usual: 10 }))
    expect(given.join(' '))
      .toBe('costly usual usual costly usual usual costly usual usual')
  })

  it('give an idle name neither credit nor debt', () => {
    const shares = createFairShares()
    for (let turn = 0; turn < 10; turn++) take(shares, { early: 10 })
    const given = Array.from({ length: 4 }, () => take(shares, { early: 10, late: 10 }))
    expect(given).toEqual(['late', 'early', 'late', 'early'])
  })

  it('give an idle name a limited credit, and no debt', () => {
    const shares = createFairShares(30)
    for (let turn = 0; turn < 20; turn++) take(shares, { early: 10 })
    const given = Array.from({ length: 7 }, () => take(shares, { early: 10, late: 10 }))
    expect(given.join(' ')).toBe('late late late late early late early')
  })

  it('name nothing if nothing waits', () => {
    expect(createFairShares().next([])).toBe(undefined)
  })

  it('start again after a clear', () => {
    const shares = createFairShares()
    take(shares, { early: 10 })
    shares.clear()
    expect(take(shares, { early: 10, late: 10 })).toBe('early')
  })
})
