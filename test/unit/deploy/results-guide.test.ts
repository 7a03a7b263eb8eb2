import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { listColumns, SERVICE_DEFINITIONS } from '../../../services/jobs/results/columns.ts'
import { LINE_TYPES, REASONS, ROW_STATUSES } from '../../../schemas/api/verdicts.ts'
import { SERVICE_SLUGS } from '../../../services/topology.ts'

const guide = readFileSync(`${import.meta.dirname}/../../../deploy/docs/results.md`, 'utf8')
const named = new Set([...guide.matchAll(/`([\w-]+)`/g)].map(([, name]) => name))
const missing = (names: readonly string[]) => names.filter(name => !named.has(name))

describe('the guide to results', () => {
  it('describes every column of every service', () => {
    expect(missing(SERVICE_SLUGS.flatMap(slug => listColumns(slug, { ids: true })))).toEqual([])
    expect(missing(Object.keys(SERVICE_DEFINITIONS))).toEqual([])
  })

  it('describes every value of the columns', () => {
    expect(missing([...REASONS, ...ROW_STATUSES, ...LINE_TYPES])).toEqual([])
  })
})
