import { expect, it } from 'vitest'
import { clientNetwork, networksOf, plainAddress } from '../../../services/platform/networks.ts'

it('networks contain their addresses', () => {
  const { has: hold } = networksOf(['10.0.0.0/8', '192.0.2.1', '2001:db8::/32'])
  expect(['10.1.2.3', '192.0.2.1', '2001:db8::1'].map(hold)).toEqual([true, true, true])
  expect(['11.0.0.1', '192.0.2.2', '2001:db9::1', '', 'x'].map(hold)).not.toContain(true)
})

it('networks reject an invalid text and name the setting', () => {
  expect(() => networksOf(['proxy'], 'TRUSTED_PROXIES'))
    .toThrow('TRUSTED_PROXIES: "proxy" is not an address or network')
})

it('the network of a client is an IPv4 address or a /64', () => {
  expect(clientNetwork('::ffff:192.0.2.1')).toBe('192.0.2.1')
  expect(clientNetwork('2001:db8:0:1::5')).toBe('2001:db8:0:1::/64')
  expect([clientNetwork(), plainAddress()]).toEqual(['', ''])
})
