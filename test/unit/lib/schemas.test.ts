import { describe, expect, it } from 'vitest'
import { ownSchema, ownSchemas } from '../../../services/lib/schemas.ts'
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
