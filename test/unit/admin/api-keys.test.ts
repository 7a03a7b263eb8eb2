import { beforeEach, describe, expect, it } from 'vitest'
import { createApiKeys } from '../../../services/accounts/api-keys.ts'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import type { WorkspaceDeps } from '../../../services/admin/deps.ts'
import type { Options } from '../../../services/admin/command-line.ts'
import { UsageError } from '../../../services/runtime/platform/run-command.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'
import { commandOn } from '../../support/admin.ts'

const createKey = commandOn('key create')
const listApiKeys = commandOn('key list')
const revokeKey = commandOn('key revoke')
const rollKey = commandOn('key roll')

let deps: WorkspaceDeps
let org: string
beforeEach(async () => {
  const { redis } = memoryRedis()
  deps = {
    organizations: createOrganizations(redis), apiKeys: createApiKeys(redis),
  } as unknown as WorkspaceDeps
  org = (await deps.organizations.create('Example')).id
})

describe('an API key', () => {
  const create = (options: Options) => createKey(deps, { org, mode: 'live', ...options })

  it('is listed without its secret', async () => {
    const { id, secret } = await create({ mode: 'test', scopes: 'jobs:read' })
    const listed = await listApiKeys(deps, { org })
    expect(listed.keys).toMatchObject([
      { id, mode: 'test', scopes: ['jobs:read'], revokedAt: null },
    ])
    expect(JSON.stringify(listed)).not.toContain(secret)
  })

  it.each<Options>([
    { scopes: 'jobs:admin' }, { scopes: 'jobs:read,x' }, { scopes: '' }, { expires: 'soon' },
    { expires: '2020-01-01' },
    { mode: '' }, { org: '' },
  ])('with the options %j is not created', async options => {
    await expect(create(options)).rejects.toThrow(UsageError)
    expect(await deps.apiKeys.list(org)).toEqual([])
  })

  it('shows its networks and its end', async () => {
    const expires = '2999-01-31T12:00:00.000Z'
    expect(await create({ networks: '192.0.2.0/24, ::1', expires }))
      .toMatchObject({ networks: '192.0.2.0/24,::1', expiresAt: expires })
    expect(await create({})).toMatchObject({ networks: 'all', expiresAt: null })
  })

  it('that was rolled names its successor, and until when it works', async () => {
    const { id } = await create({})
    const fresh = await rollKey(deps, { org, key: String(id), graceHours: '1' })
    const { keys } = await listApiKeys(deps, { org })
    expect(keys).toMatchObject([
      { id, replacedBy: fresh.id, expiresAt: fresh.replacedKeyExpiresAt },
      { id: fresh.id, replacedBy: '', expiresAt: null },
    ])
    expect(fresh.replacedKeyExpiresAt).toMatch(/Z$/)
  })

  it('is revoked and rolled by its id', async () => {
    const first = await create({})
    const created = await rollKey(deps, { org, key: String(first.id), graceHours: '1' })
    expect(created.replaces).toBe(first.id)
    await revokeKey(deps, { org, key: String(created.id) })
    const again = { org, key: String(created.id), graceHours: '1' }
    await expect(rollKey(deps, again)).rejects.toThrow(/has no active key/)
    await expect(revokeKey(deps, { org, key: 'key_x' })).rejects.toThrow(/has no key "key_x"/)
  })
})
