import { describe, expect, it } from 'vitest'
import { createBodyBudget, SMALL_BODY_BYTES } from '../../../services/ingest/body-budget.ts'

describe('the memory budget of bodies', () => {
  it('is released once, and not reserved afterwards', () => {
    const budget = createBodyBudget(10, 0)
    const first = budget.open()
    expect(first.reserve(6)).toBe(true)
    expect(budget.open().reserve(5)).toBe(false)
    first.release()
    first.release()
    expect(first.reserve(1)).toBe(false)
    expect(budget.open().reserve(4)).toBe(true)
    expect(budget.open().reserve(7)).toBe(false)
    expect(budget.open().reserve(6)).toBe(true)
  })

  it('admits a single body above the budget', () => {
    const budget = createBodyBudget(10, 0)
    expect(budget.open().reserve(11)).toBe(true)
    expect(budget.open().reserve(1)).toBe(false)
  })

  it('grows a reservation while there is memory, and never shrinks it', () => {
    const budget = createBodyBudget(10, 0)
    const [first, second] = [budget.open(), budget.open()]
    expect([first.reserve(2), second.reserve(4), first.reserve(6)]).toEqual([true, true, true])
    expect([first.reserve(7), first.reserve(3), first.reservedBytes()]).toEqual([false, true, 6])
    second.release()
    expect([first.reserve(7), first.reservedBytes()]).toEqual([true, 7])
  })

  it('is not needed by a small body', () => {
    const budget = createBodyBudget(10)
    const large = budget.open()
    expect([large.reserve(SMALL_BODY_BYTES + 1), budget.open().reserve(SMALL_BODY_BYTES + 1)])
      .toEqual([true, false])
    const small = budget.open()
    expect([small.reserve(SMALL_BODY_BYTES), small.reservedBytes()]).toEqual([true, 0])
  })
})
