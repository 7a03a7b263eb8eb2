import { expect, it } from 'vitest'
import { createBodyBudget } from '../../../services/ingest/body-budget.ts'

it('the memory of bodies guarantees an eighth to each organization', () => {
  const budget = createBodyBudget(80)
  const complete = budget.open('org_1')
  expect([complete.grow(80), budget.open('org_1').grow(1)]).toEqual([true, false])
  expect([budget.open('org_2').grow(11), budget.open('org_2').grow(10)]).toEqual([false, true])
})
