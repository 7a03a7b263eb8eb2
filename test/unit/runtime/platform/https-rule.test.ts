import { describe, expect, it } from 'vitest'
import { createHttpsRule } from '../../../../services/runtime/platform/http-server.ts'

const from = (remoteAddress: string, more: object = {}, headers: object = {}) =>
  ({ socket: { remoteAddress, ...more }, headers }) as never
const overHttps = { 'x-forwarded-proto': 'https' }

describe('the HTTPS rule', () => {
  const rule = createHttpsRule(['10.0.0.0/8'])

  it('accepts TLS, loopback, and what a trusted proxy forwards', () => {
    expect(rule(from('203.0.113.9', { encrypted: true }))).toBe('https')
    expect(rule(from('127.0.0.1'))).toBe('loopback')
    expect(rule(from('::1'))).toBe('loopback')
    expect(rule(from('::ffff:127.0.0.1'))).toBe('loopback')
    expect(rule(from('10.1.2.3', {}, overHttps))).toBe('https')
  })

  it('rejects everything else', () => {
    expect(rule(from('203.0.113.9'))).toBe('refused')
    expect(rule(from('203.0.113.9', {}, overHttps))).toBe('refused')
    expect(rule(from('10.1.2.3'))).toBe('refused')
    for (const address of ['127.0.0.1', '::1']) {
      expect(rule(from(address, {}, { 'x-forwarded-proto': 'http' }))).toBe('refused')
      expect(rule(from(address, {}, overHttps))).toBe('loopback')
    }
  })

  it('names an invalid proxy', () => {
    expect(() => createHttpsRule(['proxy.example']))
      .toThrow('TRUSTED_PROXIES: "proxy.example" is not an address or network')
  })
})
