import { beforeEach, describe, expect, it } from 'vitest'
import {
  createAccountsBackup, type AccountsFile,
} from '../../services/workspace/accounts-backup.ts'
import { contentOf } from '../support/redis-content.ts'
import { startGatedRedis } from '../support/gated-redis.ts'

const { redis } = await startGatedRedis()
const backup = createAccountsBackup(redis)
beforeEach(async () => { await redis.flushall() })

/** One key of each kind that accounts are made of, and some that are none. */
async function fill (): Promise<void> {
  await redis.hset('org:org_a', { name: 'A', createdAtMs: '1' })
  await redis.set('org:org_a:webhook-secret', 'sealed')
  await redis.rpush('org:org_a:keys', 'key_2', 'key_1', 'key_2')
  await redis.hset('key:hash', { org: 'org_a', scopes: 'jobs' })
  await redis.hset('partner:acme', { org: 'org_a' })
  await redis.sadd('partners', 'acme', 'zeta')
  await redis.sadd('tenants', 'org_a.live', 'org_a.test')
}

const file: AccountsFile = {
  version: 1,
  kept: [
    { key: 'key:hash', type: 'hash', value: { org: 'org_a', scopes: 'jobs' } },
    { key: 'org:org_a', type: 'hash', value: { name: 'A', createdAtMs: '1' } },
    { key: 'org:org_a:keys', type: 'list', value: ['key_2', 'key_1', 'key_2'] },
    { key: 'org:org_a:webhook-secret', type: 'string', value: 'sealed' },
    { key: 'partner:acme', type: 'hash', value: { org: 'org_a' } },
    { key: 'partners', type: 'set', value: ['acme', 'zeta'] },
    { key: 'tenants', type: 'set', value: ['org_a.live', 'org_a.test'] },
  ],
}

describe('a copy of the accounts', () => {
  it('has all of them, each key once, and nothing of money or jobs', async () => {
    await fill()
    await redis.hset('w:{org_a.live}', { available: '5' })
    await redis.hset('job:{org_a.live}:job_1', { status: 'queued' })
    await redis.set('rate:key', '1')
    const { version, kept } = await backup.read()
    expect({ version, kept: kept.toSorted((a, b) => a.key < b.key ? -1 : 1) }).toEqual(file)
    for (let more = 0; more < 1_500; more += 1) await redis.set(`org:o${more}`, String(more))
    const keys = (await backup.read()).kept.map(({ key }) => key)
    expect([keys.length, new Set(keys).size]).toEqual([1_507, 1_507])
  })

  it('brings back an empty Redis, by way of a file, and does nothing the second time', async () => {
    await fill()
    const before = await contentOf(redis)
    const copy = JSON.parse(JSON.stringify(await backup.read())) as AccountsFile
    await redis.flushall()
    expect(await backup.write(copy)).toBe(7)
    expect(await contentOf(redis)).toEqual(before)
    expect(await redis.lrange('org:org_a:keys', 0, -1)).toEqual(['key_2', 'key_1', 'key_2'])
    expect(await backup.write(copy)).toBe(0)
    expect(await contentOf(redis)).toEqual(before)
  })

  it('overwrites nothing, and adds what sets lack', async () => {
    await redis.hset('org:org_a', { name: 'newer' })
    await redis.set('org:org_a:webhook-secret', 'newer')
    await redis.rpush('org:org_a:keys', 'key_3')
    await redis.sadd('tenants', 'org_z.live', 'org_a.live')
    await redis.sadd('partners', 'acme', 'zeta')
    expect(await backup.write(file)).toBe(3)
    expect(await redis.hgetall('org:org_a')).toEqual({ name: 'newer' })
    expect(await redis.get('org:org_a:webhook-secret')).toBe('newer')
    expect(await redis.lrange('org:org_a:keys', 0, -1)).toEqual(['key_3'])
    expect((await redis.smembers('tenants')).toSorted())
      .toEqual(['org_a.live', 'org_a.test', 'org_z.live'])
    expect(await redis.hgetall('key:hash')).toEqual({ org: 'org_a', scopes: 'jobs' })
    expect(await redis.hgetall('partner:acme')).toEqual({ org: 'org_a' })
  })
})
