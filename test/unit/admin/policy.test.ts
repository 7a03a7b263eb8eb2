import { beforeEach, describe, expect, it } from 'vitest'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import type { WorkspaceDeps } from '../../../services/admin/deps.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'
import { commandOn } from '../../support/admin.ts'

const policy = commandOn('policy')

let deps: WorkspaceDeps
let org: string
beforeEach(async () => {
  const { redis } = memoryRedis()
  deps = { organizations: createOrganizations(redis) } as unknown as WorkspaceDeps
  org = (await deps.organizations.create('Example')).id
})

describe('the policy of an organization', () => {
  it('accepts only whole days of freshness within its range', async () => {
    expect(await policy(deps, { org })).toMatchObject({
      orgId: org, freshnessDays: 90, weight: 1, activeJobs: 'default',
    })
    const set = await policy(deps, { org, freshnessDays: '7' })
    expect(set).toMatchObject({ freshnessDays: 7 })
    for (const freshnessDays of ['', '-1', '1e1', '91', 'x']) {
      await expect(policy(deps, { org, freshnessDays })).rejects.toThrow(RangeError)
    }
  })
})
