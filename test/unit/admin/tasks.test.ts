import { beforeEach, describe, expect, it } from 'vitest'
import { createApiKeys } from '../../../services/accounts/api-keys.ts'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import type { WorkspaceDeps } from '../../../services/admin/deps.ts'
import type { Options } from '../../../services/admin/options.ts'
import * as tasks from '../../../services/admin/tasks.ts'
import { UsageError } from '../../../services/platform/run-command.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'

const BALANCE = {
  availableMicros: 12_500_000,
  reservedMicros: 0,
  chargedMicros: 0,
  fundedMicros: 12_500_000,
  seq: 1,
}

let deps: WorkspaceDeps
let org: string
let movements: unknown[]
beforeEach(async () => {
  const { redis } = memoryRedis()
  movements = []
  deps = {
    organizations: createOrganizations(redis),
    apiKeys: createApiKeys(redis),
    wallet: {
      admit: async () => {},
      topUp: async (...movement: unknown[]) => {
        movements.push(movement)
        return { kind: 'known', entry: undefined }
      },
      balance: async () => BALANCE,
    },
  } as unknown as WorkspaceDeps
  org = (await deps.organizations.create('Example')).id
})

it('an organization is not created while a process lacks the root key of its keys', async () => {
  const created: string[] = []
  const refusing = {
    ...deps,
    organizations: { ...deps.organizations, create: async (name: string) => created.push(name) },
    organizationKeys: { create: () => Promise.reject(new UsageError('ingest.a lacks that key')) },
  } as unknown as WorkspaceDeps
  await expect(tasks.createOrganization(refusing, { name: 'Example' })).rejects.toThrow('ingest.a')
  expect(created).toEqual([])
})

it.each([
  { gate: { isUnlocked: true, frozen: '' }, thaws: [], answer: { state: 'not_frozen' } },
  { gate: { isUnlocked: true, frozen: 'why' }, thaws: [false], answer: { state: 'frozen' } },
])('thaw of a balance with $gate answers $answer', async ({ gate, thaws, answer }) => {
  const thawed: boolean[] = []
  const gates = {
    read: async () => gate,
    thaw: async (_tenant: string, trustJournal: boolean) => { thawed.push(trustJournal) },
  }
  const all = { ...deps, gates } as unknown as WorkspaceDeps
  expect(await tasks.thaw(all, { org, mode: 'live' })).toMatchObject(answer)
  expect(thawed).toEqual(thaws)
})

it('an organization whose new keys Redis has lost is named, and no id is answered', async () => {
  const losing = {
    ...deps, organizationKeys: { create: async () => {}, store: { read: async () => [] } },
  } as unknown as WorkspaceDeps
  await expect(tasks.createOrganization(losing, { name: 'Example' }))
    .rejects.toThrow(/^Redis lost the keys of organization org_\w+ meanwhile/)
})

describe('a top-up', () => {
  it('adds exactly the amount in the options', async () => {
    const result = await tasks.topUp(deps, { org, mode: 'live', usd: '12.50', id: 'payment 1' })
    expect(movements).toEqual([[`${org}.live`, {
      id: 'payment 1', amountMicros: 12_500_000, reason: 'top-up',
    }]])
    expect(result).toMatchObject({ posting: 'known', availableUsd: '12.500000' })
  })

  it.each<Options>([
    {}, { usd: '1', micros: '1' }, { usd: '1,5' }, { micros: '0' }, { usd: '1', mode: 'prod' },
    { usd: '1', org: 'org_none' },
  ])('with the options %j changes nothing', async options => {
    await expect(tasks.topUp(deps, { org, mode: 'live', ...options })).rejects.toThrow(/\.$/)
    expect(movements).toEqual([])
  })
})

describe('an API key', () => {
  const create = (options: Options) =>
    tasks.createKey(deps, { org, mode: 'live', ...options })

  it('is listed without its secret', async () => {
    const { id, secret } = await create({ mode: 'test', scopes: 'jobs:read' })
    const listed = await tasks.listApiKeys(deps, { org })
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
    const fresh = await tasks.rollKey(deps, { org, key: String(id), graceHours: '1' })
    const { keys } = await tasks.listApiKeys(deps, { org })
    expect(keys).toMatchObject([
      { id, replacedBy: fresh.id, expiresAt: fresh.replacedKeyExpiresAt },
      { id: fresh.id, replacedBy: '', expiresAt: null },
    ])
    expect(fresh.replacedKeyExpiresAt).toMatch(/Z$/)
  })

  it('is revoked and rolled by its id', async () => {
    const first = await create({})
    const created = await tasks.rollKey(deps, { org, key: String(first.id), graceHours: '1' })
    expect(created.replaces).toBe(first.id)
    await tasks.revokeKey(deps, { org, key: String(created.id) })
    const again = { org, key: String(created.id), graceHours: '1' }
    await expect(tasks.rollKey(deps, again)).rejects.toThrow(/has no active key/)
    await expect(tasks.revokeKey(deps, { org, key: 'key_x' })).rejects.toThrow(/has no key "key_x"/)
  })
})

describe('the policy of an organization', () => {
  it('accepts only whole days of freshness within its range', async () => {
    expect(await tasks.policy(deps, { org })).toMatchObject({
      orgId: org, freshnessDays: 90, weight: 1, activeJobs: 'default',
    })
    const set = await tasks.policy(deps, { org, freshnessDays: '7' })
    expect(set).toMatchObject({ freshnessDays: 7 })
    for (const freshnessDays of ['', '-1', '1e1', '91', 'x']) {
      await expect(tasks.policy(deps, { org, freshnessDays })).rejects.toThrow(RangeError)
    }
  })
})
