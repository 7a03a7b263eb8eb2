import { describe, expect, it } from 'vitest'
import {
  CONNECTION_DEFAULTS, createPublicLimit,
} from '../../../../services/runtime/platform/http-server.ts'

function setUp () {
  const clock = { ms: 0 }
  const settings = {
    ...CONNECTION_DEFAULTS, LIMIT_PUBLIC: 100, LIMIT_PUBLIC_ALL: 250, LIMIT_PUBLIC_SECONDS: 10,
  }
  const limit = createPublicLimit(settings, () => clock.ms)
  const admitted = (address: string, requests: number) =>
    Array.from({ length: requests }, () => limit.take(address)).filter(wait => wait === 0).length
  return { clock, limit, admitted }
}

describe('the limit of requests without a key', () => {
  it('is that of an address, and refills', () => {
    const { clock, limit, admitted } = setUp()
    expect(admitted('192.0.2.1', 200)).toBe(100)
    expect(limit.take('192.0.2.1')).toBe(1)
    expect([limit.waitSeconds('192.0.2.1'), limit.waitSeconds('192.0.2.2')]).toEqual([1, 0])
    clock.ms += 2_000
    expect(admitted('192.0.2.1', 200)).toBe(20)
  })

  it('is one for an IPv6 network and for forms of an address', () => {
    const { admitted } = setUp()
    expect(admitted('2001:db8::1', 60) + admitted('2001:db8::2', 60)).toBe(100)
    expect(admitted('192.0.2.1', 60) + admitted('::ffff:192.0.2.1', 60)).toBe(100)
  })

  it('counts large answers', () => {
    const { limit, admitted } = setUp()
    for (let sent = 0; sent < 10; sent++) limit.addBytes('192.0.2.1', 65_536 * 9 + 5)
    expect(admitted('192.0.2.1', 100)).toBe(10)
    limit.addBytes('192.0.2.1', 65_536 * 50)
    expect(limit.take('192.0.2.1')).toBe(6)
  })

  it('of all leaves a part of theirs to those that have sent hardly any', () => {
    const { clock, limit, admitted } = setUp()
    expect(['1', '2', '3'].map(at => admitted(`192.0.2.${at}`, 100))).toEqual([100, 100, 50])
    expect(admitted('192.0.2.4', 100)).toBe(5)
    expect(limit.take('192.0.2.3')).toBeGreaterThan(0)
    clock.ms += 10_000
    expect(admitted('192.0.2.3', 100)).toBe(100)
  })
})
