import { describe, expect, it } from 'vitest'
import {
  createReplyReader, SmtpFault,
} from '../../../../../services/verify/providers/smtp/channel.ts'

const read = (...pieces: readonly string[]) => {
  const reader = createReplyReader()
  return pieces.flatMap((piece) => reader.push(Buffer.from(piece)))
}

describe('the SMTP reply reader', () => {
  it('splits replies independently of the size of received chunks', () => {
    const text = '220 ready\r\n250-one\r\n250 two\r\n550 5.1.1 No such user\r\n'
    const whole = read(text)
    expect(whole).toEqual([
      { code: 220, enhanced: undefined, lines: ['ready'] },
      { code: 250, enhanced: undefined, lines: ['one', 'two'] },
      { code: 550, enhanced: '5.1.1', lines: ['5.1.1 No such user'] },
    ])
    expect(read(...text)).toEqual(whole)
  })

  it('accepts replies without text and without a carriage return', () => {
    expect(read('250\n', '354 \n').map(({ code }) => code)).toEqual([250, 354])
    expect(read('250 5.1.100000 x\r\n')[0]?.enhanced).toBeUndefined()
  })

  it('returns a reply after its last line', () => {
    const reader = createReplyReader()
    expect(reader.isEmpty()).toBe(true)
    expect(reader.push(Buffer.from('250-first\r\n'))).toEqual([])
    expect(reader.isEmpty()).toBe(false)
    expect(reader.push(Buffer.from('250 last\r\n'))).toHaveLength(1)
    expect(reader.isEmpty()).toBe(true)
  })

  it.each([
    ['text without a code', 'hello\r\n'],
    ['a code of another protocol', '150 ok\r\n'],
    ['two codes in one reply', '250-a\r\n550 b\r\n'],
    ['a line without end', '2'.repeat(2_049)],
    ['a line that is too long', `250 ${'x'.repeat(2_100)}\r\n`],
    ['lines without end', '250-x\r\n'.repeat(101)],
    ['an empty line', '\r\n'],
  ])('rejects %s', (_, text) => {
    expect(() => read(text)).toThrow(SmtpFault)
  })
})
