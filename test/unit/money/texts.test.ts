import { describe, expect, it } from 'vitest'
import {
  microsOf, usdOf, usdToMicros, readNote, writeTexts,
} from '../../../services/money/texts.ts'

describe('an amount in USD', () => {
  it.each([
    ['25', 25_000_000], ['12.50', 12_500_000], ['0.000001', 1], ['0.1', 100_000],
    ['1.005', 1_005_000], ['8.2', 8_200_000], ['4.35', 4_350_000],
    ['999999999.999999', 999_999_999_999_999],
  ])('%s is exactly %i micros', (text, micros) => {
    expect(usdToMicros(text)).toBe(micros)
  })

  it.each([
    '', '0', '0.000000', '-1', '1,5', '1.', '.5', '1e3', '1.0000001', '1000000000', ' 1', '$1',
    'NaN',
  ])('cannot be written as "%s"', text => {
    expect(() => usdToMicros(text)).toThrow(RangeError)
  })

  it.each([[0, '0.000000'], [1, '0.000001'], [12_500_000, '12.500000'], [-1_500_000, '-1.500000']])(
    'of %i micros is printed as %s', (micros, text) => {
      expect(usdOf(micros)).toBe(text)
    })
})

describe('an amount in micros', () => {
  it('must be a whole number above 0', () => {
    expect(microsOf('1000000')).toBe(1_000_000)
    for (const text of ['0', '-1', '1.5', '1e3', '', '9007199254740993']) {
      expect(() => microsOf(text)).toThrow(RangeError)
    }
  })
})

it.each([
  { reason: 'invoice 1' }, { reason: 'invoice 1', note: '' }, { reason: '{"reason":"a"}' },
  { reason: '{' }, { reason: 'invoice 1', note: 'a "gift"' }, { reason: '', note: '{' },
])('the customer reads the note of %j, and no reason', texts => {
  for (const type of ['topup', 'adjust']) {
    expect(readNote({ type, reason: writeTexts(texts) })).toBe(texts.note ?? '')
  }
})

it('a reason without a note is in the journal as it was written', () => {
  expect(writeTexts({ reason: 'invoice 1' })).toBe('invoice 1')
})

it('the terms of a job are no note', () => {
  expect(readNote({ type: 'reserve', reason: writeTexts({ reason: '', note: 'a' }) })).toBe('')
})
