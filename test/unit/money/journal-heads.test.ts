import { expect, it } from 'vitest'
import { createHeadsCodec } from '../../../services/money/journal-chain.ts'
import { messageKeysOf } from '../../support/keys/signed.ts'

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
