import fc from 'fast-check'
import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createTokenMac } from '../../../services/cache/tokenizer.ts'
import { unicodeText } from '../../support/texts.ts'

const macOf = (key: Buffer, text: string, { bytes = 32, prefix = '' } = {}) => {
  const target = Buffer.alloc(bytes + 4, 0xaa)
  createTokenMac(key, bytes)(prefix)(text, target, 2)
  return target
}
const expected = (key: Buffer, text: string, bytes: number) => Buffer.concat([
  Buffer.alloc(2, 0xaa),
  createHmac('sha256', key).update(text).digest().subarray(0, bytes),
  Buffer.alloc(2, 0xaa),
])

describe('the MAC of a text', () => {
  it('is the HMAC-SHA256 of the test cases of RFC 4231', () => {
    const answer = 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7'
    expect(macOf(Buffer.alloc(20, 0x0b), 'Hi There').toString('hex', 2, 34)).toBe(answer)
    const jefe = '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843'
    expect(macOf(Buffer.from('Jefe'), 'what do ya want for nothing?').toString('hex', 2, 34))
      .toBe(jefe)
  })

  it('equals the HMAC of Node for any text and key, and writes nothing else', () => {
    const keys = fc.uint8Array({ minLength: 1, maxLength: 64 })
    const texts = fc.tuple(
      fc.oneof(fc.string({ maxLength: 300 }), fc.constant('v1|phone-validation|')),
      fc.oneof(unicodeText(2_000), fc.string({ maxLength: 400 })))
    const lengths = fc.integer({ min: 1, max: 32 })
    fc.assert(fc.property(keys, texts, lengths, (keyBytes, [prefix, text], bytes) => {
      const key = Buffer.from(keyBytes)
      expect(macOf(key, text, { bytes, prefix })).toEqual(expected(key, prefix + text, bytes))
    }))
  })

  it('is independent of the text before', () => {
    const key = Buffer.alloc(32, 7)
    const keyed = createTokenMac(key, 16)
    const [one, other] = [keyed('ü|'), keyed('other|')]
    for (const text of ['a'.repeat(5_000), 'b', '', 'ü'.repeat(400), 'aaü', 'c'.repeat(64), 'b']) {
      for (const [mac, prefix] of [[one, 'ü|'], [other, 'other|']] as const) {
        const target = Buffer.alloc(16)
        mac(text, target, 0)
        const whole = createHmac('sha256', key).update(prefix + text).digest()
        expect(target).toEqual(whole.subarray(0, 16))
      }
    }
  })

  it('rejects a key above 64 bytes', () => {
    expect(() => createTokenMac(Buffer.alloc(65), 16)).toThrow(RangeError)
  })
})
