import { createHmac, hkdfSync } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createTokenizer, readSecrets } from '../../../services/normalize/token.ts'

const secrets = readSecrets({ 1: Buffer.alloc(32, 1).toString('base64') })
const scope = { tenant: 'org_1.live', service: 'whatsapp', version: '1' } as const
const PHONE = '+12127365000'

describe('tokens', () => {
  it('are the first half of an HMAC over scope and contact under the tenant\'s key', () => {
    const key = Buffer.from(hkdfSync('sha256', Buffer.alloc(32, 1), '', 'cache|org_1.live', 32))
    const full = createHmac('sha256', key).update('v1|whatsapp|+12127365000').digest()
    expect(createTokenizer(secrets)(scope, [PHONE])).toEqual(full.subarray(0, 16))
  })

  it('never change from release to release', () => {
    expect(createTokenizer(secrets)(scope, [PHONE]).toString('hex'))
      .toBe('dfe66e353c06b42185ff493232fc1adf')
  })

  it('stand row by row in one buffer, zeros for invalid rows', () => {
    const tokenize = createTokenizer(secrets)
    const tokens = tokenize(scope, [PHONE, '', PHONE])
    expect(tokens.length).toBe(48)
    expect(tokens.subarray(16, 32)).toEqual(Buffer.alloc(16))
    expect(tokens.subarray(32)).toEqual(tokens.subarray(0, 16))
  })

  it('differ by tenant and service', () => {
    const tokenize = createTokenizer(secrets)
    const mine = tokenize(scope, [PHONE]).toString('hex')
    expect(tokenize({ ...scope, tenant: 'org_2.live' }, [PHONE]).toString('hex')).not.toBe(mine)
    expect(tokenize({ ...scope, tenant: 'org_1.test' }, [PHONE]).toString('hex')).not.toBe(mine)
    expect(tokenize({ ...scope, service: 'telegram' }, [PHONE]).toString('hex')).not.toBe(mine)
  })

  it('cannot be made with a version nobody configured', () => {
    expect(() => createTokenizer(secrets)({ ...scope, version: '9' }, [PHONE])).toThrow(RangeError)
  })
})
