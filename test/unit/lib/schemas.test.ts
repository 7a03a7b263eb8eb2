import { describe, expect, it } from 'vitest'
import type { Schema } from 'avsc'
import { ownSchema, ownSchemas, typeOf } from '../../../services/lib/schemas.ts'
import { topology } from '../../../services/topology.ts'

describe('our own schemas', () => {
  it('have a subject for every topic, and one for the sealed rows of those that carry any', () => {
    const subjects = [...ownSchemas().keys()]
    for (const topic of Object.keys(topology.topics)) expect(subjects).toContain(`${topic}-value`)
    expect(subjects.filter(subject => subject.endsWith('-rows'))).toEqual([
      'rows.finished-rows', 'rows.later-rows', 'rows.missed-rows', 'rows.normalized-rows',
      'rows.submitted-rows',
    ])
  })

  it('are found by subject, and nothing else is', () => {
    expect(ownSchema('job.keys-value').json).toMatchObject({ name: 'Keys' })
    expect(() => ownSchema('job.keys')).toThrow(TypeError)
  })
})

describe('a column of texts', () => {
  const columns = (texts: object | string, more: readonly object[] = []) => typeOf({
    type: 'record',
    name: 'Columns',
    fields: [
      ...more,
      { name: 'one', type: texts },
      { name: 'other', type: ['null', texts], default: null },
    ],
  } as unknown as Schema)
  const texts = { type: 'string', logicalType: 'texts' }

  it('is read by another version, though the registry gives its writer as plain text', () => {
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
