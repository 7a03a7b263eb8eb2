import { createHmac, hkdfSync } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createTokenizer, readSecrets } from '../../../services/cache/tokenizer.ts'

const secrets = readSecrets({ 1: Buffer.alloc(32, 1).toString('base64') })
const scope = { tenant: 'org_1.live', service: 'whatsapp', version: '1' } as const
const PHONE = '+12127365000'

describe('cache tokens', () => {
  it('are the first half of an HMAC of scope and contact with the key of the tenant', () => {
    const key = Buffer.from(hkdfSync('sha256', Buffer.alloc(32, 1), '', 'cache|org_1.live', 32))
    const full = createHmac('sha256', key).update('v1|whatsapp|+12127365000').digest()
    expect(createTokenizer(secrets)(scope, [PHONE]).tokens).toEqual(full.subarray(0, 16))
  })

  it('never change from release to release', () => {
    expect(createTokenizer(secrets)(scope, [PHONE]).tokens.toString('hex'))
      .toBe('dfe66e353c06b42185ff493232fc1adf')
  })

  it('are in one buffer by row, zeros for invalid rows', () => {
    const tokenize = createTokenizer(secrets)
    const { tokens } = tokenize(scope, [PHONE, '', PHONE])
    expect(tokens.length).toBe(48)
    expect(tokens.subarray(16, 32)).toEqual(Buffer.alloc(16))
    expect(tokens.subarray(32)).toEqual(tokens.subarray(0, 16))
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

  it('are the same for the two carrier services, which share their records', () => {
    const tokenize = createTokenizer(secrets)
    expect(tokenize({ ...scope, service: 'carrier-single' }, [PHONE]))
      .toEqual(tokenize({ ...scope, service: 'carrier-lookup' }, [PHONE]))
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
