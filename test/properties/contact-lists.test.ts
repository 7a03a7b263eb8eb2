import fc from 'fast-check'
import { beforeEach, expect, it } from 'vitest'
import { LIST_ACTIONS, type ListAction } from '../../schemas/api/contact-lists.ts'
import { restoreAccounts, shipAccounts } from '../../services/accounts/account-topics.ts'
import {
  ContactLists, eraseContactLists, ListEntryError, LISTS_OUTBOX_KEY, ListsFullError,
} from '../../services/accounts/contact-lists.ts'
import { ACCOUNTS_RUN_KEY, AccountsRecoveringError } from '../../services/accounts/records.ts'
import { startRepeating } from '../../services/runtime/platform/retry.ts'
import { organizationKeysOf } from '../support/keys/organization-keys.ts'
import {
  createRecoveryEnvironment, type RecoveryEnvironment,
} from '../support/recovery/recovery-environment.ts'
import { startRestartableRedis } from '../support/redis/redis.ts'

const { redis, restart } = await startRestartableRedis()
const { signal } = new AbortController()
const ORG = 'org_lists'

let environment: RecoveryEnvironment
beforeEach(async () => {
  await redis.flushall()
  environment = createRecoveryEnvironment(redis)
  await restoreAccounts(environment.deps, signal)
})

/** Lists as a process has them that knows nothing of earlier reads. */
const lists = (maxEntries?: number) =>
  new ContactLists({ redis, keys: organizationKeysOf(7), ...maxEntries && { maxEntries } })

const sumOf = ({ allow, block, suppress }: Awaited<ReturnType<ContactLists['count']>>) =>
  allow + block + suppress
const changesOf = (texts: readonly string[], action: ListAction | 'remove') =>
  texts.map(text => ({ text, action }))

/** Changes lists while a ledger ships. */
async function change (
  texts: readonly string[], action: ListAction | 'remove',
  { org = ORG, maxEntries }: { readonly org?: string, readonly maxEntries?: number } = {}
) {
  const shipping = startRepeating(5,
    async () => await shipAccounts(environment.deps, signal), fault => { throw fault })
  try {
    await lists(maxEntries).change(org, changesOf(texts, action))
    return sumOf(await lists().count(org))
  } finally {
    await shipping.stop()
  }
}

it.each([
  ['jane@mail.example.com', ['suppress', 'jane@mail.example.com'], ['allow', 'example.com']],
  ['Jane@mail.example.com', ['suppress', 'jane@mail.example.com'], ['allow', 'example.com']],
  ['jane@mail.example.com', ['block', 'mail.example.com'], ['allow', 'example.com']],
  ['jane@mail.example.com', ['block', '*.example.com'], ['allow', '.com']],
  ['jane@xn--bcher-kva.example', ['block', 'bücher.example'], ['allow', '.example']],
  ['jane@example.co', ['suppress', '.co'], ['allow', 'example.com']],
  ['+493012345678', ['suppress', '+49 (30) 1234-5678'], ['allow', '+4930*']],
  ['+493012345678', ['block', '+4930*'], ['allow', '+49*']],
] as const)('the most specific entry ' +
  'about %s decides', async (contact, [action, text], [other, general]) => {
  await change([text], action)
  await change([general], other)
  expect(await lists().find(ORG, [contact, '', 'joe@nowhere.test', '+12025550100']))
    .toEqual([action, undefined, undefined, undefined])
  await change([text], 'remove')
  expect((await lists().find(ORG, [contact]))?.[0])
    .toBe(general === 'example.com' && contact.endsWith('.co') ? undefined : other)
})

it.each([
  '', ' ', 'jane', 'jane@', 'jane doe@example.com', 'exam ple.com', '123', '+12', '4930*', '+49*30',
  '*', '+*', `${'a'.repeat(64)}.com`, 'jane@exa_mple..com', '"jane"@example.com', 'a@b@c.com',
  `${'a.'.repeat(10)}com`, `mx:${'a.'.repeat(10)}com`,
  `jane@exam${'\u00AD'.repeat(320)}ple.com`,
])('%j is no entry, and nothing is changed', async text => {
  await expect(change(['good.example', text], 'block')).rejects.toMatchObject({
    faults: [{ index: 1 }], count: 1,
  })
  await expect(change([text], 'block')).rejects.toThrow(ListEntryError)
  expect(await lists().find(ORG, ['jane@good.example'])).toBeUndefined()
})

