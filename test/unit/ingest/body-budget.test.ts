import { describe, expect, it } from 'vitest'
import { createBodyBudget, SMALL_BODY_BYTES } from '../../../services/ingest/body-budget.ts'

describe('room for bodies', () => {
  it('is given back once, and not taken again after', () => {
    const budget = createBodyBudget(10, 0)
    const first = budget.open()
    expect(first.hold(6)).toBe(true)
    expect(budget.open().hold(5)).toBe(false)
    first.giveBack()
    first.giveBack()
    expect(first.hold(1)).toBe(false)
    expect(budget.open().hold(4)).toBe(true)
    expect(budget.open().hold(7)).toBe(false)
    expect(budget.open().hold(6)).toBe(true)
  })

  it('is there for one body larger than all of it, alone', () => {
    const budget = createBodyBudget(10, 0)
    expect(budget.open().hold(11)).toBe(true)
    expect(budget.open().hold(1)).toBe(false)
  })

  it('grows with a body while there is some, and never shrinks', () => {
    const budget = createBodyBudget(10, 0)
    const [first, second] = [budget.open(), budget.open()]
    expect([first.hold(2), second.hold(4), first.hold(6)]).toEqual([true, true, true])
    expect([first.hold(7), first.hold(3), first.heldBytes()]).toEqual([false, true, 6])
    second.giveBack()
    expect([first.hold(7), first.heldBytes()]).toEqual([true, 7])
  })

  it('is not needed by a small body, however full it is', () => {
    const budget = createBodyBudget(10)
    const large = budget.open()
    expect([large.hold(SMALL_BODY_BYTES + 1), budget.open().hold(SMALL_BODY_BYTES + 1)])
      .toEqual([true, false])
    const small = budget.open()
    expect([small.hold(SMALL_BODY_BYTES), small.heldBytes()]).toEqual([true, 0])
  })
})
