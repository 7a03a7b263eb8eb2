import { describe, expect, it } from 'vitest'
import type { Schema } from 'avsc'
import { ownSchema, ownSchemas, avroTypeOf } from '../../../../services/runtime/kafka/registry.ts'
import { topology } from '../../../../services/topology.ts'

describe('the local schemas', () => {
  it('have a subject per topic, and one for the sealed rows of a topic', () => {
    const subjects = [...ownSchemas().keys()]
    for (const topic of Object.keys(topology.topics)) expect(subjects).toContain(`${topic}-value`)
    expect(subjects.filter(subject => subject.endsWith('-rows'))).toEqual([
      'rows.completed-rows', 'rows.normalized-rows', 'rows.retry-rows', 'rows.submitted-rows',
      'rows.to-verify-rows',
    ])
  })

  it('are found by subject only', () => {
    expect(ownSchema('job.keys-value').json).toMatchObject({ name: 'Keys' })
    expect(() => ownSchema('job.keys')).toThrow(TypeError)
  })
})

describe('a column of strings', () => {
  const columns = (texts: object | string, more: readonly object[] = []) => avroTypeOf({
    type: 'record',
    name: 'Columns',
    fields: [
      ...more,
      { name: 'one', type: texts },
      { name: 'other', type: ['null', texts], default: null },
    ],
  } as unknown as Schema)
  const texts = { type: 'string', logicalType: 'texts' }

  it('is readable if the registry returns its schema without the logical type', () => {
    const reader = columns(texts, [{ name: 'later', type: 'string', default: 'x' }])
    for (const other of [null, [], ['c', 'd"']]) {
      const value = { one: ['a', ''], other }
      const bytes = columns(texts).toBuffer(value)
      for (const writer of [columns(texts), columns('string')]) {
        const read = reader.fromBuffer(bytes, reader.createResolver(writer)) as object
        expect({ ...read }).toEqual({ later: 'x', ...value })
      }
    }
  })
})

describe('an Avro array', () => {
  const lists = avroTypeOf({ type: 'array', items: { type: 'array', items: 'int' } })

  it('is decoded as it was encoded, by other versions and in blocks too', () => {
    const value = [[1, 2, 3], [], [-1]]
    const bytes = lists.toBuffer(value)
    expect(lists.fromBuffer(bytes)).toEqual(value)
    const reader = avroTypeOf({ type: 'array', items: { type: 'array', items: 'long' } })
    expect(reader.fromBuffer(bytes, reader.createResolver(lists))).toEqual(value)
    const [minusTwo, twoBytes, end] = [3, 4, 0]
    const ints = avroTypeOf({ type: 'array', items: 'int' })
    expect(ints.fromBuffer(Buffer.from([minusTwo, twoBytes, 2, 4, end]))).toEqual([1, 2])
  })

  it.each([
    ['its first block', []], ['a later block', [2, 2, 2]], ['a block of stated size', [1, 2]],
  ])('is rejected before an item is read if %s is longer than its bytes', (_of, before) => {
    const twoBillion = [0x80, 0xd0, 0xac, 0xf3, 0x0e]
    const bytes = Buffer.from([...before, ...twoBillion, 0, 0])
    expect(() => lists.fromBuffer(bytes)).toThrow(/invalid Avro array: \d+ items in \d+ bytes/)
  })
})
