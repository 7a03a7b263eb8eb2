import { expect, it } from 'vitest'
import { systemClock } from '../../../../services/runtime/platform/clock.ts'

it('the clock of this machine counts milliseconds since 1970', () => {
  const beforeMs = Date.now()
  expect(systemClock.now()).toBeGreaterThanOrEqual(beforeMs)
  expect(systemClock.now()).toBeLessThanOrEqual(Date.now())
})
