import { expect, it } from 'vitest'
import { startRepeating } from '../../../services/ledger/repeat.ts'

it('a repeated action goes on after a failure, and ends before it is stopped', async () => {
  const failures: unknown[] = []
  const again = Promise.withResolvers<void>()
  const hold = Promise.withResolvers<void>()
  let runs = 0
  let isEnded = false
  const { stop } = startRepeating(1, async () => {
    runs += 1
    if (runs === 1) throw new Error('first')
    again.resolve()
    await hold.promise
    isEnded = true
  }, error => failures.push(error))
  await again.promise
  const stopped = stop()
  hold.resolve()
  await stopped
  expect([runs, isEnded, failures.map(String)]).toEqual([2, true, ['Error: first']])
})
