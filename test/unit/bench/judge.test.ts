import { describe, expect, it } from 'vitest'
import { judge, judgeAll, shareOfLimit } from '../../bench/judge.ts'
import { LIMITS } from '../../bench/limits.ts'
import { judgementTable } from '../../bench/table.ts'
import { FULL, PLAIN } from './report.ts'

const most = { figure: 'a ratio', unit: 'ratio', is: 'most', limit: 1, aim: 0.75 } as const
const least = { figure: 'a rate', unit: 'rows/s', is: 'least', limit: 15_000, aim: 30_000 } as const

describe('a figure that may be so much at most', () => {
  it('meets its aim, its limit, or neither; equal is met', () => {
    expect(judge(most, 0.75).verdict).toBe('aim met')
    expect(judge(most, 0.76).verdict).toBe('met')
    expect(judge(most, 1).verdict).toBe('met')
    expect(judge(most, 1.25)).toEqual({
      ...most, value: 1.25, verdict: 'missed', missedByPercent: 25,
    })
  })
})

describe('a figure that is to be so much at least', () => {
  it('meets its aim, its limit, or neither', () => {
    expect(judge(least, 30_000).verdict).toBe('aim met')
    expect(judge(least, 15_000).verdict).toBe('met')
    expect(judge(least, 12_000)).toEqual({
      ...least, value: 12_000, verdict: 'missed', missedByPercent: 20,
    })
  })

  it('uses up more of its limit the less it is', () => {
    expect(shareOfLimit(judge(least, 12_000), 12_000)).toBe(1.25)
    expect(shareOfLimit(judge(most, 0.5), 0.5)).toBe(0.5)
  })
})

describe('a figure without an aim, or without a value', () => {
  it('is met or missed, or not measured', () => {
    const { aim: _aim, ...plain } = most
    expect(judge(plain, 0.1)).toEqual({ ...plain, value: 0.1, verdict: 'met' })
    expect(judge({ ...plain, part: 'growth' }, undefined))
      .toEqual({ ...plain, part: 'growth', verdict: 'not measured' })
  })

  it('that is not a number is missed', () => {
    expect(judge(most, NaN).verdict).toBe('missed')
  })
})

describe('a run', () => {
  const verdictsOf = (judgements: ReturnType<typeof judgeAll>) =>
    judgements.map(({ verdict, part }) => part === undefined ? verdict : `${part}: ${verdict}`)

  it('is held against every limit', () => {
    const fairness = Array(2).fill('fairness: not measured')
    const recovery = Array(5).fill('recovery: not measured')
    expect(verdictsOf(judgeAll(PLAIN))).toEqual([
      'met', 'met', 'missed', 'aim met', 'peers: not measured', 'growth: not measured', 'aim met',
      'missed', 'crowd: not measured', 'aim met', 'crowd: not measured', 'soak: not measured',
      'met', 'email: not measured', ...fairness, ...recovery,
    ])
    expect(verdictsOf(judgeAll(FULL)).filter(verdict => verdict.includes(': '))).toEqual([
      'peers: not measured', 'growth: aim met', 'crowd: not measured', 'crowd: not measured',
      'soak: met', 'email: missed', ...fairness, ...recovery,
    ])
  })

  it('says in its table by how much a limit was missed', () => {
    const table = judgementTable(judgeAll(FULL), FULL.rows).split('\n')
    expect(table).toHaveLength(LIMITS.length + 2)
    expect(table[3]).toBe(
      'the same job again, all cached                 0.84                 ' +
      '<= 0.7      <= 0.5      !! missed by 20.0 %')
    expect(table[5]).toMatch(/ not measured \(--peers\)$/)
    expect(table[14]).toMatch(/ 12,500 rows\/s +>= 15,000 +>= 30,000 +!! missed by 16\.7 %$/)
    expect(table.at(-1)).toBe(`!! 3 of ${LIMITS.length} limits missed`)
  })

  it('with fewer rows says that it was a try', () => {
    expect(judgementTable([judge(most, 0.5)], 2_000).split('\n').slice(-2)).toEqual([
      'No limit was missed.', 'Limits are for 100,000 rows; this was a try with 2000.',
    ])
  })
})
