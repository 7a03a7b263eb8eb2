import { describe, expect, it } from 'vitest'
import type { KeyLookup } from '../../../services/accounts/api-keys.ts'
import { newApiKey } from '../../../services/accounts/key-store.ts'
import { createKeyGuard } from '../../../services/ingest/authenticate.ts'

const [good, fresh] = [newApiKey('live'), newApiKey('live')]
const expired = newApiKey('live')
const caller = {
  org: 'org_01', tenant: 'org_01.live', mode: 'live', scopes: [], keyId: 'key_1',
} as const

function guarded () {
  const calls: string[] = []
  let nowMs = 1
  const find = createKeyGuard(async (secret): Promise<KeyLookup> => {
    calls.push(secret)
    if (secret === expired) return { kind: 'expired' }
    return [good, fresh].includes(secret) ? { kind: 'ok', key: caller } : { kind: 'invalid' }
  }, () => nowMs)
  const guess = async (address: string) => (await find(newApiKey('live'), address)).kind
  const guessMany = async (address: string) => {
    for (let sent = 0; sent < 60; sent += 1) expect(await guess(address)).toBe('invalid')
  }
  return { find, guess, guessMany, calls, pass: (ms: number) => { nowMs += ms } }
}

describe('a client that guesses keys', () => {
  it('is throttled after sixty unknown keys in a minute', async () => {
    const { find, guess, guessMany, calls, pass } = guarded()
    await guessMany('192.0.2.1')
    pass(20_000)
    expect(await find(newApiKey('live'), '192.0.2.1'))
      .toEqual({ kind: 'throttled', retryAfterSeconds: 40 })
    expect(calls).toHaveLength(60)
    expect(await guess('192.0.2.2')).toBe('invalid')
    pass(40_001)
    expect(await guess('192.0.2.1')).toBe('invalid')
  })

  it('is an IPv6 /64, or an IPv4 address in either notation', async () => {
    const { guess, guessMany } = guarded()
    await guessMany('2001:db8:1:2::1')
    expect(await guess('2001:db8:1:2:ffff::9')).toBe('throttled')
    expect(await guess('2001:db8:1:3::1')).toBe('invalid')
    await guessMany('192.0.2.1')
    expect(await guess('::ffff:192.0.2.1')).toBe('throttled')
  })

  it('does not affect recently valid keys from the same address', async () => {
    const { find, guessMany } = guarded()
    expect((await find(good, '192.0.2.1')).kind).toBe('ok')
    await guessMany('192.0.2.1')
    expect((await find(good, '192.0.2.1')).kind).toBe('ok')
    expect((await find(fresh, '192.0.2.1')).kind).toBe('throttled')
  })

  it('may send malformed or expired keys without limit', async () => {
    const { find } = guarded()
    for (const secret of ['', 'malformed', expired]) {
      const kinds = new Set<string>()
      for (let sent = 0; sent < 70; sent += 1) {
        kinds.add((await find(secret, '192.0.2.1')).kind)
      }
      expect(kinds.has('throttled')).toBe(false)
    }
  })
})
