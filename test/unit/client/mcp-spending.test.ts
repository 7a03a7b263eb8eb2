import { describe, expect, it } from 'vitest'
import {
  createSpending, parseDollars, SpendingLimitError,
} from '../../../services/client/mcp-spending.ts'

describe('the spending of a session', () => {
  it('counts maximum prices until work ends, and then charges', () => {
    const spending = createSpending(100)
    const [first, second] = [spending.reserve(), spending.reserve()]
    first.cover(60)
    second.cover(40)
    expect(spending.figures()).toEqual({
      limitMicros: 100, spentMicros: 0, reservedMicros: 100, remainingMicros: 0,
    })
    first.settle(10)
    expect(spending.figures()).toEqual({
      limitMicros: 100, spentMicros: 10, reservedMicros: 40, remainingMicros: 50,
    })
  })

  it('refuses a price above the rest, says why, and keeps what was covered', () => {
    const spending = createSpending(1_000_000)
    const first = spending.reserve()
    first.cover(700_000)
    const second = spending.reserve()
    second.cover(100_000)
    const refused = 'spending_limit: this may cost up to $0.400001, but only $0.20 of the limit ' +
      'of this session ($1.00) remains: $0.00 is spent and $0.80 reserved for work that has not ' +
      'ended. Verify fewer contacts, wait for running work to end, or ask the user to restart ' +
      'the server with a higher --max-spend.'
    const attempt = () => { second.cover(400_001) }
    expect(attempt).toThrow(SpendingLimitError)
    expect(attempt).toThrow(refused)
    second.cover(300_000)
    expect(spending.figures().reservedMicros).toBe(1_000_000)
  })

  it('does not shrink a reservation before its work ends', () => {
    const spending = createSpending(100)
    const work = spending.reserve()
    work.cover(80)
    work.cover(20)
    expect(spending.figures().reservedMicros).toBe(80)
  })

  it('never counts more than was reserved, nor any charge twice', () => {
    const spending = createSpending(100)
    const work = spending.reserve()
    work.cover(30)
    work.settle(99)
    work.settle(30)
    expect(spending.figures()).toMatchObject({ spentMicros: 30, reservedMicros: 0 })
  })
})

describe('an amount of dollars', () => {
  it.each([
    ['0', 0], ['5', 5_000_000], ['2.50', 2_500_000], ['0.000001', 1], ['1000000', 1e12],
  ])('%s is parsed without floating point', (text, micros) => {
    expect(parseDollars(text)).toBe(micros)
  })

  it.each(['', '-1', '1.', '.5', '1e3', '0.0000001', '1000001', '12345678', '$5', '5,00', 'NaN'])(
    '"%s" is refused with the valid form', text => {
      expect(() => parseDollars(text)).toThrow(/is no amount of USD\. Use a number like 5 or 2\.50/)
    })
})
