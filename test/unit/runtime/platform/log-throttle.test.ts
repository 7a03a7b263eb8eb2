import { expect, it } from 'vitest'
import { createLogThrottle } from '../../../../services/runtime/platform/log.ts'

it('a log throttle admits each name at once and then once per interval', () => {
  let nowMs = 0
  const isDue = createLogThrottle(1_000, () => nowMs)
  expect(['a', 'a', 'b'].map(isDue)).toEqual([true, false, true])
  nowMs = 999
  expect(isDue('a')).toBe(false)
  nowMs = 1_000
  expect(['a', 'a', 'b'].map(isDue)).toEqual([true, false, true])
})
