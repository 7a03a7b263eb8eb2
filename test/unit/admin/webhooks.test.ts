import { beforeEach, describe, expect, it } from 'vitest'
import { OrganizationErasedError } from '../../../services/accounts/organization-keys.ts'
import { UsageError } from '../../../services/runtime/platform/run-command.ts'
import type { Options } from '../../../services/admin/command-line.ts'
import { openWorkspace, type Workspace } from './workspace.ts'

const url = 'https://hooks.example.com/in'

let deps: Workspace['deps']
let org: string
let run: Workspace['run']
beforeEach(async () => { ({ deps, org, run } = await openWorkspace()) })

const create = (options: Options = {}) =>
  run('webhook-endpoint create', { org, mode: 'live', url, ...options })
const list = async (mode = 'live') => (await run('webhook-endpoint list', { org, mode }))
  .endpoints as readonly { readonly id: string, readonly enabled: boolean }[]

describe('a webhook endpoint of the workspace', () => {
  it('is created with a secret that the list omits', async () => {
    const made = await create({ events: 'job.failed, balance.low', description: 'mine' })
    expect(made).toMatchObject({
      url,
      events: 'job.failed,balance.low',
      description: 'mine',
      enabled: true,
      secret: expect.stringMatching(/^whsec_/),
    })
    expect(JSON.stringify(await list())).not.toContain('whsec_')
    expect(await list()).toMatchObject([{ id: made.id, enabled: true }])
    expect(await list('test')).toEqual([])
    expect((await create()).events).toBe('*')
  })

  it('of an erased organization is listed until its key is deleted', async () => {
    await create()
    await deps.organizations.markErased(org)
    expect(await list()).toHaveLength(1)
    Object.assign(deps.endpoints, { list: () => Promise.reject(new OrganizationErasedError(org)) })
    expect(await list()).toEqual([])
    Object.assign(deps.endpoints, { list: () => Promise.reject(new Error('another')) })
    await expect(list()).rejects.toThrow('another')
  })

  it('is disabled, enabled, rotated and deleted by its id', async () => {
    const { id, secret } = await create()
    const options = { org, mode: 'live', endpoint: String(id) }
    expect(await run('webhook-endpoint disable', options)).toMatchObject({ enabled: false })
    expect(await run('webhook-endpoint enable', options)).toMatchObject({ enabled: true })
    const rotated = await run('webhook-endpoint rotate', options)
    expect(rotated.secret).toMatch(/^whsec_/)
    expect(rotated.secret).not.toBe(secret)
    expect(await run('webhook-endpoint delete', options)).toEqual({ id, deleted: true })
    await expect(run('webhook-endpoint delete', options)).rejects.toThrow('webhook-endpoint')
  })

  it.each<Options>([
    { url: 'http://hooks.example.com/' }, { url: 'https://127.0.0.1/' }, { url: '' },
    { events: 'job.done' }, { events: '' }, { mode: 'prod' }, { org: 'org_none' },
  ])('is not created with the options %j', async options => {
    await expect(create(options)).rejects.toThrow(UsageError)
    expect(await list()).toEqual([])
  })
})
