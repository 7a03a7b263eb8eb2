import { beforeEach, describe, expect, it, vi } from 'vitest'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import {
  createPeople, erasePeople, PeopleError, wrappedPeople,
} from '../../../services/accounts/people.ts'
import { accountKey, indexKeysIn } from '../../../services/accounts/records.ts'
import { SealError } from '../../../services/runtime/crypto/seal.ts'
import { FatalError } from '../../../services/runtime/platform/errors.ts'
import { organizationKeysOf } from '../../support/keys/organization-keys.ts'
import { contentOf } from '../../support/redis/content.ts'
import { peopleOn } from '../../support/page/stored-people.ts'
import { workerRedis as redis, emptyRedis } from '../../support/redis/worker.ts'

const ISSUER = 'https://login.example'
const ann = { issuer: ISSUER, subject: 'ann-1', email: 'ann@example.com' }

const people = peopleOn(redis, { now: () => 1_000 })
let orgId: string
let otherId: string
beforeEach(async () => {
  await emptyRedis()
  const organizations = createOrganizations(redis)
  orgId = (await organizations.create('One')).id
  otherId = (await organizations.create('Other')).id
})

const add = async (email: string, role: 'owner' | 'developer' = 'owner', org = orgId) => {
  const made = await people.add(org, { email, role, createdBy: 'operator' })
  if (made === undefined) throw new Error('there is no organization')
  return made
}
const recordOf = async (org = orgId) => await redis.hgetall(accountKey(`org:${org}`))
const indexed = async (org = orgId) => indexKeysIn((await recordOf(org))['peopleIndex'])
const emailsOf = async (org = orgId) => (await people.list(org)).map(({ email }) => email)

describe('a person', () => {
  it('is added once, with an address in lower case', async () => {
    const made = await add(' Ann@Example.COM ')
    expect(made).toEqual({
      id: expect.stringMatching(/^per_[0-9a-z]{26}$/),
      email: 'ann@example.com',
      role: 'owner',
      createdBy: 'operator',
      createdAtMs: 1_000,
      issuer: '',
      subject: '',
      generation: 0,
    })
    expect(await people.find(orgId, made.id)).toEqual(made)
    expect(await people.list(otherId)).toEqual([])
    await expect(add('ANN@example.com')).rejects.toThrow('is a member already')
    expect(await people.add('org_none', { email: 'a@b.c', role: 'owner', createdBy: '' }))
      .toBeUndefined()
  })

  it.each([
    'ann', 'ann@', '@example.com', 'ann@example', 'a nn@example.com', 'ann@example.com@x.org',
    'änn@example.com', '\u212Aate@example.com', `${'a'.repeat(251)}@b.c`,
  ])('is not added by the address %j', async email => {
    await expect(add(email)).rejects.toThrow(PeopleError)
  })

  it('is one of at most 200 of an organization', async () => {
    for (let index = 0; index < 200; index++) await add(`p${index}@example.com`)
    await expect(add('ann@example.com')).rejects.toThrow('has 200 people already')
  })
})

describe('the last owner', () => {
  it('is neither removed nor demoted', async () => {
    const { id } = await add('ann@example.com')
    await add('dev@example.com', 'developer')
    await expect(people.remove(orgId, id)).rejects.toThrow('the last owner')
    await expect(people.changeRole(orgId, id, 'developer')).rejects.toThrow('the last owner')
    expect(await emailsOf()).toEqual(['ann@example.com', 'dev@example.com'])
  })

  it('remains when two owners demote each other at the same time', async () => {
    const [one, two] = [await add('one@example.com'), await add('two@example.com')]
    const outcomes = await Promise.allSettled([
      people.changeRole(orgId, one.id, 'developer'), people.changeRole(orgId, two.id, 'developer'),
    ])
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    expect((await people.list(orgId)).filter(({ role }) => role === 'owner')).toHaveLength(1)
  })
})

describe('a sign-in', () => {
  it('binds a person by the verified address, then counts by the account alone', async () => {
    const { id } = await add('ann@example.com')
    const [first] = await people.membershipsOf({ ...ann, email: 'ANN@example.com' })
    expect(first).toMatchObject({ orgId, person: { id, issuer: ISSUER, subject: 'ann-1' } })
    const moved = { ...ann, email: 'someone.else@example.com' }
    expect(await people.membershipsOf(moved)).toMatchObject([{ orgId, person: { id } }])
    expect(await people.membershipsOf({ ...ann, email: '' })).toHaveLength(1)
  })

  it('is refused to the next holder of an address, and to the address at another issuer',
    async () => {
      await add('ann@example.com')
      await people.membershipsOf(ann)
      expect(await people.membershipsOf({ ...ann, subject: 'new-ann' })).toEqual([])
      expect(await people.membershipsOf({ ...ann, issuer: 'https://other.example' })).toEqual([])
    })

  it('is refused without a verified address, and to addresses that only look alike', async () => {
    await add('kate@example.com')
    expect(await people.membershipsOf({ ...ann, email: '' })).toEqual([])
    // The Kelvin sign becomes a k in lower case.
    expect(await people.membershipsOf({ ...ann, email: '\u212Aate@example.com' })).toEqual([])
  })

  it('binds one account to one person of an organization', async () => {
    const { id } = await add('ann@example.com')
    await people.membershipsOf(ann)
    await add('ann.new@example.com')
    expect(await people.membershipsOf({ ...ann, email: 'ann.new@example.com' }))
      .toMatchObject([{ person: { id } }])
    expect((await people.list(orgId)).map(({ issuer }) => issuer)).toEqual([ISSUER, ''])
  })
})

