import { beforeEach, describe, expect, it } from 'vitest'
import { OrganizationErasedError } from '../../../services/accounts/organization-key-store.ts'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import { createWebhookEndpoints } from '../../../services/webhooks/endpoints.ts'
import { UsageError } from '../../../services/runtime/platform/run-command.ts'
import type { WorkspaceDeps } from '../../../services/admin/deps.ts'
import type { Options } from '../../../services/admin/command-line.ts'
import { organizationKeysOf } from '../../support/keys/organization-keys.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'
import { commandOn } from '../../support/admin.ts'

const createEndpoint = commandOn('webhook-endpoint create')
const listEndpoints = commandOn('webhook-endpoint list')
const disableEndpoint = commandOn('webhook-endpoint disable')
const enableEndpoint = commandOn('webhook-endpoint enable')
const rotateEndpoint = commandOn('webhook-endpoint rotate')
const deleteEndpoint = commandOn('webhook-endpoint delete')

const url = 'https://hooks.example.com/in'

let deps: WorkspaceDeps
let org: string
beforeEach(async () => {
  const { redis } = memoryRedis()
  deps = {
    organizations: createOrganizations(redis),
    endpoints: createWebhookEndpoints({
      redis, keys: organizationKeysOf(1), sleep: async () => {},
    }),
    webhookRules: { allowHttp: false, allowLoopback: false },
  } as unknown as WorkspaceDeps
  org = (await deps.organizations.create('Example')).id
})

const create = (options: Options = {}) =>
  createEndpoint(deps, { org, mode: 'live', url, ...options })
const list = async (mode = 'live') => (await listEndpoints(deps, { org, mode }))
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
    expect(await disableEndpoint(deps, options)).toMatchObject({ enabled: false })
    expect(await enableEndpoint(deps, options)).toMatchObject({ enabled: true })
    const rotated = await rotateEndpoint(deps, options)
    expect(rotated.secret).toMatch(/^whsec_/)
    expect(rotated.secret).not.toBe(secret)
    expect(await deleteEndpoint(deps, options)).toEqual({ id, deleted: true })
    await expect(deleteEndpoint(deps, options)).rejects.toThrow('webhook-endpoint')
  })

  it.each<Options>([
    { url: 'http://hooks.example.com/' }, { url: 'https://127.0.0.1/' }, { url: '' },
    { events: 'job.done' }, { events: '' }, { mode: 'prod' }, { org: 'org_none' },
  ])('is not created with the options %j', async options => {
    await expect(create(options)).rejects.toThrow(UsageError)
    expect(await list()).toEqual([])
  })
})
