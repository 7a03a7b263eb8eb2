import { describe, expect, it } from 'vitest'
import {
  canonicalText, extendChain, hashAfter, CHAIN_START, createHeadsCodec,
} from '../../../services/money/journal-chain.ts'
import type { Journal } from '../../../schemas/types.ts'
import { messageKeysOf } from '../../support/keys/signed.ts'

const entry = (seq: number, change: Partial<Journal> = {}): Journal => ({
  tenant: 'org_1.live',
  seq,
  entryId: `top-${seq}`,
  type: 'topup',
  job: '',
  amountMicros: 5,
  chargeMicros: 0,
  availableMicros: 5 * seq,
  reservedMicros: 0,
  chargedMicros: 0,
  fundedMicros: 5 * seq,
  at: 1_700_000_000_000,
  reason: 'gift',
  header: null,
  ...change,
})

describe('the chain of the journal', () => {
  it('has a text and a first hash that never change', () => {
    expect(canonicalText(entry(1, { header: Buffer.from('sealed') }))).toBe(
      '[1,"org_1.live",1,"top-1","topup","",5,0,5,0,0,5,1700000000000,"gift",' +
      '"c9d0036bed6744bcdf692fc980d8717d7e5f5a4f4e8266b4a84982602fb1cd09"]')
    expect(extendChain(CHAIN_START, entry(1)).hash)
      .toBe('b4674e6439d9c541132e369cd11da5520794f7ea27faf92f8b789f6b8d8180bb')
  })

  it('depends on every field and on the entry before', () => {
    const changes: Partial<Journal>[] = [
      { tenant: 'x' }, { seq: 2 }, { entryId: 'x' }, { type: 'adjust' }, { job: 'x' },
      { amountMicros: 6 }, { chargeMicros: 1 }, { availableMicros: 6 }, { reservedMicros: 1 },
      { chargedMicros: 1 }, { fundedMicros: 6 }, { at: 1 }, { reason: 'x' },
      { header: Buffer.from('x') }, { header: Buffer.from('y') },
    ]
    const hashes = [entry(1), ...changes.map(change => entry(1, change))]
      .map(one => hashAfter(CHAIN_START.hash, canonicalText(one)))
    const later = hashAfter(hashes[0]!, canonicalText(entry(1)))
    expect(new Set([...hashes, later]).size).toBe(17)
  })

  const headOf = (...seqs: readonly number[]) =>
    seqs.reduce((head, seq) => extendChain(head, entry(seq)), CHAIN_START)

  it('is the same though entries are repeated', () => {
    expect(headOf(1, 1, 2, 1, 3, 3)).toEqual(headOf(1, 2, 3))
    expect(headOf(1, 2, 3)).toMatchObject({ seq: 3, missing: [] })
  })

  it('continues after gaps, and its head names what was missing', () => {
    const texts = [3, 4, 7].map(seq => canonicalText(entry(seq)))
    expect(headOf(3, 4, 7)).toEqual({
      seq: 7, hash: texts.reduce(hashAfter, CHAIN_START.hash), missing: [[1, 2], [5, 6]],
    })
  })
})

const codec = createHeadsCodec(messageKeysOf())
const heads = {
  at: 1_700_000_000_000,
  tenants: [{ tenant: 'org_1.live', seq: 7, hash: 'abc', missing: [[3, 4]] as const }],
}

it('heads of the journal are signed JSON in one line, however its fields are ordered', () => {
  const text = codec.encode(heads)
  expect(text).not.toContain('\n')
  expect(JSON.parse(text)).toEqual({ version: 1, ...heads, mac: expect.stringMatching(/^1:.+=$/) })
  expect(codec.decode(text)).toMatchObject(heads)
  const { version, at, tenants, mac } = JSON.parse(text)
  const [{ tenant, seq, hash, missing }] = tenants
  const reordered = { mac, tenants: [{ missing, hash, seq, tenant }], at, version }
  expect(codec.decode(JSON.stringify(reordered, undefined, 1))).toMatchObject(heads)
})

it('heads of another hand, or that were changed or cut, are not authentic', () => {
  const text = codec.encode(heads)
  const others = [
    '', 'null', '[]', '{}', '{"version":1,"tenants":[null]}', text.slice(0, -1),
    text.replace('"seq":7', '"seq":6'), text.replace('"at":17', '"at":16'),
    text.replace('abc', 'abd'), text.replace('[3,4]', '[3,5]'),
    text.replace('[3,4]', ''), text.replace('org_1', 'org_2'),
    text.replace('"version":1', '"version":2'), text.replace('"mac":"1:', '"mac":"2:'),
    JSON.stringify({ version: 1, at: heads.at, tenants: [], mac: JSON.parse(text).mac }),
    createHeadsCodec(messageKeysOf(), 'proven journal head').encode(heads),
    createHeadsCodec({
      MESSAGE_KEYS: { 1: Buffer.alloc(32, 2).toString('base64') }, MESSAGE_KEY_ACTIVE: '1',
    }).encode(heads),
  ]
  expect(others.map(other => codec.decode(other))).toEqual(others.map(() => undefined))
})
