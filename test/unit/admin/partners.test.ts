import { beforeEach, expect, it } from 'vitest'
import { deriveKeyId, parsePartnerKey } from '../../../schemas/feeds/seal.ts'
import type { Options } from '../../../services/admin/command-line.ts'
import { createPartner } from '../../../services/admin/partners.ts'
import { openWorkspace, type Workspace } from './workspace.ts'

let deps: Workspace['deps']
let org: string
let run: Workspace['run']
let created: unknown[]
beforeEach(async () => {
  created = []
  const createPartnerTopics = async (options: object) => {
    created.push(options)
    return 'no authorizer'
  }
  ;({ deps, org, run } = await openWorkspace({ topicPrefix: 'eu.', createPartnerTopics }))
})

const create = (options: Options = {}) =>
  createPartner(deps, { org, mode: 'live', name: 'acme', partitions: '4', ...options })

it('a partner gets topics, access rules and a key that no later command shows', async () => {
  const result = await create({ prices: '{"whatsapp":3500}' })
  expect(created).toMatchObject([{
    topics: [
      { name: 'feeds.acme.submitted', partitions: 4 },
      { name: 'feeds.acme.finished', partitions: 4 },
    ],
    rules: Array.from({ length: 5 }, () => ({ principal: 'User:acme' })),
    trial: false,
  }])
  expect(result).toMatchObject({
    submitted: 'eu.feeds.acme.submitted',
    finished: 'eu.feeds.acme.finished',
    access: expect.stringContaining('have no authorizer'),
    rules: [
      'User:acme write topic eu.feeds.acme.submitted',
      'User:acme describe topic eu.feeds.acme.submitted',
      'User:acme read topic eu.feeds.acme.finished',
      'User:acme describe topic eu.feeds.acme.finished',
      'User:acme read group eu.partner.acme.*',
    ],
  })
  const listed = await run('partner list', {})
  expect(JSON.stringify(listed)).not.toContain(String(result['key']))
  expect(listed).toMatchObject({
    partners: [{
      name: 'acme',
      orgId: org,
      pricesMicros: { whatsapp: 3_500 },
      partitions: 4,
      types: 'json',
      revokedAt: null,
      keys: [{ id: deriveKeyId(parsePartnerKey(String(result['key']))), expiresAt: null }],
    }],
  })
  expect(await run('partner list', { org: 'org_other' })).toEqual({ partners: [] })
  await run('partner types', { name: 'acme', form: 'text' })
  expect(await run('partner list', { org })).toMatchObject({ partners: [{ types: 'text' }] })
})

it('a partner cannot use the Kafka user of a stage', async () => {
  await expect(create({ name: 'verify' })).rejects.toThrow('User:verify is the Kafka user of a ' +
    'stage. Pass another principal for the partner: --principal <name>.')
  await create({ name: 'verify', principal: 'User:partner-verify', trial: 'yes' })
  const rules = Array.from({ length: 5 }, () => ({ principal: 'User:partner-verify' }))
  expect(created).toMatchObject([{ rules, trial: true }])
})

it('a partner gets results after it was revoked, unless its organization was erased', async () => {
  await create()
  const noteOf = async () => (await run('partner revoke', { name: 'acme' })).note
  expect(await noteOf())
    .toBe('Contacts in accepted jobs still get their results; nothing reads the others.')
  await deps.organizations.markErased(org)
  const { erasedAtMs = 0 } = await deps.organizations.find(org) ?? {}
  expect(await noteOf()).toBe(`Organization ${org} was erased on ` +
    `${new Date(erasedAtMs).toISOString()}: no contact of the partner gets a result any more.`)
})

it('a partner gets a new key while the old one remains valid for the hours of grace', async () => {
  const first = await create()
  const rotated = await run('partner rotate', { name: 'acme', graceHours: '24' })
  expect(rotated)
    .toMatchObject({ keys: [{ expiresAt: '1970-01-02T00:00:00.001Z' }, { expiresAt: null }] })
  expect(rotated['key']).not.toBe(first['key'])
  const last = await run('partner rotate', { name: 'acme', graceHours: '0' })
  expect(await deps.partners.keysOf('acme')).toEqual([parsePartnerKey(String(last['key']))])
})

it.each<readonly [command: string, options: Options, message: string]>([
  ['create', {}, 'belongs or belonged to a partner'],
  ['create', { name: 'A' }, 'name'],
  ['create', { name: 'b', partitions: '0' }, '--partitions must be a whole number'],
  ['create', { name: 'b', partitions: '2.5' }, '--partitions must be a whole number'],
  ['create', { name: 'b', partitions: '257' }, '--partitions must be a whole number'],
  ['create', { name: 'b', prices: '{"whatsapp":-1}' }, '--prices must be a JSON object'],
  ['create', { name: 'b', prices: 'cheap' }, '--prices must be a JSON object'],
  ['create', { name: 'b', mode: 'prod' }, '--mode must be one of'],
  ['create', { name: 'b', org: 'org_none' }, 'does not exist'],
  ['rotate', { name: 'acme', graceHours: '-1' }, '--grace-hours'],
  ['rotate', { name: 'acme', graceHours: '1' }, 'was revoked at 1970-01-01T00:00:00.001Z'],
  ['types', { name: 'acme', form: 'xml' }, '--form must be json or text, not "xml".'],
  ...[['rotate', { graceHours: '1' }], ['types', { form: 'json' }], ['revoke', {}]].map(
    ([command, options]) => [command as string, { name: 'unknown', ...options as Options },
      'the partner "unknown" does not exist'] as const),
])('"partner %s" with %o changes nothing beside a revoked partner', async (
  command, options, message
) => {
  await create()
  await run('partner revoke', { name: 'acme' })
  const before = await deps.partners.list()
  created = []
  await expect(command === 'create' ? create(options) : run(`partner ${command}`, options))
    .rejects.toThrow(message)
  expect(await deps.partners.list()).toEqual(before)
  expect(created).toEqual([])
})
