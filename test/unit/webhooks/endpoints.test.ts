import { beforeEach, describe, expect, it } from 'vitest'
import { EVENT_TYPES } from '../../../schemas/api/webhooks.ts'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import { accountKey, ACCOUNTS_OUTBOX_KEY } from '../../../services/accounts/records.ts'
import {
  activeSecrets, createWebhookEndpoints, type EndpointSettings,
} from '../../../services/webhooks/endpoints.ts'
import { organizationKeysOf } from '../../support/keys/organization-keys.ts'
import { workerRedis as redis, emptyRedis } from '../../support/redis/worker.ts'

const LIVE = 'org_1.live'
const DAY_MS = 86_400_000
const wanted: EndpointSettings = {
  url: 'https://hidden.example/in', events: ['*'], description: 'mine', enabled: true,
}

let nowMs: number
beforeEach(async () => {
  await emptyRedis()
  nowMs = 1_000_000
})
const now = () => nowMs
const open = (keys = organizationKeysOf(1)) =>
  createWebhookEndpoints({ redis, keys, now, sleep: async () => {} })

describe('the webhook endpoints of an organization', () => {
  it('are separate by mode, and have a secret of their own', async () => {
    const endpoints = open()
    const first = await endpoints.create(LIVE, wanted, 20)
    const second = await endpoints.create(LIVE, { ...wanted, events: ['job.failed'] }, 20)
    expect(first).toMatchObject({ ...wanted, createdAtMs: nowMs })
    expect(first?.id).toMatch(/^we_[0-9a-z]{26}$/)
    expect(first?.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(second?.secret).not.toBe(first?.secret)
    expect(await open().list(LIVE)).toEqual([first, second])
    expect(await open().list('org_1.test')).toEqual([])
    expect(await open().list('org_2.live')).toEqual([])
  })

  it('are sealed for their tenant, and in the outbox of the topic', async () => {
    await open().create(LIVE, wanted, 20)
    const stored = await redis.hgetall(accountKey('org:org_1'))
    const texts = Object.values(stored)
      .flatMap(text => [text, Buffer.from(text, 'base64').toString('latin1')])
    expect(texts.filter(text => /hidden|whsec/.test(text))).toEqual([])
    expect(await redis.smembers(ACCOUNTS_OUTBOX_KEY)).toContain('org:org_1')
    await redis.copy(accountKey('org:org_1'), accountKey('org:org_2'))
    await expect(open().list('org_2.live')).rejects.toThrow()
  })

  it('are as many as allowed, also for two that are created at once', async () => {
    const [one, other] = [open(), open()]
    const made = await Promise.all([
      one.create(LIVE, wanted, 2), other.create(LIVE, wanted, 2), one.create(LIVE, wanted, 2),
    ])
    expect(made.filter(endpoint => endpoint === undefined)).toHaveLength(1)
    expect(await open().list(LIVE)).toHaveLength(2)
  })

  it('keep what is not changed, and are gone once removed', async () => {
    const endpoints = open()
    const made = await endpoints.create(LIVE, wanted, 20)
    const id = made?.id ?? ''
    nowMs += 5
    expect(await endpoints.update(LIVE, id, { enabled: false }))
      .toEqual({ ...made, enabled: false, updatedAtMs: nowMs })
    expect(await endpoints.update(LIVE, 'we_none', { enabled: false })).toBeUndefined()
    expect(await endpoints.update('org_1.test', id, { enabled: false })).toBeUndefined()
    expect(await endpoints.remove(LIVE, id)).toMatchObject({ id })
    expect(await endpoints.remove(LIVE, id)).toBeUndefined()
    expect(await endpoints.list(LIVE)).toEqual([])
  })

  it('sign with the old secret too for a day after a rotation', async () => {
    const endpoints = open()
    const made = await endpoints.create(LIVE, wanted, 20)
    const rotated = await endpoints.rotate(LIVE, made?.id ?? '')
    const fresh = rotated?.secret ?? ''
    expect(fresh).not.toBe(made?.secret)
    expect(activeSecrets(rotated!, nowMs + DAY_MS - 1)).toEqual([fresh, made?.secret])
    expect(activeSecrets(rotated!, nowMs + DAY_MS)).toEqual([fresh])
    nowMs += DAY_MS - 1
    const last = await endpoints.rotate(LIVE, made?.id ?? '')
    expect(activeSecrets(last!, nowMs)).toEqual([last?.secret, fresh, made?.secret])
    expect(activeSecrets(last!, nowMs + 1)).toEqual([last?.secret, fresh])
  })

  it('are read again after a second for an attempt', async () => {
    const [worker, owner] = [open(), open()]
    const made = await owner.create(LIVE, wanted, 20)
    const current = () => worker.current(LIVE, made?.id ?? '')
    expect(await current()).toEqual(made)
    await owner.remove(LIVE, made?.id ?? '')
    expect(await current()).toEqual(made)
    nowMs += 1_000
    expect(await current()).toBeUndefined()
  })

  it('are known to every process once a change is answered', async () => {
    const worker = open()
    const organizations = createOrganizations(redis, now)
    const known = async (id: string) => [
      await worker.current(LIVE, id),
      ...await organizations.subscriptions(LIVE),
    ]
    const owner = createWebhookEndpoints({
      redis,
      keys: organizationKeysOf(1),
      now,
      // Others read while the change waits.
      sleep: async ms => {
        await known('')
        nowMs += ms
      },
    })
    await known('')
    const made = await owner.create(LIVE, wanted, 20)
    const { id } = made!
    expect(await known(id)).toEqual([{ ...made }, { endpoint: id, events: EVENT_TYPES }])
    await owner.remove(LIVE, id)
    expect(await known(id)).toEqual([undefined])
  })

  it('are wrapped by the newest key of the organization after its rotation', async () => {
    const made = await open().create(LIVE, wanted, 20)
    const rotated = organizationKeysOf(1, 2)
    const [wrapped, ...others] = await open().wrapped('org_1')
    expect(others).toEqual([])
    const { pieces: [{ bytes, binding }], replace } = wrapped!
    const fresh = await rotated.wrap(
      'org_1', await rotated.unwrap('org_1', bytes, binding), binding)
    expect(await replace([fresh])).toBe(true)
    expect(await replace([fresh])).toBe(false)
    expect(await open(organizationKeysOf(2)).list(LIVE)).toEqual([made])
  })
})

describe('subscriptions', () => {
  it('are those of enabled endpoints of the mode, and * stands for every event', async () => {
    const create = (more: Partial<EndpointSettings>) =>
      open().create(LIVE, { ...wanted, ...more }, 20)
    const all = await create({})
    const some = await create({ events: ['balance.low', 'job.failed'] })
    await create({ enabled: false })
    const { subscriptions } = createOrganizations(redis, now)
    expect(await subscriptions(LIVE)).toEqual([
      { endpoint: all?.id, events: EVENT_TYPES },
      { endpoint: some?.id, events: ['job.failed', 'balance.low'] },
    ])
    expect(await subscriptions('org_1.test')).toEqual([])
  })

  it('omit types of a newer release', async () => {
    const stored = JSON.stringify([{ endpoint: 'we_1', events: ['job.paused', 'job.failed'] }])
    const { create, subscriptions } = createOrganizations(redis, now)
    await create('Example', 'org_1')
    await redis.hset(accountKey('org:org_1'), 'liveSubscriptions', stored)
    expect(await subscriptions(LIVE)).toEqual([{ endpoint: 'we_1', events: ['job.failed'] }])
    expect(await subscriptions('org_1.test')).toEqual([])
  })
})
