import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { packStrings, unpackStrings } from '../../../services/cache/string-dictionary.ts'

describe('a string dictionary', () => {
  it('has each string once, numbered from 1 in two bytes', () => {
    const { numbers, texts } = packStrings(['a', 'b', 'a', ''])
    expect(numbers.toString('hex')).toBe('0001000200010003')
    expect(texts).toEqual(['a', 'b', ''])
  })

  it('decodes to the same rows; 0 is a row without a string', () => {
    fc.assert(fc.property(fc.array(fc.string()), (rows) => {
      const { numbers, texts } = packStrings(rows)
      const reply = [numbers, texts.map((text) => Buffer.from(text))]
      expect(unpackStrings(reply)).toEqual(rows.map((row) => Buffer.from(row).toString()))
    }))
    expect(unpackStrings([Buffer.from('00000001', 'hex'), [Buffer.from('é')]])).toEqual([null, 'é'])
  })
})