it('entries can be counted and repeated, and belong to one organization', async () => {
  expect(sumOf(await lists().count(ORG))).toBe(0)
  expect(await change(['a.example', 'b.example', 'a.example'], 'block')).toBe(2)
  expect(await change(['b.example', 'c@d.example'], 'allow')).toBe(3)
  expect(await change(['b.example', 'unknown.example'], 'remove')).toBe(2)
  expect(await change(['a.example'], 'allow', { org: 'org_other' })).toBe(1)
  expect(await lists().find(ORG, ['x@a.example', 'x@b.example', 'c@d.example']))
    .toEqual(['block', undefined, 'allow'])
  expect(await lists().count(ORG)).toEqual({ allow: 1, block: 1, suppress: 0 })
  await expect(lists().lookUp(ORG, ['C@d.example', 'no entry']))
    .rejects.toMatchObject({ faults: [{ index: 1 }] })
  expect(await lists().lookUp(ORG, ['C@d.example', '+49 30 12345678', 'x.a.example', 'mx:a.b.c']))
    .toEqual(['allow', undefined, 'block', undefined])
})

it('an entry with dots that need quotes is about the contact with the quotes', async () => {
  await change(['Jane..doe.@docomo.ne.jp'], 'suppress')
  expect(await lists().find(ORG, ['"jane..doe."@docomo.ne.jp', '"jane.doe."@docomo.ne.jp']))
    .toEqual(['suppress', undefined])
})

it('entries about mail servers are about them and those below, and no contact', async () => {
  expect(await lists().hasMailServers(ORG)).toBe(false)
  await change(['b.example'], 'block')
  expect(await lists().hasMailServers(ORG)).toBe(false)
  await change(['mx:Mail.Example.net.', 'MX: *.pool.example'], 'suppress')
  await change(['mx:in.mail.example.net'], 'allow')
  expect(await lists().hasMailServers(ORG)).toBe(true)
  const hosts = [
    'mail.example.net', 'a.mail.example.net', 'b.in.mail.example.net', 'example.net',
    'mx1.pool.example', 'b.example', '',
  ]
  expect(await lists().findMailServers(ORG, hosts)).toEqual([
    'suppress', 'suppress', 'allow', undefined, 'suppress', undefined, undefined,
  ])
  expect(await lists().find(ORG, ['x@mail.example.net', 'x@b.example']))
    .toEqual([undefined, 'block'])
})

it('of several changes of an entry the last counts, and a kind completes its text', async () => {
  await lists().count(ORG)
  const shipping = startRepeating(5,
    async () => await shipAccounts(environment.deps, signal), fault => { throw fault })
  try {
    await lists().change(ORG, [
      { text: 'a.example', action: 'block' },
      { text: 'A.example', action: 'remove' },
      { text: 'b.example', action: 'remove' },
      { text: 'B.EXAMPLE', action: 'suppress', kind: 'domain' },
      { text: 'mail.example', action: 'allow', kind: 'mx' },
      { text: 'xyz', action: 'block', kind: 'tld' },
      { text: '+4930', action: 'block', kind: 'prefix' },
    ])
  } finally {
    await shipping.stop()
  }
  const texts = ['a.example', 'b.example', 'mx:mail.example', 'x.xyz', '+4930*']
  expect(await lists().lookUp(ORG, texts))
    .toEqual([undefined, 'suppress', 'allow', 'block', 'block'])
  await expect(lists().change(ORG, [
    { text: 'jane@a.example', action: 'block', kind: 'domain' },
    { text: 'a.example', action: 'block', kind: 'number' },
  ])).rejects.toMatchObject({ count: 2, message: '"jane@a.example" is no entry of kind domain.' })
})

it('full lists take no further entry', async () => {
  await change(['a.example', 'b.example'], 'block')
  await expect(lists(3).change(ORG, changesOf(['c.example', 'd.example'], 'block')))
    .rejects.toThrow(ListsFullError)
  expect(await lists().find(ORG, ['x@c.example'])).toEqual([undefined])
  await expect(lists(1).change('org_new', changesOf(['c.example', 'd.example'], 'block')))
    .rejects.toThrow(ListsFullError)
})

it('full lists take again what they have, and count what is new', async () => {
  await change(['a.example', 'b.example', 'jane@c.example'], 'block')
  // 24 hours later.
  await redis.del(await redis.keys('*lists:changed:*'))
  expect(await change(['b.example', 'jane@c.example'], 'allow', { maxEntries: 3 })).toBe(3)
  // A contact that an entry covers is an entry of its own.
  await expect(lists(3).change(ORG, changesOf(['a.example', 'x@b.example'], 'block')))
    .rejects.toThrow('The lists have 3 entries, and 1 more would exceed 3.')
})

