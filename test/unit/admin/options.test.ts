import { expect, it } from 'vitest'
import {
  organizationToChange, organizationToRead, parseMode,
} from '../../../services/admin/command-line.ts'

it('options accept only an organization and a mode that exist', async () => {
  const erased = { id: 'org_3', erasedAtMs: Date.UTC(2026, 10, 26) }
  const organizations = {
    find: async (id: string) => [{ id: 'org_1' }, erased].find(one => one.id === id),
  } as never
  expect(await organizationToChange({ organizations }, { org: 'org_1' })).toBe('org_1')
  await expect(organizationToChange({ organizations }, { org: 'org_2' }))
    .rejects.toThrow('organization "org_2" does not exist')
  await expect(organizationToChange({ organizations }, { org: 'org_3' }))
    .rejects.toThrow('organization org_3 was erased on 2026-11-26T00:00:00.000Z; ')
  expect(await organizationToRead({ organizations }, { org: 'org_3' })).toBe('org_3')
  await expect(organizationToRead({ organizations }, { org: 'org_2' }))
    .rejects.toThrow('organization "org_2" does not exist')
  expect(parseMode({ mode: 'test' })).toBe('test')
  expect(() => parseMode({})).toThrow('--mode must be one of live, test, not ""')
})
