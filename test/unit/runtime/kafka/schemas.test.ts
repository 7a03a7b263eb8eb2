import { describe, expect, it } from 'vitest'
import avro, { type Schema } from 'avsc'
import { createCodec, ownSchemas } from '../../../../services/runtime/kafka/registry.ts'

const { json, type } = ownSchemas().get('rows.retry-rows')!
const rows = {
  rows: [1, 2, 3],
  duplicates: [],
  canonicals: ['a', '', 'd"'],
  tokens: Buffer.alloc(0),
  rotatedTokens: null,
  waits: null,
}

it('a column of strings is readable if the registry returns its schema as a string', async () => {
  const { name, namespace, fields } = json as { name: string, namespace: string, fields: object[] }
  const later = { name: 'later', type: 'string' }
  const writer = avro.Type.forSchema(
    { type: 'record', name, namespace, fields: [later, ...fields] } as unknown as Schema)
  const codec = createCodec({ idOf: async () => 1, schemaOf: async () => writer })
  const decode = await codec.prepare('rows.retry-rows', 1)
  const bytes = writer.toBuffer({
    ...rows, later: 'x', canonicals: JSON.stringify(rows.canonicals),
  })
  expect({ ...decode(bytes) as object }).toEqual(rows)
})

describe('an Avro array', () => {
  // Its first fields are arrays of integers, the others are empty or null.
  const others = type.toBuffer({ ...rows, rows: [], canonicals: [] }).subarray(1)

  it('is decoded as it was encoded, and in blocks too', () => {
    expect({ ...type.fromBuffer(type.toBuffer(rows)) }).toEqual(rows)
    const [minusTwo, twoBytes, end] = [3, 4, 0]
    const blocks = Buffer.from([minusTwo, twoBytes, 2, 4, end])
    expect(type.fromBuffer(Buffer.concat([blocks, others])).rows).toEqual([1, 2])
  })

  const twoBillion = [0x80, 0xd0, 0xac, 0xf3, 0x0e]
  const minusTwoBillion = [0xff, 0xcf, 0xac, 0xf3, 0x0e]
  it.each([
    ['its first block', twoBillion],
    ['a later block', [2, 2, ...twoBillion]],
    ['a block of stated size', [...minusTwoBillion, 2]],
  ])('is rejected before an item is read if %s is longer than its bytes', (_of, start) => {
    const bytes = Buffer.from([...start, 0, 0])
    expect(() => type.fromBuffer(bytes)).toThrow(/invalid Avro array: \d+ items in \d+ bytes/)
  })
})
