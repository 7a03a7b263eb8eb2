import { beforeEach, describe, expect, it } from 'vitest'
import type { Options } from '../../../services/admin/command-line.ts'
import { UsageError } from '../../../services/runtime/platform/run-command.ts'
import { openWorkspace, type Workspace } from './workspace.ts'

let deps: Workspace['deps']
let org: string
let run: Workspace['run']
beforeEach(async () => { ({ deps, org, run } = await openWorkspace()) })

describe('an API key', () => {
  const create = (options: Options) => run('key create', { org, mode: 'live', ...options })

  it('is listed without its secret', async () => {
    const { id, secret } = await create({ mode: 'test', scopes: 'jobs:read' })
    const listed = await run('key list', { org })
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
    const fresh = await run('key roll', { org, key: String(id), graceHours: '1' })
    const { keys } = await run('key list', { org })
    expect(keys).toMatchObject([
      { id, replacedBy: fresh.id, expiresAt: fresh.replacedKeyExpiresAt },
      { id: fresh.id, replacedBy: '', expiresAt: null },
    ])
    expect(fresh.replacedKeyExpiresAt).toMatch(/Z$/)
  })

  it('is revoked and rolled by its id', async () => {
    const first = await create({})
    const created = await run('key roll', { org, key: String(first.id), graceHours: '1' })
    expect(created.replaces).toBe(first.id)
    await run('key revoke', { org, key: String(created.id) })
    const again = { org, key: String(created.id), graceHours: '1' }
    await expect(run('key roll', again)).rejects.toThrow(/has no active key/)
    await expect(run('key revoke', { org, key: 'key_x' })).rejects.toThrow(/has no key "key_x"/)
  })
})
