import { describe, expect, it } from 'vitest'
import { isReserved } from '../../../../services/verify/providers/email.ts'

describe('a reserved mail domain', () => {
  it.each([
    ['localhost', true], ['x.test', true], ['a.example', true], ['x.invalid', true],
    ['printer.local', true], ['1.in-addr.arpa', true],
    ['example.org', true], ['mail.example.com', true],
    ['[127.0.0.1]', true], ['[192.0.2.1]', true], ['[IPv6:2001:db8::1]', true],
    ['[93.184.215.14]', false], ['[IPv6:2606:4700::1]', false], ['under_score.org', false],
    ['notexample.org', false], ['example.de', false], ['gmail.com', false],
  ])('%s: %s', (domain, expected) => {
    expect(isReserved(domain)).toBe(expected)
  })
})
