import { describe, expect, it } from 'vitest'
import { inputFault, invalid, MAX_CONTACT_CHARACTERS } from '../../../services/normalize/input.ts'

describe('inputFault', () => {
  it.each([
    ['+1 212 736 5000', undefined],
    ['m\u00fcller@example.org', undefined],
    ['', 'empty'],
    ['a\u007fb', 'control_character'],
    ['a\udc00b', 'malformed_unicode'],
    ['x'.repeat(MAX_CONTACT_CHARACTERS), undefined],
    ['x'.repeat(MAX_CONTACT_CHARACTERS + 1), 'too_long_input'],
    ['\u{1f4de}'.repeat(MAX_CONTACT_CHARACTERS), undefined],
    ['\u{1f4de}'.repeat(MAX_CONTACT_CHARACTERS) + 'x', 'too_long_input'],
  ])('finds in %j: %s', (text, reason) => {
    expect(inputFault(text)).toBe(reason)
  })
})

describe('invalid', () => {
  it('is the outcome of an invalid row', () => {
    expect(invalid('empty')).toEqual({ ok: false, reason: 'empty' })
  })
})
