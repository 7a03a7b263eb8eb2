import { expect, it } from 'vitest'
import { positiveOf, rounded, wholeOf } from '../../../services/ops/numbers.ts'
import { stageOf } from '../../../services/ops/stages.ts'
import { STAGES } from '../../../services/topology.ts'

it('takes numbers that make sense and says what does', () => {
  expect(positiveOf('--every', '0.5')).toBe(0.5)
  for (const text of ['', '0', '-1', 'x', 'Infinity']) {
    expect(() => positiveOf('--every', text)).toThrow('--every is a number above 0')
  }
  expect(wholeOf('--limit', '0')).toBe(0)
  for (const text of ['', '1.5', '-1', '1e3']) {
    expect(() => wholeOf('--limit', text)).toThrow('--limit is a whole number from 0')
  }
  expect([rounded(1.26), rounded(1.23456, 3)]).toEqual([1.3, 1.235])
})

it('knows the stages', () => {
  expect(stageOf('verify')).toBe('verify')
  expect(() => stageOf('verfy'))
    .toThrow(`There is no stage verfy; there are ${STAGES.join(', ')}.`)
})
