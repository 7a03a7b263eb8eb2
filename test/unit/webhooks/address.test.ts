import { describe, expect, it } from 'vitest'
import {
  BlockedAddressError, checkTarget, createLookup, createResolve, isAllowedAddress, isNetwork,
  NameError,
} from '../../../services/webhooks/sender.ts'

const strict = { allowHttp: false, allowLoopback: false }

describe('a webhook address', () => {
  it('on this machine is allowed only if configured', () => {
    const rules = { ...strict, allowLoopback: true }
    const known = ['127.0.0.1', '127.9.9.9', '::1', '10.0.0.1', '::ffff:127.0.0.1', 'localhost']
    expect(known.map(address => isAllowedAddress(address, rules)))
      .toEqual([true, true, true, false, false, false])
  })
})

describe('a public webhook address', () => {
  const platforms = ['168.63.129.16', '161.26.0.10', '192.80.8.124']
  it.each(platforms)('%s of a cloud platform is not allowed', address => {
    expect(isAllowedAddress(address, strict)).toBe(false)
  })

  it('is not allowed in a denied network', () => {
    const rules = { ...strict, denied: ['8.8.8.0/24', '2606:4700::/32'] }
    const addresses = ['8.8.8.8', '8.8.9.8', '2606:4700:4700::1111', '2a00:1450:4001::1']
    expect(addresses.map(address => isAllowedAddress(address, rules)))
      .toEqual([false, true, false, true])
    expect(['8.8.8.0/24', '::/0', '8.8.8.8', '8.8.8.8/33', 'a'].map(isNetwork))
      .toEqual([true, true, false, false, false])
  })
})

describe('a webhook URL', () => {
  it('must be https, without a user', () => {
    const allows = (url: string, rules = strict) => () => checkTarget(new URL(url), rules)
    expect(allows('https://a.example/')).not.toThrow()
    expect(allows('http://a.example/')).toThrow(BlockedAddressError)
    expect(allows('http://a.example/', { ...strict, allowHttp: true })).not.toThrow()
    expect(allows('https://user@a.example/')).toThrow(BlockedAddressError)
    expect(allows('ftp://a.example/', { ...strict, allowHttp: true })).toThrow(BlockedAddressError)
  })
})

describe('the lookup of a webhook host', () => {
  const find = (addresses: readonly string[], all: boolean) => new Promise((resolve, reject) => {
    const lookup = createLookup(async () => addresses, strict)
    lookup('a.example', { all }, (error, found, family) =>
      error === null ? resolve([found, family]) : reject(error))
  })

  it('returns the checked addresses, all or the first', async () => {
    expect(await find(['8.8.8.8', '2606:4700:4700::1111'], true)).toEqual([
      [{ address: '8.8.8.8', family: 4 }, { address: '2606:4700:4700::1111', family: 6 }],
      undefined,
    ])
    expect(await find(['2606:4700:4700::1111'], false)).toEqual(['2606:4700:4700::1111', 6])
  })

  it('rejects a name with a private address and a name without any', async () => {
    await expect(find(['8.8.8.8', '10.0.0.1'], true)).rejects.toThrow(BlockedAddressError)
    await expect(find([], true)).rejects.toThrow(NameError)
  })

  it('resolves localhost without DNS', async () => {
    expect(await createResolve()('localhost')).toEqual(['127.0.0.1', '::1'])
    expect(await createResolve(['127.0.0.1:9'])('A.LocalHost.')).toEqual(['127.0.0.1', '::1'])
  })
})
