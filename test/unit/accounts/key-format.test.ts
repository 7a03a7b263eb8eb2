import { crc32 } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { hashOf, isWellFormed, newApiKey } from '../../../services/accounts/key-store.ts'

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

describe('a key', () => {
  it.each(['live', 'test'] as const)('of mode %s: prefix, 30 random characters, checksum', mode => {
    const secret = newApiKey(mode)
    expect(secret).toMatch(new RegExp(`^vj_${mode}_[0-9A-Za-z]{36}$`))
    expect(isWellFormed(secret)).toBe(true)
    const digits = [...secret.slice(-6)].reduce((sum, digit) => sum * 62 + BASE62.indexOf(digit), 0)
    expect(digits).toBe(crc32(secret.slice(0, -6)))
  })

  it('is another one each time, with every character in use', () => {
    const secrets = Array.from({ length: 500 }, () => newApiKey('live'))
    expect(new Set(secrets).size).toBe(500)
    const seen = new Set(secrets.flatMap(secret => [...secret.slice(8, 38)]))
    expect([...seen].sort().join('')).toBe([...BASE62].sort().join(''))
  })

  it('with any one character changed is no key', () => {
    const secret = newApiKey('live')
    for (let at = 0; at < secret.length; at++) {
      const other = secret[at] === 'a' ? 'b' : 'a'
      expect(isWellFormed(secret.slice(0, at) + other + secret.slice(at + 1))).toBe(false)
    }
  })

  it.each(['', 'vj_live_', 'x'.repeat(10_000), `${newApiKey('test')} `])('is not %.20s', text => {
    expect(isWellFormed(text)).toBe(false)
  })

  it('is stored as SHA-256', () => {
    expect(hashOf('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
  })
})
