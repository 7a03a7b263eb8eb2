import { createHmac, hkdfSync } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  createTokenizer, buildKeyPrefix, pickRotated, pickTokens, readSecrets, tokensByVersion,
} from '../../../services/cache/tokens.ts'
import { unicodeText } from '../../support/texts.ts'

const secrets = readSecrets({ 1: Buffer.alloc(32, 1).toString('base64') })
const scope = { tenant: 'org_1.live', service: 'whatsapp', version: '1' } as const
const PHONE = '+12127365000'

describe('cache tokens', () => {
  it('are the first half of an HMAC of scope and contact with the key of the tenant', () => {
    const contact = fc.oneof(
      unicodeText(2_000), fc.string({ maxLength: 400 }),
      fc.constantFrom(PHONE, 'ü', 'a'.repeat(64)))
    const secret = fc.uint8Array({ minLength: 1, maxLength: 64 })
    fc.assert(fc.property(secret, fc.array(contact, { maxLength: 6 }), (bytes, contacts) => {
      const key = Buffer.from(hkdfSync('sha256', bytes, '', 'cache|org_1.live', 32))
      const tokens = contacts.map(text => text === ''
        ? Buffer.alloc(16)
        : createHmac('sha256', key).update(`v1|whatsapp|${text}`).digest().subarray(0, 16))
      const tokenize = createTokenizer(new Map([['1', Buffer.from(bytes)]]))
      expect(tokenize(scope, contacts).tokens).toEqual(Buffer.concat(tokens))
    }))
  })

  it('never change from release to release', () => {
    expect(createTokenizer(secrets)(scope, [PHONE]).tokens.toString('hex'))
      .toBe('dfe66e353c06b42185ff493232fc1adf')
  })

  it('differ by tenant and service', () => {
    const tokenize = createTokenizer(secrets)
    const hexOf = (one: Parameters<typeof tokenize>[0]) =>
      tokenize(one, [PHONE]).tokens.toString('hex')
    const mine = hexOf(scope)
    expect(hexOf({ ...scope, tenant: 'org_2.live' })).not.toBe(mine)
    expect(hexOf({ ...scope, tenant: 'org_1.test' })).not.toBe(mine)
    expect(hexOf({ ...scope, service: 'telegram' })).not.toBe(mine)
  })

  it('are the same for the two carrier services, as are the names of entries', () => {
    const tokenize = createTokenizer(secrets)
    const [single, lookup] = (['carrier-single', 'carrier-lookup'] as const)
      .map(service => ({ ...scope, service }))
    expect(tokenize(single!, [PHONE])).toEqual(tokenize(lookup!, [PHONE]))
    expect(buildKeyPrefix(single!)).toBe(buildKeyPrefix(lookup!))
  })

  it('are computed with all secrets, the requested version first', () => {
    const both = createTokenizer(readSecrets({
      1: Buffer.alloc(32, 1).toString('base64'), 2: Buffer.alloc(32, 2).toString('base64'),
    }))
    const alone = createTokenizer(secrets)(scope, [PHONE, ''])
    expect(alone).toMatchObject({ version: '1', rotatedTokens: null })
    const old = both(scope, [PHONE, ''])
    const fresh = both({ ...scope, version: '2' }, [PHONE, ''])
    expect(old.tokens).toEqual(alone.tokens)
    expect(old.rotatedTokens).toEqual({ versions: ['2'], tokens: fresh.tokens })
    expect(fresh).toMatchObject({
      version: '2', rotatedTokens: { versions: ['1'], tokens: old.tokens },
    })
    expect(fresh.tokens).not.toEqual(old.tokens)
  })

  it('are of the newest version if the requested one is missing', () => {
    const made = createTokenizer(secrets)({ ...scope, version: '9' }, [PHONE])
    expect(made).toEqual(createTokenizer(secrets)(scope, [PHONE]))
    expect(() => createTokenizer(new Map())).toThrow(RangeError)
  })
})

describe('tokens of other versions', () => {
  const listOf = (...fills: number[]) => Buffer.concat(fills.map(fill => Buffer.alloc(16, fill)))
  const others = { versions: ['2', '1'], tokens: listOf(21, 22, 23, 11, 12, 13) }

  it('are all rows of the first version, then of the next', () => {
    expect(tokensByVersion(others)).toEqual([
      { version: '2', tokens: listOf(21, 22, 23) }, { version: '1', tokens: listOf(11, 12, 13) },
    ])
    expect([tokensByVersion(null), tokensByVersion(undefined)]).toEqual([[], []])
  })

  it('are picked for some rows, by every version', () => {
    expect(pickTokens(listOf(1, 2, 3), [0, 2])).toEqual(listOf(1, 3))
    expect(pickRotated(others, [0, 2]))
      .toEqual({ versions: ['2', '1'], tokens: listOf(21, 23, 11, 13) })
    expect(pickRotated(others, [0, 1, 2])).toBe(others)
    expect(pickRotated(undefined, [0])).toBe(null)
  })
})

it('the prefixes of entry names are unique, short, and in one slot for all versions', () => {
  const prefixes = ([
    scope, { ...scope, version: '2' }, { ...scope, service: 'telegram' },
    { ...scope, tenant: 'org_2.live' },
  ] as const).map(buildKeyPrefix)
  expect(new Set(prefixes).size).toBe(4)
  for (const prefix of prefixes) expect(prefix).toMatch(/^c:\{[\w-]{6}\}[12]:$/)
  expect(prefixes[0]?.slice(0, 10)).toBe(prefixes[1]?.slice(0, 10))
})
