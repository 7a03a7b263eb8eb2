import { beforeEach, describe, expect, it } from 'vitest'
import { createApiKeys } from '../../../services/accounts/api-keys.ts'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import type { WorkspaceParts } from '../../../services/workspace/parts.ts'
import { UsageError } from '../../../services/lib/run-command.ts'
import * as tasks from '../../../services/workspace/tasks.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'

const BALANCE = {
  availableMicros: 12_500_000,
  reservedMicros: 0,
  chargedMicros: 0,
  fundedMicros: 12_500_000,
  seq: 1,
}

let parts: WorkspaceParts
let org: string
let movements: unknown[]
beforeEach(async () => {
  const { redis } = memoryRedis()
  movements = []
  parts = {
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
  } as unknown as WorkspaceParts
  org = (await parts.organizations.create('Example')).id
})

describe('a top-up', () => {
  it('moves exactly the amount that was typed', async () => {
    const shown = await tasks.topUp(parts, { org, mode: 'live', usd: '12.50', id: 'payment 1' })
    expect(movements).toEqual([[`${org}.live`, {
      id: 'payment 1', amountMicros: 12_500_000, reason: 'top-up',
    }]])
    expect(shown).toMatchObject({ posting: 'known', availableUsd: '12.500000' })
  })

  it.each<tasks.Options>([
    {}, { usd: '1', micros: '1' }, { usd: '1,5' }, { micros: '0' }, { usd: '1', mode: 'prod' },
    { usd: '1', org: 'org_none' },
  ])('of %j moves nothing', async options => {
    await expect(tasks.topUp(parts, { org, mode: 'live', ...options })).rejects.toThrow(/\.$/)
    expect(movements).toEqual([])
  })
})

describe('a key', () => {
  const create = (options: tasks.Options) =>
    tasks.createKey(parts, { org, mode: 'live', ...options })

  it('is shown once and never listed with its secret', async () => {
    const { id, secret } = await create({ mode: 'test', scopes: 'jobs:read' })
    const listed = await tasks.listKeys(parts, { org })
    expect(listed.keys).toMatchObject([
      { id, mode: 'test', scopes: ['jobs:read'], revokedAt: null },
    ])
    expect(JSON.stringify(listed)).not.toContain(secret)
  })

  it.each<tasks.Options>([
    { scopes: 'jobs:admin' }, { scopes: 'jobs:read,x' }, { scopes: '' }, { expires: 'soon' },
    { mode: '' }, { org: '' },
  ])('of %j is not made', async options => {
    await expect(create(options)).rejects.toThrow(UsageError)
    expect(await parts.apiKeys.list(org)).toEqual([])
  })

  it('is revoked and replaced by its id', async () => {
    const first = await create({})
    const fresh = await tasks.rollKey(parts, { org, key: String(first.id), graceHours: '1' })
    expect(fresh.replaces).toBe(first.id)
    await tasks.revokeKey(parts, { org, key: String(fresh.id) })
    const again = { org, key: String(fresh.id), graceHours: '1' }
    await expect(tasks.rollKey(parts, again)).rejects.toThrow(/no usable key/)
    await expect(tasks.revokeKey(parts, { org, key: 'key_x' })).rejects.toThrow(/no key key_x/)
  })
})

describe('the policy', () => {
  it('is shown, and set only to whole days', async () => {
    expect(await tasks.policy(parts, { org })).toMatchObject({
      orgId: org, freshnessDays: 90, weight: 1, activeJobs: 'default',
    })
    const set = await tasks.policy(parts, { org, freshnessDays: '7' })
    expect(set).toMatchObject({ freshnessDays: 7 })
    for (const freshnessDays of ['', '-1', '1e1', '91', 'x']) {
      await expect(tasks.policy(parts, { org, freshnessDays })).rejects.toThrow(RangeError)
    }
  })
})
