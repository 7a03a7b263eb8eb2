import { beforeEach, describe, expect, it } from 'vitest'
import { keyIdOf, partnerKeyOf } from '../../../schemas/feeds/seal.ts'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import { createPartners } from '../../../services/accounts/partners.ts'
import { createKeyRing } from '../../../services/lib/key-ring.ts'
import type { WorkspaceParts } from '../../../services/workspace/parts.ts'
import { modeOf, organizationOf, type Options } from '../../../services/workspace/options.ts'
import {
  createPartner, listPartners, revokePartner, rotatePartner,
} from '../../../services/workspace/partner-tasks.ts'
import { accessRules } from '../../../services/workspace/partner-topics.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'

const ring = createKeyRing({
  KEY_RING: { k1: Buffer.alloc(32, 7).toString('base64') }, KEY_ACTIVE: 'k1',
})

let parts: WorkspaceParts
let org: string
let made: unknown[]
beforeEach(async () => {
  const { redis } = memoryRedis()
  made = []
  parts = {
    organizations: createOrganizations(redis),
    partners: createPartners({ redis, ring, now: () => 1 }),
    makePartnerTopics: async (options: { partner: string, principal: string }) => {
      made.push(options)
      const rules = accessRules(options.partner, options.principal)
      return { submitted: 's', finished: 'f', rules, rulesCreated: false }
    },
  } as unknown as WorkspaceParts
  org = (await parts.organizations.create('Example')).id
})

const create = (options: Options = {}) =>
  createPartner(parts, { org, mode: 'live', name: 'acme', partitions: '4', ...options })

describe('a partner', () => {
  it('gets topics, rules of access and a key that is shown once', async () => {
    const shown = await create({ prices: '{"whatsapp":3500}' })
    expect(made).toEqual([{
      partner: 'acme', partitions: 4, principal: 'User:acme', trial: false,
    }])
    expect(shown).toMatchObject({
      partner: 'acme',
      mode: 'live',
      rules: [
        'User:acme write topic feeds.acme.submitted',
        'User:acme describe topic feeds.acme.submitted',
        'User:acme read topic feeds.acme.finished',
        'User:acme describe topic feeds.acme.finished',
        'User:acme read group partner.acme.*',
      ],
    })
    expect(String(shown['access'])).toContain('have no authorizer')
    const listed = await listPartners(parts, {})
    expect(JSON.stringify(listed)).not.toContain(String(shown['key']))
    expect(listed).toEqual({
      partners: [{
        name: 'acme',
        orgId: org,
        mode: 'live',
        pricesMicros: { whatsapp: 3_500 },
        partitions: 4,
        createdAt: '1970-01-01T00:00:00.001Z',
        revokedAt: null,
        keys: [{
          id: keyIdOf(partnerKeyOf(String(shown['key']))),
          createdAt: '1970-01-01T00:00:00.001Z',
          expiresAt: null,
        }],
      }],
    })
    expect(await listPartners(parts, { org: 'org_other' })).toEqual({ partners: [] })
  })

  it('signs in as no user of a stage', async () => {
    await expect(create({ name: 'verify' })).rejects.toThrow(
      "User:verify is the user of a stage at the brokers: name the partner's own by --principal.")
    expect(made).toEqual([])
    await create({ name: 'verify', principal: 'User:partner-verify' })
    expect(made).toMatchObject([{ partner: 'verify', principal: 'User:partner-verify' }])
  })

  it('has a name of its own, also after it was revoked', async () => {
    await create()
    expect(await revokePartner(parts, { name: 'acme' })).toMatchObject({ revoked: true })
    await expect(create()).rejects.toThrow('is or was a partner\'s')
    await expect(revokePartner(parts, { name: 'nobody' })).rejects.toThrow('no partner nobody')
    expect(made).toHaveLength(1)
  })

  it('gets a new key, beside which the old one works for the hours of grace', async () => {
    const first = await create()
    const rotated = await rotatePartner(parts, { name: 'acme', graceHours: '24' })
    expect(rotated).toMatchObject({ partner: 'acme', keys: [{}, { expiresAt: null }] })
    expect(rotated['key']).not.toBe(first['key'])
    const listed = JSON.stringify(await listPartners(parts, {}))
    expect(listed).toContain('"expiresAt":"1970-01-02T00:00:00.001Z"')
    expect(listed).not.toContain(String(rotated['key']))
    const last = await rotatePartner(parts, { name: 'acme', graceHours: '0' })
    expect(await parts.partners.keysOf('acme')).toEqual([partnerKeyOf(String(last['key']))])
  })

  it('gets no new key without hours of grace, nor when it does not send', async () => {
    await create()
    await expect(rotatePartner(parts, { name: 'acme', graceHours: '-1' }))
      .rejects.toThrow('--grace-hours')
    await expect(rotatePartner(parts, { name: 'nobody', graceHours: '1' }))
      .rejects.toThrow('no partner nobody')
    await revokePartner(parts, { name: 'acme' })
    await expect(rotatePartner(parts, { name: 'acme', graceHours: '1' }))
      .rejects.toThrow('no partner acme that sends')
  })

  it('is made on brokers without an authorizer for a trial only', async () => {
    await create({ trial: 'yes' })
    expect(made).toMatchObject([{ trial: true }])
  })

  it.each<Options>([
    { name: 'A' }, { partitions: '0' }, { partitions: '2.5' }, { partitions: '257' },
    { prices: '{"whatsapp":-1}' }, { prices: 'cheap' }, { mode: 'prod' }, { org: 'org_none' },
  ])('with %j is not made', async options => {
    await expect(create(options)).rejects.toThrow()
    expect(await parts.partners.list()).toEqual([])
  })
})

it('options name an organization and a mode that exist', async () => {
  expect(await organizationOf(parts, { org })).toBe(org)
  expect(modeOf({ mode: 'test' })).toBe('test')
  expect(() => modeOf({})).toThrow('--mode is one of live, test')
})
