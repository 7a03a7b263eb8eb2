import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { LINE_TYPES, REASONS, ROW_STATUSES } from '../../../schemas/api/verdicts.ts'

const guide = readFileSync(`${import.meta.dirname}/../../../deploy/docs/results.md`, 'utf8')
const named = new Set([...guide.matchAll(/`([\w-]+)`/g)].map(([, name]) => name))
const missing = (names: readonly string[]) => names.filter(name => !named.has(name))

it('the guide to results describes every value of the columns', () => {
  expect(missing([...REASONS, ...ROW_STATUSES, ...LINE_TYPES])).toEqual([])
})
