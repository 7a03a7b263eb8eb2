import { Check } from 'typebox/value'
import { describe, expect, it } from 'vitest'
import {
  clientAddress, clientNetwork, isPublicAddress, parseNetworks, plainAddress, serverAddress,
  wholeNetwork,
} from '../../../../services/runtime/platform/networks.ts'

it('networks contain their addresses', () => {
  const { has: hold } = parseNetworks(['10.0.0.0/8', '192.0.2.1', '2001:db8::/32'])
  expect(['10.1.2.3', '192.0.2.1', '2001:db8::1'].map(hold)).toEqual([true, true, true])
  expect(['11.0.0.1', '192.0.2.2', '2001:db9::1', '', 'x'].map(hold)).not.toContain(true)
})

it('networks reject an invalid text and name the setting', () => {
  expect(() => parseNetworks(['proxy'], 'TRUSTED_PROXIES'))
    .toThrow('TRUSTED_PROXIES: "proxy" is not an address or network')
  // An empty length would be 0, which is every address.
  for (const text of ['10.0.0.0/', '10.0.0.0/33', '::/129', '10.0.0.0/8/8', '10.0.0.0/ 8']) {
    expect(() => parseNetworks([text])).toThrow(`"${text}" is not an address or network`)
  }
})

it('the network of a text begins with its first address', () => {
  for (const text of ['10.1.2.3', '10.1.2.0/24', '0.0.0.0/0', '2001:DB8::/32', '::1/128']) {
    expect(wholeNetwork(text)).toBe(text)
  }
  expect(['10.1.2.3/24', '10.1.2.3/0', '2001:db8::5/64', '::ffff:10.1.2.3/120'].map(wholeNetwork))
    .toEqual(['10.1.2.0/24', '0.0.0.0/0', '2001:db8::/64', '::ffff:a01:200/120'])
})

it('the network of a client is an IPv4 address or a /64', () => {
  expect(clientNetwork('::ffff:192.0.2.1')).toBe('192.0.2.1')
  expect(clientNetwork('2001:db8:0:1::5')).toBe('2001:db8:0:1::/64')
  expect([clientNetwork(), plainAddress()]).toEqual(['', ''])
  expect(['::FFFF:192.0.2.1', '::ffff:c000:201', 'fe80::1%eth0', 'x', 'fe80::1%2001:db8::1']
    .map(plainAddress)).toEqual(['192.0.2.1', '192.0.2.1', 'fe80::1', 'x', 'fe80::1'])
  expect(['fe80::1%2001:db8::1', ':::', 'x:y'].map(clientNetwork))
    .toEqual(['fe80:0:0:0::/64', ':::', 'x:y'])
})

describe('the address of a client', () => {
  const proxies = parseNetworks(['10.0.0.0/8', '2001:db8:1::/48'])
  const from = (forwarded: string, peer = '10.0.0.1') => clientAddress({
    socket: { remoteAddress: peer } as never, headers: { 'x-forwarded-for': forwarded },
  }, proxies)

  it('is that of the connection, unless that is a trusted proxy', () => {
    const socket = { remoteAddress: '::ffff:192.0.2.9' } as never
    expect(clientAddress({ socket, headers: {} }, proxies)).toBe('192.0.2.9')
    expect(from('198.51.100.1', '192.0.2.9')).toBe('192.0.2.9')
  })

  it.each([
    ['198.51.100.1', '198.51.100.1'],
    ['203.0.113.5, 198.51.100.1', '198.51.100.1'],
    ['203.0.113.5,198.51.100.1 ,\t10.0.0.7', '198.51.100.1'],
    ['10.0.0.5, 10.0.0.7', '10.0.0.5'],
    ['2001:db8:2::1, 2001:db8:1::7', '2001:db8:2::1'],
    ['198.51.100.1:4711', '198.51.100.1'],
    ['[2001:db8:2::1]:4711', '2001:db8:2::1'],
    ['[2001:db8:2::1]', '2001:db8:2::1'],
    ['::ffff:c633:6401', '198.51.100.1'],
    ['198.51.100.1, ::FFFF:10.0.0.7', '198.51.100.1'],
  ])('in "%s" is %s', (forwarded, address) => {
    expect(from(forwarded)).toBe(address)
  })

  it.each([
    'fe80::1%2001:db8::1', 'fe80::1%eth0', 'fe80::1%', '%', '\xff\xfe', '::ffff:999.1.1.1',
    '1.2.3.4:99999999', ',,,', '[fe80::1%eth0]:1', '', ' ', ',', '198.51.100.1,',
    '198.51.100.1, ', 'unknown', '_hidden', '198.51.100.1 203.0.113.5', '198.51.100.1:x',
    '[198.51.100.1]', '198.51.100.999', '0x7f.1', '2001:db8:2::1:4711:1:2:3:4:5', '[::1',
    'x'.repeat(9_000),
    '"198.51.100.1"', 'for=198.51.100.1', `198.51.100.1${' '.repeat(5_000)}`,
  ])('in "%s" is that of the nearest proxy', (forwarded) => {
    expect(from(forwarded)).toBe('10.0.0.1')
    expect(from(`${forwarded}, 10.0.0.7`)).toBe('10.0.0.7')
  })

  it('behind a long list is that of the nearest proxies', () => {
    expect(from(`198.51.100.1, ${'10.0.0.7, '.repeat(5_000)}10.0.0.7`)).toBe('10.0.0.7')
    expect(from(`${'1.1.1.1,'.repeat(2_000)}203.0.113.5`)).toBe('203.0.113.5')
  })
})

/** `properties/webhook-addresses` has those of networks that are not public. */
it.each(['mail.org', ''])('a text that is no address, "%s", is no public one', text => {
  expect(isPublicAddress(text)).toBe(false)
})

describe('the address of a resolver', () => {
  it.each(['9.9.9.9', '127.0.0.1:5353', '2620:fe::fe', '[2620:fe::fe]:53', '[::1]'])(
    'may be %s', text => { expect(Check(serverAddress, text)).toBe(true) })

  it.each([
    '', 'dns.example', '9.9.9', '9.9.9.9:', '9.9.9.9:0', '9.9.9.9:65536', '[9.9.9.9]:53', ':53',
  ])('is not "%s"', text => { expect(Check(serverAddress, text)).toBe(false) })
})
