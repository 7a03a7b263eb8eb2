import fc from 'fast-check'
import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createMac } from '../../../services/normalize/mac.ts'

const macOf = (key: Buffer, text: string, bytes: number) => {
  const target = Buffer.alloc(bytes + 4, 0xaa)
  createMac(key, bytes)(text, target, 2)
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
    expect(macOf(Buffer.alloc(20, 0x0b), 'Hi There', 32).toString('hex', 2, 34)).toBe(answer)
    const jefe = '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843'
    expect(macOf(Buffer.from('Jefe'), 'what do ya want for nothing?', 32).toString('hex', 2, 34))
      .toBe(jefe)
  })

  it('is what the runtime makes, of any text under any key, and nothing beside it', () => {
    const keys = fc.uint8Array({ minLength: 1, maxLength: 64 })
    const texts = fc.string({ unit: 'binary', maxLength: 2_000 })
    fc.assert(fc.property(keys, texts, fc.integer({ min: 1, max: 32 }), (bytes, text, length) => {
      const key = Buffer.from(bytes)
      expect(macOf(key, text, length)).toEqual(expected(key, text, length))
    }))
  })

  it('keeps nothing of one text for the next, shorter or longer', () => {
    const key = Buffer.alloc(32, 7)
    const mac = createMac(key, 16)
    for (const text of ['a'.repeat(5_000), 'b', '', 'ü'.repeat(400), 'c'.repeat(64)]) {
      const target = Buffer.alloc(16)
      mac(text, target, 0)
      expect(target).toEqual(createHmac('sha256', key).update(text).digest().subarray(0, 16))
    }
  })

  it('takes no key that would have to be shortened first', () => {
    expect(() => createMac(Buffer.alloc(65), 16)).toThrow(RangeError)
  })
})
