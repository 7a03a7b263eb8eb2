import { createDecipheriv, hkdfSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  FeedSealError, keyIdIn, deriveKeyId, openContact, openResult, parsePartnerKey, deriveResultId,
  sealContact, sealResult, textOfPartnerKey, type ContactPlace, type FeedCells,
  type ResultPlace,
} from '../../../schemas/feeds/seal.ts'

/** Bytes in hexadecimal. */
type Sealed = { readonly salt: string, readonly sealed: string }
type ResultId = {
  readonly partner: string
  readonly partition: number
  readonly offset: number
  readonly resultId: string
}

const file = new URL('../../../schemas/feeds/vectors.json', import.meta.url)
const vectors = JSON.parse(readFileSync(file, 'utf8')) as {
  readonly key: string
  readonly keyHex: string
  readonly keyId: string
  readonly contacts: readonly (ContactPlace & Sealed & { readonly input: string })[]
  readonly resultIds: readonly ResultId[]
  readonly results: readonly (ResultPlace & Sealed & { readonly cells: FeedCells })[]
}
const key = Buffer.from(vectors.keyHex, 'hex')
const hex = (text: string) => Buffer.from(text, 'hex')

describe('the test vectors', () => {
  it('document the format of a key', () => {
    expect(parsePartnerKey(vectors.key)).toEqual(key)
    expect(textOfPartnerKey(key)).toBe(vectors.key)
    expect(deriveKeyId(key)).toBe(vectors.keyId)
  })

  it.each(vectors.contacts)('seal the contact $reference', vector => {
    const { input, salt, sealed, ...binding } = vector
    expect(sealContact(key, binding, input, hex(salt)).toString('hex')).toBe(sealed)
    expect(openContact([key], binding, hex(sealed))).toBe(input)
  })

  it.each(vectors.results)('seal the result of $reference', vector => {
    const { cells, salt, sealed, ...binding } = vector
    expect(sealResult(key, binding, cells, hex(salt)).toString('hex')).toBe(sealed)
    expect(openResult([key], binding, hex(sealed))).toEqual(cells)
  })

  it.each(vectors.resultIds)('name the contact at $partition:$offset', vector => {
    expect(deriveResultId(vector.partner, vector.partition, vector.offset)).toBe(vector.resultId)
    expect(deriveResultId(vector.partner, vector.partition, BigInt(vector.offset)))
      .toBe(vector.resultId)
  })

  it('can be decrypted by following the document, without our code', () => {
    const [vector] = vectors.contacts
    const { partner, partition, sender, sequence, sentAt } = vector!
    const { reference, service, countryCode, forceFresh } = vector!
    const fields = [
      'feed contact 2', partner, `${partition}`, sender, `${sequence}`, `${sentAt}`,
      reference, service, countryCode, forceFresh ? '1' : '0',
    ]
    const aad = Buffer.concat(fields.flatMap(field => {
      const length = Buffer.alloc(4)
      length.writeUInt32BE(Buffer.byteLength(field))
      return [length, Buffer.from(field)]
    }))
    const sealed = hex(vector!.sealed)
    const keyId = Buffer.from(hkdfSync('sha256', key, '', 'feed key id', 4))
    expect(sealed.subarray(0, 5)).toEqual(Buffer.concat([Buffer.of(2), keyId]))
    const derived = Buffer.from(hkdfSync('sha256', key, sealed.subarray(5, 37), 'feed contact', 44))
    const decipher = createDecipheriv('aes-256-gcm', derived.subarray(0, 32), derived.subarray(32))
    decipher.setAAD(aad).setAuthTag(sealed.subarray(-16))
    expect(decipher.update(sealed.subarray(37, -16)).toString()).toBe(vector!.input)
    expect(decipher.final()).toHaveLength(0)
  })
})

describe('a seal', () => {
  const binding = {
    partner: 'acme',
    partition: 1,
    sender: 's',
    sequence: 1,
    sentAt: 1,
    reference: 'a',
    service: 'whatsapp',
    countryCode: '',
    forceFresh: false,
  }
  const sealed = sealContact(key, binding, 'input')

  it.each([
    { ...binding, partner: 'acm' }, { ...binding, reference: 'b' },
    { ...binding, service: 'telegram' },
    { ...binding, countryCode: 'US' }, { ...binding, forceFresh: true },
    { ...binding, partition: 2 }, { ...binding, sender: 't' }, { ...binding, sequence: 2 },
    { ...binding, sentAt: 2 },
    { ...binding, reference: 'aw', service: 'hatsapp' },
  ])('opens nowhere else: %j', other => {
    expect(() => openContact([key], other, sealed)).toThrow(FeedSealError)
  })

  it('opens with no other key, and not when a bit was changed or bytes are missing', () => {
    expect(() => openContact([Buffer.alloc(32)], binding, sealed)).toThrow(FeedSealError)
    for (const at of [0, 1, 5, 36, 37, sealed.length - 1]) {
      const changed = Buffer.from(sealed)
      changed[at]! ^= 1
      expect(() => openContact([key], binding, changed)).toThrow(FeedSealError)
    }
    expect(() => openContact([key], binding, sealed.subarray(0, 52))).toThrow(FeedSealError)
    expect(() => openContact([key], binding, Buffer.alloc(0))).toThrow(FeedSealError)
  })

  it('names its key, by which it is found among others', () => {
    expect(keyIdIn(sealed)).toBe(vectors.keyId)
    expect(openContact([Buffer.alloc(32), key], binding, sealed)).toBe('input')
  })

  it('of a contact is none of a result', () => {
    const result = { partner: 'acme', reference: 'a', resultId: 'res_1' }
    expect(() => openResult([key], result, sealed)).toThrow(FeedSealError)
  })

  it('never comes out twice the same', () => {
    expect(sealContact(key, binding, 'input')).not.toEqual(sealed)
  })
})

it.each(['', 'vjf_', 'vjf_abc', `vjx_${'A'.repeat(43)}`, `${vectors.key}A`])(
  'a text that is no key %j', text => {
    expect(() => parsePartnerKey(text)).toThrow(FeedSealError)
  })
