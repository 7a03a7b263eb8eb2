import { beforeEach, expect, it } from 'vitest'
import { OrganizationErasedError } from '../../../services/accounts/organization-keys.ts'
import type { Options } from '../../../services/admin/command-line.ts'
import { UsageError } from '../../../services/runtime/platform/run-command.ts'
import { openOn, runCommand } from '../../support/admin.ts'
import { openWorkspace, type Workspace } from './workspace.ts'

const url = 'https://hooks.example.com/in'
let deps: Workspace['deps']
let org: string
let run: Workspace['run']
beforeEach(async () => {
  ({ deps, org, run } = await openWorkspace())
  await run('person add', { org, email: 'owner@example.com', role: 'owner' })
})
const listEndpoints = async (mode = 'live') =>
  (await run('webhook-endpoint list', { org, mode })).endpoints

it('an API key is created, listed without its secret, rolled and revoked', async () => {
  const expires = '2999-01-31T12:00:00.000Z'
  const networks = '192.0.2.0/24, ::1'
  const { id, secret, ...made } = await run('key create', { org, networks, expires })
  expect(made).toMatchObject({ networks: '192.0.2.0/24,::1', expiresAt: expires })
  const rolled = await run('key roll', { org, key: String(id), graceHours: '1' })
  expect(rolled.replaces).toBe(id)
  const { keys } = await run('key list', { org })
  expect(keys).toMatchObject([
    { id, replacedBy: rolled.id, expiresAt: rolled.replacedKeyExpiresAt, revokedAt: null },
    { id: rolled.id, replacedBy: '', expiresAt: rolled.expiresAt },
  ])
  expect(JSON.stringify(keys)).not.toContain(secret)
  const options = { org, key: String(rolled.id), graceHours: '1' }
  await run('key revoke', { org, key: options.key })
  await expect(run('key roll', options)).rejects.toThrow(/has no active key/)
  expect(await run('key create', { org, mode: 'test', scopes: 'jobs:read' }))
    .toMatchObject({ mode: 'test', scopes: 'jobs:read', networks: 'all', expiresAt: null })
})

it('a person is added, changed, signed out and removed by the address in any case', async () => {
  const made = await run('person add', { org, email: 'ann@example.com', role: 'finance' })
  const ann = { org, email: ' ANN@example.com ' }
  expect(await run('person change', { ...ann, role: 'read-only' }))
    .toMatchObject({ id: made.id, role: 'read-only', createdBy: 'operator', hasSignedIn: false })
  await run('person sign-out', ann)
  expect(await deps.people.find(org, String(made.id))).toMatchObject({ generation: 1 })
  expect(await run('person remove', ann))
    .toEqual({ id: made.id, email: 'ann@example.com', removed: true })
  expect(await run('person list', { org })).toMatchObject({ people: [{ role: 'owner' }] })
})

it('a webhook endpoint is created with a secret that no later command shows', async () => {
  const made = await run('webhook-endpoint create', {
    org, url, events: 'job.failed, balance.low', description: 'mine',
  })
  expect(made).toMatchObject({ url, events: 'job.failed,balance.low', description: 'mine' })
  const options = { org, mode: 'live', endpoint: String(made.id) }
  expect(await run('webhook-endpoint disable', options)).toMatchObject({ enabled: false })
  expect(await run('webhook-endpoint enable', options)).toMatchObject({ enabled: true })
  expect(JSON.stringify(await listEndpoints())).not.toContain('whsec_')
  expect(await listEndpoints('test')).toEqual([])
  const rotated = await run('webhook-endpoint rotate', options)
  expect(rotated.secret).toMatch(/^whsec_/)
  expect(rotated.secret).not.toBe(made.secret)
  expect(await run('webhook-endpoint delete', options)).toEqual({ id: made.id, deleted: true })
  await expect(run('webhook-endpoint delete', options)).rejects.toThrow('has no webhook endpoint')
})

it('endpoints of an erased organization are listed until its key is deleted', async () => {
  await run('webhook-endpoint create', { org, url })
  await deps.organizations.markErased(org)
  expect(await listEndpoints()).toHaveLength(1)
  Object.assign(deps.endpoints, { list: () => Promise.reject(new OrganizationErasedError(org)) })
  expect(await listEndpoints()).toEqual([])
  Object.assign(deps.endpoints, { list: () => Promise.reject(new Error('another')) })
  await expect(listEndpoints()).rejects.toThrow('another')
})

it.each<readonly [command: string, options: Options, message: string]>([
  ['key create', { scopes: 'jobs:read,x' }, '--scopes must be a list of'],
  ['key create', { scopes: '' }, '--scopes must be a list of'],
  ['key create', { expires: 'soon' }, '--expires must be a time like'],
  ['key create', { expires: '2020-01-01' }, 'in the past'],
  ['key create', { mode: '' }, '--mode must be one of'],
  ['key create', { org: '' }, 'does not exist'],
  ['key revoke', { key: 'key_x' }, 'has no key "key_x"'],
  ['key roll', { key: 'key_x', graceHours: '-1' }, '--grace-hours must be a number'],
  ['person add', { email: 'owner@example.com', role: 'owner' }, 'is a member already'],
  ['person add', { email: 'x', role: 'owner' }, 'is not an e-mail address'],
  ['person add', { email: 'a@example.com', role: 'root' },
    '--role must be one of owner, developer, finance, read-only, not "root"'],
  ['person remove', { email: 'owner@example.com' }, 'the last owner'],
  ['person remove', { email: 'a@example.com' }, 'has no person "a@example.com"'],
  ['webhook-endpoint create', { url: 'http://hooks.example.com/' }, '--url is not an acceptable'],
  ['webhook-endpoint create', { url: 'https://127.0.0.1/' }, '--url is not an acceptable'],
  ['webhook-endpoint create', { url, events: 'job.done' }, '--events must be a list of'],
  ['webhook-endpoint create', { url, events: '' }, '--events must be a list of'],
])('%s with %o changes nothing, and says why: %s', async (command, options, message) => {
  const everything = async () =>
    [await deps.apiKeys.list(org), await deps.people.list(org), await listEndpoints()]
  const before = await everything()
  const refused = run(command, { org, ...options })
  await expect(refused).rejects.toThrow(UsageError)
  await expect(refused).rejects.toThrow(message)
  expect(await everything()).toEqual(before)
})

it('a change that is only in Redis comes with a warning, unlike a look', async () => {
  const open = openOn({ ...deps, accounts: { areShipped: async () => false } })
  const ann = '--email ann@example.com'
  for (const [words, warns] of [
    [`person add ${ann} --role finance`, true], [`person change ${ann} --role owner`, true],
    [`person sign-out ${ann}`, true], ['person list', false], [`person remove ${ann}`, true],
    ['key create', true], ['key list', false],
  ] as const) {
    const printed = await runCommand(`${words} --org ${org}`, { open })
    expect([words, printed.includes('in Redis but not yet in Kafka')]).toEqual([words, warns])
  }
})
