import { expect, it } from 'vitest'
import { organizationTable } from '../../../services/workspace/list-organizations.ts'

it('organizations are a table with their balance and the time of their erasure', () => {
  const one = { id: 'org_1', name: 'Ann & Sons', availableUsd: '12.500000' }
  const organizations = [
    { ...one, createdAt: '2026-11-01T00:00:00.000Z', erasedAt: null },
    { ...one, createdAt: null, erasedAt: '2026-11-26T00:00:00.000Z' },
  ]
  expect(organizationTable({ organizations }).split('\n')).toEqual([
    'id     created                   available USD  erased                    name',
    'org_1  2026-11-01T00:00:00.000Z      12.500000  -                         Ann & Sons',
    'org_1                                12.500000  2026-11-26T00:00:00.000Z  Ann & Sons',
  ])
})
