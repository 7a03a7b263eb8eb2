import type { Admin } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import { alignAccess } from '../../../deploy/provision/access.ts'
import { migrations, pending, statementsOf } from '../../../deploy/provision/migrations.ts'
import { settingsOf } from '../../../deploy/provision/topics.ts'
import { stageRules } from '../../../services/lib/kafka/access-rules.ts'

describe('migrations', () => {
  it('are numbered from 1 and hold one statement or more each', () => {
    const all = migrations()
    expect(all.map(({ number }) => number)).toEqual(all.map((_, index) => index + 1))
    expect(all.every(({ statements }) => statements.length > 0)).toBe(true)
  })

  it('are split where a semicolon ends a line', () => {
    expect(statementsOf("-- a; b\nSELECT ';x';\n\nSELECT 2;\n-- the end\n"))
      .toEqual(["-- a; b\nSELECT ';x'", 'SELECT 2'])
  })

  it('are applied once, and refuse a database that tells another story', () => {
    const known = migrations()
    const applied = known.map(({ number, name, digest }) => ({ number, name, digest }))
    expect(pending(known, [])).toEqual(known)
    expect(pending(known, applied.slice(0, 2))).toEqual(known.slice(2))
    expect(pending(known, applied)).toEqual([])
    expect(() => pending(known.slice(0, 1), applied)).toThrow('deploy the release that made it')
    expect(() => pending(known, [{ ...applied[0]!, digest: 'other' }])).toThrow('was changed after')
  })
})

describe('settings of topics', () => {
  const topic = { name: 't', partitions: 1, keepHours: 168, compact: false }

  it('keep messages for the hours of the topology, or for ever', () => {
    expect(settingsOf(topic, undefined)).toEqual([
      { name: 'cleanup.policy', value: 'delete' }, { name: 'retention.ms', value: '604800000' },
    ])
    expect(settingsOf({ ...topic, keepHours: -1 }, undefined)[1]?.value).toBe('-1')
  })

  it('compact and ask for copies where told to', () => {
    expect(settingsOf({ ...topic, compact: true }, 2)).toEqual([
      { name: 'cleanup.policy', value: 'compact,delete' },
      { name: 'retention.ms', value: '604800000' },
      { name: 'max.compaction.lag.ms', value: '600000' },
      { name: 'delete.retention.ms', value: '604800000' },
      { name: 'min.insync.replicas', value: '2' },
    ])
  })
})

describe('rules of access', () => {
  it('are created before what is beyond them is removed', async () => {
    const [done, told]: [string[], string[]] = [[], []]
    const acl = { principal: 'User:verify', host: '*', operation: 4, permissionType: 3 }
    const admin = {
      createAcls: async ({ acl: rules }: { acl: unknown[] }) => {
        done.push(`created ${rules.length}`)
      },
      describeAcls: async () => ({
        resources: [
          { resourceType: 2, resourceName: 'wallet.journal', resourcePatternType: 3, acls: [acl] },
        ],
      }),
      deleteAcls: async ({ filters }: { filters: { resourceName: string }[] }) => {
        done.push(`removed ${filters.map(({ resourceName }) => resourceName).join()}`)
      },
    } as unknown as Admin
    await alignAccess(admin, line => told.push(line))
    expect(done).toEqual([`created ${stageRules().length}`, 'removed wallet.journal'])
    expect(told).toEqual([`access: ${stageRules().length} rules of stages hold, 1 others removed`])
  })

  it('are said to be none where the brokers have no authorizer', async () => {
    const told: string[] = []
    const createAcls = () =>
      Promise.reject(Object.assign(new Error('disabled'), { type: 'SECURITY_DISABLED' }))
    await alignAccess({ createAcls } as unknown as Admin, line => told.push(line))
    expect(told).toEqual([
      'access: the brokers have no authorizer and let everybody do everything',
    ])
  })
})