describe('an erased organization', () => {
  beforeEach(async () => {
    await add('ann@example.com')
    await people.membershipsOf(ann)
    await createOrganizations(redis).markErased(orgId)
  })

  it('has no people, gets none, and lets none sign in', async () => {
    expect(await emailsOf()).toEqual([])
    expect(await people.membershipsOf(ann)).toEqual([])
    expect(await people.add(orgId, { email: 'bob@example.com', role: 'owner', createdBy: '' }))
      .toBeUndefined()
  })

  it('keeps no digest, even if the deletion was interrupted', async () => {
    await add('ann@example.com', 'owner', otherId)
    const keys = await indexed()
    expect(keys).toHaveLength(2)
    const killed = vi.spyOn(redis, 'srem').mockRejectedValue(new Error('killed'))
    await expect(erasePeople(redis, orgId)).rejects.toThrow('killed')
    expect(await indexed()).toEqual(keys)
    killed.mockRestore()
    await erasePeople(redis, orgId)
    const erased = await recordOf()
    expect(erased).toMatchObject({ people: '', peopleIndex: '[]' })
    expect(await Promise.all(keys.map(key => redis.smembers(key)))).toEqual([[otherId], []])
    await erasePeople(redis, orgId)
    expect((await recordOf())['revision']).toBe(erased['revision'])
    expect(await wrappedPeople(redis, orgId)).toEqual([])
  })
})

describe('the record of an organization', () => {
  const secrets = [/ann/, /example/, /owner/, new RegExp(ISSUER), /per_/]

  it('has its people wrapped by its key, and bound to it', async () => {
    await add('ann@example.com')
    await people.membershipsOf(ann)
    const { people: wrapped = '' } = await recordOf()
    const sealed = Buffer.from(wrapped, 'base64').toString()
    const stored = [JSON.stringify(await contentOf(redis)), sealed]
    for (const secret of secrets) expect(stored.filter(text => secret.test(text))).toEqual([])
    await add('bob@example.com', 'owner', otherId)
    await redis.hset(accountKey(`org:${otherId}`), { people: wrapped })
    await expect(people.list(otherId)).rejects.toThrow(SealError)
  })

  it('names a missing key in a sentence, and keeps the people until it is back', async () => {
    await add('ann@example.com')
    const without = peopleOn(redis, { byte: 2 })
    for (const attempt of [without.list(orgId), without.membershipsOf(ann)]) {
      await expect(attempt).rejects.toThrow(FatalError)
      await expect(attempt).rejects.toThrow('test keys lacks key "k1", which wraps a key in use ' +
        `(people ${orgId}): add it again`)
    }
    expect(await emailsOf()).toEqual(['ann@example.com'])
  })

  it('is rewrapped by a newer key, unless it has changed', async () => {
    const { id } = await add('ann@example.com')
    const [wrapped, ...others] = await wrappedPeople(redis, orgId)
    expect([wrapped?.orgId, others]).toEqual([orgId, []])
    const [{ bytes, binding, class: keyClass }] = wrapped!.pieces
    expect(keyClass).toBe('webhooks')
    const keys = organizationKeysOf(1, 2)
    const fresh = await keys.wrap(orgId, await keys.unwrap(orgId, bytes, binding), binding)
    expect(await wrapped!.replace([fresh])).toBe(true)
    expect(await wrapped!.replace([fresh])).toBe(false)
    expect(await peopleOn(redis, { byte: 2 }).membershipsOf(ann))
      .toMatchObject([{ orgId, person: { id } }])
    expect(await wrappedPeople(redis, otherId)).toEqual([])
  })
})

it('the index of people ' +
  'depends on a message key, and finds people after a rotation to any id', async () => {
  const keyOf = (byte: number) => Buffer.alloc(32, byte).toString('base64')
  const peopleWith = (messageKeys: Readonly<Record<string, string>>) =>
    createPeople({ redis, keys: organizationKeysOf(1), messageKeys })
  const old = peopleWith({ 5: keyOf(5) })
  await old.add(orgId, { email: ann.email, role: 'owner', createdBy: '' })
  const [stored] = await indexed()
  expect(await peopleWith({ 5: keyOf(6) }).membershipsOf(ann)).toEqual([])
  for (const id of ['1', '10', '6', 'b']) {
    const rotated = peopleWith({ 5: keyOf(5), [id]: keyOf(7) })
    expect(await rotated.membershipsOf(ann)).toMatchObject([{ orgId }])
  }
  // Stored by the key whose id sorts first.
  await peopleWith({ 5: keyOf(5), 6: keyOf(7) })
    .add(otherId, { email: ann.email, role: 'owner', createdBy: '' })
  expect(await indexed(otherId)).toEqual([stored])
})
