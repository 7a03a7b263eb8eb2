import { describe, expect, it } from 'vitest'
import { organizationKeysKey } from '../../support/keys/organization-keys.ts'
import {
  accountKey, ACCOUNTS_RUN_KEY, AccountsRecoveringError,
} from '../../../services/accounts/records.ts'
import { MissingKeyError } from '../../../services/runtime/crypto/key-ring.ts'
import { rewrapAll } from '../../../services/admin/key-rotation.ts'
import { UsageError } from '../../../services/runtime/platform/run-command.ts'
import { createOrganization, processWith, rootsOf } from '../../support/keys/key-processes.ts'
import {
  bus, commands, keyStore, markComplete, redis, restore, rotate, ship,
} from '../../support/keys/wrapped-keys.ts'

const roots = rootsOf(1)
const plain = Buffer.alloc(32, 5)
const binding = ['data-key', 't', 'job_1']
/** The keys of a process that has read none yet. */
const keysOf = () => processWith(roots).keys.results

describe('the keys of an organization', () => {
  it('are restored after a loss of Redis, and none is missing before that', async () => {
    const id = await createOrganization(roots)
    const wrapped = await keysOf().wrap(id, plain, binding)
    await redis.del(organizationKeysKey(id), ACCOUNTS_RUN_KEY)
    await redis.hdel(accountKey(`org:${id}`), 'madeIn')
    await expect(keysOf().unwrap(id, wrapped, binding)).rejects.toThrow(AccountsRecoveringError)
    await expect(rotate(id)).rejects.toThrow(AccountsRecoveringError)
    await restore()
    expect(await keysOf().unwrap(id, wrapped, binding)).toEqual(plain)
    expect((await keyStore.read(id)).length).toBe(3)
    await markComplete()
  })

  it('that vanish from a running Redis stop their use until they are restored', async () => {
    const id = await createOrganization(roots)
    const wrapped = await keysOf().wrap(id, plain, binding)
    const topic = bus.messages('organization.keys').length
    await redis.del(organizationKeysKey(id))
    for (const use of [
      () => keysOf().wrap(id, plain, binding),
      () => keysOf().unwrap(id, wrapped, binding),
      () => keysOf().whenShipped(id),
    ]) await expect(use()).rejects.toThrow(MissingKeyError)
    await expect(rotate(id)).rejects.toThrow(`the state Redis lacks keys of organization ${id}: ` +
      'partners.1, results.1, webhooks.1. Restart every ledger')
    await expect(commands.rotate(id, [])).rejects.toThrow(UsageError)
    await ship()
    expect(await keyStore.read(id)).toEqual([])
    expect(bus.messages('organization.keys')).toHaveLength(topic)
    await restore()
    expect(await keysOf().unwrap(id, wrapped, binding)).toEqual(plain)
    expect(await rotate(id)).toBe(2)
    await ship()
  })

  it('never get a number again that one class lost', async () => {
    const id = await createOrganization(roots)
    expect(await rotate(id)).toBe(2)
    await ship()
    const before = await keyStore.read(id)
    await keyStore.remove(id, { class: 'results', version: 2 })
    await expect(rotate(id)).rejects.toThrow('results.2. Restart every ledger')
    await keyStore.remove(id, { class: 'results', version: 1 })
    await expect(rotate(id)).rejects.toThrow('results.1, results.2. Restart every ledger')
    await restore()
    expect(await keyStore.read(id)).toMatchObject(
      before.map(({ shippedAtMs: _at, ...key }) => key))
    expect(await rotate(id)).toBe(3)
    await ship()
  })

  it('get no new version while one does not open', async () => {
    const id = await createOrganization(rootsOf(2))
    const before = await keyStore.read(id)
    await expect(rotate(id)).rejects.toThrow(UsageError)
    await expect(rotate(id)).rejects.toThrow(`key results.1 of organization ${id} does not open: ` +
      'RESULTS_ROOT_KEYS lacks key "2": add it again')
    expect(await keyStore.read(id)).toEqual(before)
    await keyStore.replace(id, before[0]!, Buffer.of(0))
    await expect(rotate(id)).rejects.toThrow('does not open: wrapped key is invalid')
    await rewrapAll(processWith(rootsOf(2, 1)).rotation)
  })

  it('are restored as they were wrapped last, also in place of damaged ones', async () => {
    const id = await createOrganization(roots)
    const wrapped = await keysOf().wrap(id, plain, binding)
    await rewrapAll(processWith(rootsOf(1, 2)).rotation)
    const rewrapped = await keyStore.read(id)
    const [key, text = ''] = Object.entries(await redis.hgetall(organizationKeysKey(id)))
      .find(([field]) => field === 'results/1') ?? []
    await redis.hset(organizationKeysKey(id), String(key), text.replace(/.{4}"/, 'AAAA"'))
    await restore()
    expect(await keyStore.read(id)).toEqual(rewrapped)
    await redis.del(organizationKeysKey(id))
    await restore()
    // Without root key 1, which may be removed after a rewrap.
    expect(await processWith(rootsOf(2)).keys.results.unwrap(id, wrapped, binding)).toEqual(plain)
    await rewrapAll(processWith(rootsOf(2, 1)).rotation)
  })

  it('get no second first version', async () => {
    const id = await createOrganization(roots)
    await redis.del(organizationKeysKey(id))
    await expect(commands.create(id)).rejects.toThrow(`organization ${id} exists`)
    expect(await keyStore.read(id)).toEqual([])
    await restore()
  })
})
