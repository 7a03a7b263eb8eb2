import { describe, expect, it } from 'vitest'
import { createHostRate } from '../../../services/deliver/attempt.ts'

const url = 'https://a.example/hook'

function scene (perSecond: number) {
  const clock = { ms: 5_000 }
  const take = createHostRate(perSecond, () => clock.ms)
  const takeAll = (count: number, from = url) =>
    Array.from({ length: count }, () => take(from))
  return { clock, take, takeAll }
}

describe('the rate of a webhook host', () => {
  it('lets refused attempts return one after the other', () => {
    const { clock, take, takeAll } = scene(10)
    takeAll(10)
    const waits = takeAll(30)
    expect(waits).toEqual(waits.map((_, index) => 100 * (index + 1)))
    const startMs = clock.ms
    const again = waits.map(waitMs => {
      clock.ms = startMs + waitMs
      return take(url)
    })
    expect(again).toEqual(waits.map(() => 0))
  })

  it('is separate for each name and port, whatever the path', () => {
    const { takeAll } = scene(1)
    expect(takeAll(1)).toEqual([0])
    const others = [
      'https://A.example:443/other?x=1', 'https://b.example/hook', 'https://a.example:8443/hook',
    ]
    expect(others.map(other => takeAll(1, other)[0])).toEqual([1_000, 0, 0])
  })
})
