import { beforeEach, expect, it } from 'vitest'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import type { WorkspaceDeps } from '../../../services/admin/deps.ts'
import { UsageError } from '../../../services/runtime/platform/run-command.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'
import { commandOn } from '../../support/admin.ts'

const createOrganization = commandOn('org create')

let deps: WorkspaceDeps
beforeEach(() => {
  const { redis } = memoryRedis()
  deps = { organizations: createOrganizations(redis) } as unknown as WorkspaceDeps
})

it('an organization is not created while a process lacks the root key of its keys', async () => {
  const created: string[] = []
  const refusing = {
    ...deps,
    organizations: { ...deps.organizations, create: async (name: string) => created.push(name) },
    organizationKeys: { create: () => Promise.reject(new UsageError('ingest.a lacks that key')) },
  } as unknown as WorkspaceDeps
  await expect(createOrganization(refusing, { name: 'Example' })).rejects.toThrow('ingest.a')
  expect(created).toEqual([])
})

it('an organization whose new keys Redis has lost is named, and no id is answered', async () => {
  const losing = {
    ...deps, organizationKeys: { create: async () => {}, store: { read: async () => [] } },
  } as unknown as WorkspaceDeps
  await expect(createOrganization(losing, { name: 'Example' }))
    .rejects.toThrow(/^Redis lost the keys of organization org_\w+ meanwhile/)
})
