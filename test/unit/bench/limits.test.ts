import { describe, expect, it } from 'vitest'
import {
  checkLimit, checkLimits, shareOfLimit, type LimitCheck, LIMITS,
} from '../../bench/limits.ts'
import { limitTable } from '../../bench/table.ts'
import { CORE_REPORT, FULL_REPORT } from './sample-reports.ts'

const upper = { figure: 'a ratio', unit: 'ratio', bound: 'upper', limit: 1, target: 0.75 } as const
const lower = {
  figure: 'a rate', unit: 'rows/s', bound: 'lower', limit: 15_000, target: 30_000,
} as const

describe('a figure', () => {
  it.each([
    [upper, 0.75, 'target met'], [upper, 0.76, 'limit met'], [upper, 1, 'limit met'],
    [upper, 1.25, 'limit missed'], [upper, NaN, 'limit missed'], [lower, 30_000, 'target met'],
    [lower, 15_000, 'limit met'], [lower, 12_000, 'limit missed'],
    [{ ...upper, target: undefined }, 0.1, 'limit met'], [upper, undefined, 'not measured'],
  ] as const)('of %j with the value %d is: %s', (limit, value, status) => {
    const { target, ...others } = limit
    const check = checkLimit(target === undefined ? others : { ...others, target }, value)
    expect(check.status).toBe(status)
  })

  it('that misses its limit says by how much, and its share of the limit', () => {
    expect(checkLimit(upper, 1.25))
      .toEqual({ ...upper, value: 1.25, status: 'limit missed', missedByPercent: 25 })
    expect(checkLimit(lower, 12_000)).toMatchObject({ missedByPercent: 20 })
    expect(shareOfLimit(checkLimit(lower, 12_000), 12_000)).toBe(1.25)
    expect(shareOfLimit(checkLimit(upper, 0.5), 0.5)).toBe(0.5)
  })
})

describe('a report', () => {
  const statusesOf = (checks: readonly LimitCheck[]) =>
    checks.map(({ status, scenario }) => scenario === undefined ? status : `${scenario}: ${status}`)

  it('is compared with every limit', () => {
    const fairness = Array(2).fill('fairness: not measured')
    const verifications = Array(2).fill('verifications: not measured')
    const recovery = Array(6).fill('recovery: not measured')
    const small = Array(5).fill('small: not measured')
    const lists = Array(2).fill('lists: not measured')
    const workbooks = Array(4).fill('workbooks: not measured')
    expect(statusesOf(checkLimits(CORE_REPORT))).toEqual([
      'limit met', 'limit met', 'limit missed', 'target met', 'peers: not measured',
      'growth: not measured', 'target met', 'limit missed', 'crowd: not measured', 'limit met',
      'crowd: not measured', 'soak: not measured', 'limit met', 'email: not measured',
      ...verifications, 'provisional: not measured', ...fairness, ...recovery, ...small, ...lists,
      ...workbooks,
    ])
    expect(statusesOf(checkLimits(FULL_REPORT)).filter(status => status.includes(': '))).toEqual([
      'peers: not measured', 'growth: target met', 'crowd: not measured', 'crowd: not measured',
      'soak: limit met', 'email: limit missed', 'verifications: limit met',
      'verifications: limit met', 'provisional: limit met', ...fairness, ...recovery,
      'small: limit missed', 'small: limit met', 'small: limit met', 'small: target met',
      'small: limit missed', ...lists, ...workbooks,
    ])
  })

  it('compares workbooks with CSV, and their peak memory with that of CSV before', () => {
    const times = { acceptMs: 900, acceptCpuMs: 300, downloadMs: 400, downloadCpuMs: 300 }
    const csv = { megabytes: 4, ...times, peakMb: 200 }
    const workbooks = {
      rows: 100_000, csv, xlsx: { ...csv, peakMb: 310 }, ratioIn: 5, ratioOut: 6,
    }
    const checks = checkLimits({ ...CORE_REPORT, workbooks })
    expect(checks.filter(({ scenario }) => scenario === 'workbooks').map(({ status }) => status))
      .toEqual(['limit met', 'limit missed', 'limit met', 'limit missed'])
  })

  it('misses the limits of small jobs if no rate of them is sustained', () => {
    const { small } = FULL_REPORT
    if (small === undefined) throw new Error('the sample has no small jobs')
    const checks = checkLimits({ ...CORE_REPORT, small: { ...small, highest: undefined } })
    expect(checks.filter(({ scenario }) => scenario === 'small').map(({ status }) => status))
      .toEqual(['limit missed', 'limit missed', 'limit met', 'target met', 'limit missed'])
  })

  it('has a table that states by how much each limit is missed', () => {
    const table = limitTable(checkLimits(FULL_REPORT), FULL_REPORT).split('\n')
    expect(table).toHaveLength(LIMITS.length + 2)
    expect(table[3]).toBe(
      'the same job again, all cached                 0.84                 ' +
      '              <= 0.6      <= 0.45     !! missed by 40.0 %')
    expect(table[5]).toMatch(/ not measured \(--peers\)$/)
    expect(table[7]).toMatch(/ 18 ms +0\.0180 R +<= 30 +<= 20 +target met$/)
    expect(table[14]).toMatch(/ 12,500 rows\/s +12500 in R +>= 15,000 +>= 30,000 +!! missed by /)
    expect(table[14]).toMatch(/ 16\.7 %$/)
    expect(table.at(-1)).toBe(`!! 5 of ${LIMITS.length} limits missed`)
  })

  it('with fewer rows has a table that states that limits do not apply', () => {
    const few = { rows: 2_000, bareLoopMs: 20 }
    expect(limitTable([checkLimit(upper, 0.5)], few).split('\n').slice(-2)).toEqual([
      'No limit was missed.', 'Limits apply to 100,000 rows; this was a quick run with 2000.',
    ])
  })
})
