import { beforeEach, describe, expect, it } from 'vitest'
import { keyIdOf, partnerKeyOf } from '../../../schemas/feeds/seal.ts'
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

describe('a partner of bulk feeds', () => {
  it('gets topics, access rules and a key that no later command shows', async () => {
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
      partner: 'acme',
      mode: 'live',
      submitted: 'eu.feeds.acme.submitted',
      finished: 'eu.feeds.acme.finished',
      rules: [
        'User:acme write topic eu.feeds.acme.submitted',
        'User:acme describe topic eu.feeds.acme.submitted',
        'User:acme read topic eu.feeds.acme.finished',
        'User:acme describe topic eu.feeds.acme.finished',
        'User:acme read group eu.partner.acme.*',
      ],
    })
    expect(String(result['access'])).toContain('have no authorizer')
    const listed = await run('partner list', {})
    expect(JSON.stringify(listed)).not.toContain(String(result['key']))
    expect(listed).toEqual({
      partners: [{
        name: 'acme',
        orgId: org,
        mode: 'live',
        pricesMicros: { whatsapp: 3_500 },
        partitions: 4,
        types: 'json',
        createdAt: '1970-01-01T00:00:00.001Z',
        revokedAt: null,
        keys: [{
          id: keyIdOf(partnerKeyOf(String(result['key']))),
          createdAt: '1970-01-01T00:00:00.001Z',
          expiresAt: null,
        }],
      }],
    })
    expect(await run('partner list', { org: 'org_other' })).toEqual({ partners: [] })
  })

  it('cannot use the Kafka user of a stage', async () => {
    await expect(create({ name: 'verify' })).rejects.toThrow(
      'User:verify is the Kafka user of a stage. Pass another principal for the partner: ' +
      '--principal <name>.')
    expect(created).toEqual([])
    await create({ name: 'verify', principal: 'User:partner-verify', trial: 'yes' })
    const rules = Array.from({ length: 5 }, () => ({ principal: 'User:partner-verify' }))
    expect(created).toMatchObject([{ rules, trial: true }])
  })

  it('chooses whether its results have types', async () => {
    await create()
    expect(await run('partner types', { name: 'acme', form: 'text' }))
      .toMatchObject({ types: 'text' })
    expect(await run('partner list', {})).toMatchObject({ partners: [{ types: 'text' }] })
    await expect(run('partner types', { name: 'acme', form: 'xml' }))
      .rejects.toThrow('--form must be json or text, not "xml".')
    await expect(run('partner types', { name: 'unknown', form: 'json' }))
      .rejects.toThrow('the partner "unknown" does not exist')
  })

  it('keeps its name for itself after it was revoked', async () => {
    await create()
    expect(await run('partner revoke', { name: 'acme' })).toMatchObject({ revoked: true })
    await expect(create()).rejects.toThrow('belongs or belonged to a partner')
    await expect(run('partner revoke', { name: 'unknown' }))
      .rejects.toThrow('the partner "unknown" does not exist')
    expect(created).toHaveLength(1)
  })

  it('gets results after it was revoked, unless its organization was erased', async () => {
    await create()
    expect(await run('partner revoke', { name: 'acme' })).toMatchObject({
      note: 'Contacts in accepted jobs still get their results; nothing reads the others.',
    })
    await deps.organizations.markErased(org)
    const { erasedAtMs = 0 } = await deps.organizations.find(org) ?? {}
    expect(await run('partner revoke', { name: 'acme' })).toEqual({
      partner: 'acme',
      revoked: true,
      note: `Organization ${org} was erased on ${new Date(erasedAtMs).toISOString()}: no contact ` +
        'of the partner gets a result any more.',
    })
  })

  it('gets a new key while the old one remains valid for the hours of grace', async () => {
    const first = await create()
    const rotated = await run('partner rotate', { name: 'acme', graceHours: '24' })
    expect(rotated).toMatchObject({ partner: 'acme', keys: [{}, { expiresAt: null }] })
    expect(rotated['key']).not.toBe(first['key'])
    const listed = JSON.stringify(await run('partner list', {}))
    expect(listed).toContain('"expiresAt":"1970-01-02T00:00:00.001Z"')
    expect(listed).not.toContain(String(rotated['key']))
    const last = await run('partner rotate', { name: 'acme', graceHours: '0' })
    expect(await deps.partners.keysOf('acme')).toEqual([partnerKeyOf(String(last['key']))])
  })

  it('gets no new key with invalid hours of grace, or after it was revoked', async () => {
    await create()
    await expect(run('partner rotate', { name: 'acme', graceHours: '-1' }))
      .rejects.toThrow('--grace-hours')
    await expect(run('partner rotate', { name: 'unknown', graceHours: '1' }))
      .rejects.toThrow('the partner "unknown" does not exist')
    await run('partner revoke', { name: 'acme' })
    await expect(run('partner rotate', { name: 'acme', graceHours: '1' }))
      .rejects.toThrow('the partner "acme" was revoked at 1970-01-01T00:00:00.001Z')
  })

  it.each<Options>([
    { name: 'A' }, { partitions: '0' }, { partitions: '2.5' }, { partitions: '257' },
    { prices: '{"whatsapp":-1}' }, { prices: 'cheap' }, { mode: 'prod' }, { org: 'org_none' },
  ])('is not created with the options %j', async options => {
    await expect(create(options)).rejects.toThrow()
    expect(await deps.partners.list()).toEqual([])
  })
})