it('as many entries as there may be are changed in 24 hours', async () => {
  await change(['a.example', 'b.example'], 'block')
  await change(['a.example', 'b.example'], 'remove')
  await expect(lists(5).change(ORG, changesOf(['c.example', 'd.example'], 'block')))
    .rejects.toMatchObject({ name: 'ListChangesError', retryAfterSeconds: expect.any(Number) })
  expect(await lists().find(ORG, ['x@c.example'])).toEqual([undefined])
  // What was refused leaves room for fewer.
  expect(await change(['c.example'], 'block', { maxEntries: 5 })).toBe(1)
})

it('the stores have nothing of an entry, and nothing at all after the erasure', async () => {
  await change(['jane@secret.example', '+493012345678'], 'suppress')
  const keys = await redis.keys('*')
  const values = await Promise.all(keys.map(key => redis.dumpBuffer(key)))
  const sent = ['contact.lists', 'accounts'].flatMap(topic => environment.bus.messages(topic))
  expect(sent.length).toBeGreaterThan(1)
  const stored = [...keys, ...[...values, ...sent.map(({ value }) => value)].map(String)].join(' ')
  for (const text of ['secret', 'jane', '4930', '12345678']) expect(stored).not.toContain(text)
  await eraseContactLists(redis, ORG)
  expect(await redis.keys('*:list:*')).toEqual([])
})

it('nothing is read or changed while entries may be missing', async () => {
  await change(['a.example'], 'block')
  await redis.del(ACCOUNTS_RUN_KEY)
  await expect(lists().find(ORG, ['x@a.example'])).rejects.toThrow(AccountsRecoveringError)
  await expect(change(['b.example'], 'block')).rejects.toThrow(AccountsRecoveringError)
})

it('a restart of Redis during a change or a look-up is never overlooked', async () => {
  await change(['a.example'], 'block')
  // A process that has read the lists before.
  const reader = lists()
  expect(await reader.find(ORG, ['x@a.example'])).toEqual(['block'])
  const writer = lists().change(ORG, changesOf(['b.example'], 'block'))
  // Nobody ships: the restart takes the change with it.
  await expect.poll(() => redis.exists(LISTS_OUTBOX_KEY)).toBe(1)
  const refused = expect(writer).rejects.toThrow(AccountsRecoveringError)
  await restart()
  await redis.flushall()
  await refused
  await expect(reader.find(ORG, ['x@a.example'])).rejects.toThrow(AccountsRecoveringError)
  await restoreAccounts(environment.deps, signal)
  expect(await reader.find(ORG, ['x@a.example', 'x@b.example'])).toEqual(['block', undefined])
})

const DOMAINS = ['a.example', 'b.a.example', 'c.b.a.example', 'd.example']
const changeArbitrary = fc.record({
  texts: fc.uniqueArray(
    fc.constantFrom(...DOMAINS, 'x@a.example', 'x@d.example'), { minLength: 1 }),
  action: fc.constantFrom(...LIST_ACTIONS, 'remove' as const),
})

it('what Redis loses is restored from the topic, in the order of the changes', async () => {
  let runs = 0
  await fc.assert(fc.asyncProperty(
    fc.array(changeArbitrary, { minLength: 1, maxLength: 6 }), fc.nat({ max: 5 }),
    async (changes, keptChanges) => {
      const org = `org_${++runs}`
      const wanted = new Map<string, ListAction>()
      let kept: Buffer[] = []
      const keys = async () => await redis.keys('*list*')
      const dump = async () => await Promise.all((await keys()).map(key => redis.dumpBuffer(key)))
      let keptKeys: string[] = []
      for (const [index, { texts, action }] of changes.entries()) {
        if (index === keptChanges) [keptKeys, kept] = [await keys(), await dump() as Buffer[]]
        await change(texts, action, { org })
        for (const text of texts) {
          if (action === 'remove') wanted.delete(text)
          else wanted.set(text, action)
        }
      }
      // Redis has an older state of the lists, or none.
      const later = await keys()
      if (later.length > 0) await redis.del(...later)
      for (const [index, key] of keptKeys.entries()) await redis.restore(key, 0, kept[index]!)
      await restoreAccounts(environment.deps, signal)
      const contacts = [...DOMAINS.map(domain => `y@${domain}`), 'x@a.example', 'x@d.example']
      const found = await lists().find(org, contacts) ?? contacts.map(() => undefined)
      const expected = contacts.map(contact => {
        const labels = contact.slice(2).split('.')
        const names = [contact, ...labels.map((_, at) => labels.slice(at).join('.'))]
        return names.map(name => wanted.get(name)).find(action => action !== undefined)
      })
      expect(found).toEqual(expected)
      const counted = (action: ListAction) =>
        [...wanted.values()].filter(each => each === action).length
      expect(await lists().count(org)).toEqual({
        allow: counted('allow'), block: counted('block'), suppress: counted('suppress'),
      })
    }), { numRuns: 25 })
})
