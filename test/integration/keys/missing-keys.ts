import { describe, expect, it } from 'vitest'
import { organizationKeysKey } from '../../support/keys/organization-keys.ts'
import {
  accountKey, ACCOUNTS_RUN_KEY, AccountsRecoveringError,
} from '../../../services/accounts/records.ts'
import { withKeyId } from '../../../services/runtime/crypto/key-ring.ts'
import { createRootKeys } from '../../../services/runtime/crypto/root-keys.ts'
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

  it('never get a number again that one class lost', async () => {
    const id = await createOrganization(roots)
    expect(await rotate(id)).toBe(2)
    await ship()
    const before = await keyStore.read(id)
    const topic = bus.messages('organization.keys').length
    await keyStore.remove(id, { class: 'results', version: 2 })
    await expect(rotate(id)).rejects.toThrow('results.2. Restart every ledger')
    await keyStore.remove(id, { class: 'results', version: 1 })
    await expect(rotate(id)).rejects.toThrow('results.1, results.2. Restart every ledger')
    await ship()
    expect(bus.messages('organization.keys')).toHaveLength(topic)
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
    await restore()
  })

  it('that are damaged are left out of a rewrap with all that they wrap', async () => {
    const id = await createOrganization(roots)
    const { rotation, webhookSecrets } = processWith(rootsOf(1, 2))
    await webhookSecrets.show(id)
    await rotate(id)
    await ship()
    const stored = () => redis.hgetall(accountKey(`org:${id}`))
    const before = await stored()
    const findKey = async () => (await keyStore.read(id)).find(key => key.class === 'webhooks')!
    const intact = await findKey()
    const flipped = Buffer.from(intact.wrapped)
    flipped[flipped.length - 1]! ^= 1
    for (const wrapped of [flipped, Buffer.of(0), withKeyId('1', Buffer.alloc(0))]) {
      await keyStore.replace(id, intact, wrapped)
      expect((await rewrapAll(rotation)).damaged).toEqual([`key webhooks.1 of ${id}`])
      expect([await stored(), (await findKey()).wrapped]).toEqual([before, wrapped])
      await keyStore.replace(id, { ...intact, wrapped }, intact.wrapped)
    }
    expect((await rewrapAll(rotation)).damaged).toEqual([])
    expect(await stored()).not.toEqual(before)
    await rewrapAll(processWith(rootsOf(2, 1)).rotation)
  })

  it('change nothing under a root key whose value opens none of them', async () => {
    const id = await createOrganization(roots)
    const before = await keyStore.read(id)
    const other = createRootKeys({
      keys: { 1: Buffer.alloc(32, 7).toString('base64') },
      active: '1',
      setting: 'RESULTS_ROOT_KEYS',
    })
    const rewrapped = rewrapAll(processWith({ ...roots, results: other }).rotation)
    await expect(rewrapped).rejects.toThrow(UsageError)
    await expect(rewrapped).rejects.toThrow(
      /^RESULTS_ROOT_KEYS has another value for key "1": .* Nothing was changed.$/)
    expect(await keyStore.read(id)).toEqual(before)
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
