import { createHmac } from 'node:crypto'
import { type MessageKeySettings, deriveSubkey } from '../runtime/crypto/mac.ts'
import { newId } from '../runtime/platform/ids.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { ERASED_FIELD, type OrganizationKeys } from './organization-keys.ts'
import {
  createAccountRecords, indexKeysIn, listAccount, organizationRecord, organizationsOfPerson,
  PEOPLE_INDEX_FIELD, type Wrapped, wrappedFields,
} from './records.ts'

export const ROLES = ['owner', 'developer', 'finance', 'read-only'] as const

export type Role = typeof ROLES[number]

/** What finds the organizations of a person: their address, and later their sign-in. */
type IndexedPerson = {
  /** In lower case. */
  readonly email: string
  /** The account at the sign-in provider; '' before the first sign-in. */
  readonly issuer: string
  readonly subject: string
}

/** A member of an organization who signs in to the workspace page through a provider. */
export type Person = IndexedPerson & {
  /** `per_` and a ULID in lower case; a person who is added again gets a new one. */
  readonly id: string
  readonly role: Role
  readonly createdAtMs: number
  /** Who added the person, such as 'operator'. */
  readonly createdBy: string
  /** Sessions of an earlier generation have ended. */
  readonly generation: number
}

/** What a provider says about a browser. */
export type Identity = {
  readonly issuer: string
  readonly subject: string
  /** The address, if the provider has verified it; '' otherwise. */
  readonly email: string
}

export type Membership = { readonly orgId: string, readonly person: Person }

/** A change that is not allowed; the message says what is. */
export class PeopleError extends Error {
  override readonly name = 'PeopleError'
}

export type People = ReturnType<typeof createPeople>

type NewPerson = { readonly email: string, readonly role: Role, readonly createdBy: string }
type List = readonly Person[]

const MAX_PEOPLE = 200
const MAX_ADDRESS_CHARACTERS = 254
/** ASCII only: letters of other alphabets look like these, and some become these in lower case. */
const ADDRESS = /^[\x21-\x3f\x41-\x7e]+@[a-z0-9-]+(\.[a-z0-9-]+)+$/i

/** Field of `org:<id>`: its people, as JSON that the organization's key wraps. */
const PEOPLE_FIELD = 'people'
const buildBinding = (orgId: string) => ['people', orgId]

type Options = {
  readonly redis: RedisClient
  /** Of the class `webhooks`. */
  readonly keys: OrganizationKeys
  readonly messageKeys: MessageKeySettings['MESSAGE_KEYS']
  readonly now?: () => number
}

/**
 * The people of each organization, in its account record, so that every change is atomic and
 * reaches the topic `accounts`. They are wrapped by the organization's key, so that its erasure
 * makes all earlier versions unreadable. Sets by address and by account at the provider list
 * organizations; they may list too many, and the record decides. An erased organization has no
 * people. All methods throw AccountsRecoveringError while a change may be missing in Redis.
 */
export function createPeople ({ redis, keys, messageKeys, now = Date.now }: Options) {
  const index = createPersonIndex(messageKeys)
  const records = createPeopleRecords({ redis, keys, index })
  const { read, edit } = records
  const replace = (orgId: string, id: string, change: (old: Person) => Partial<Person>) =>
    edit(orgId, list => {
      const old = list.find(person => person.id === id)
      if (old === undefined) return undefined
      const made = { ...old, ...change(old) }
      return { list: list.map(person => person === old ? made : person), made }
    })

  return {
    /** All people of an organization, oldest first. */
    list: async (orgId: string): Promise<List> => (await read(orgId)).list,

    find: async (orgId: string, id: string): Promise<Person | undefined> =>
      (await read(orgId)).list.find(person => person.id === id),

    /**
     * Adds a person; undefined if there is no such organization, or it was erased.
     * @throws PeopleError for an address that is invalid or a member already.
     */
    add: async (orgId: string, wanted: NewPerson) => {
      const made = newPerson(wanted, now())
      return await edit(orgId, list => {
        checkNew(list, made.email)
        return { list: [...list, made], made }
      })
    },

    /**
     * Changes a role, which applies to the next request of the person; undefined if there is none.
     * @throws PeopleError if the organization would have no owner any more.
     */
    changeRole: (orgId: string, id: string, role: Role) => replace(orgId, id, () => ({ role })),

    /**
     * Removes a person, whose sessions end, and returns it; undefined if there is none.
     * @throws PeopleError if the organization would have no owner any more.
     */
    remove: (orgId: string, id: string) => edit(orgId, list => {
      const made = list.find(person => person.id === id)
      return made && { list: list.filter(person => person !== made), made }
    }),

    /** Ends all sessions of a person; undefined if there is none. */
    endSessions: (orgId: string, id: string) =>
      replace(orgId, id, ({ generation }) => ({ generation: generation + 1 })),

    /**
     * The organizations of a person who has just signed in, by account at the provider. A person
     * who has never signed in is found by the verified address, and from then on by this account
     * only: the next holder of an address gets no access.
     */
    membershipsOf: (identity: Identity) => findMemberships({ redis, index }, records, identity),
  }
}

type Edited = { readonly list: List, readonly made: Person }
type PeopleRecords = ReturnType<typeof createPeopleRecords>

type Indexed = Pick<Options, 'redis'> & { readonly index: PersonIndex }

function createPeopleRecords ({ redis, keys, index }: Pick<Options, 'keys'> & Indexed) {
  const records = createAccountRecords(redis)
  /** A revision of 0 without an organization that may have people. */
  const read = async (orgId: string): Promise<{ revision: number, list: List }> => {
    const { revision = 0, fields = {} } = await records.readCurrent(organizationRecord(orgId)) ?? {}
    if (fields[ERASED_FIELD] !== undefined) return { revision: 0, list: [] }
    const wrapped = fields[PEOPLE_FIELD] ?? ''
    if (wrapped === '') return { revision, list: [] }
    const text = await keys.unwrap(orgId, Buffer.from(wrapped, 'base64'), buildBinding(orgId))
    return { revision, list: JSON.parse(text.toString()) as List }
  }
  return {
    read,

    /** The sets may lack organizations until all records are restored; no record has this name. */
    requireCurrent: () => records.readCurrent(PEOPLE_INDEX_FIELD),

    /** Applies a change to the people; it runs again if another process changed the record. */
    async edit (
      orgId: string, change: (list: List) => Edited | undefined
    ): Promise<Person | undefined> {
      for (;;) {
        const { revision, list } = await read(orgId)
        const edited = revision === 0 ? undefined : change(list)
        if (edited === undefined) return undefined
        const hasOwner = (people: List) => people.some(({ role }) => role === 'owner')
        if (hasOwner(list) && !hasOwner(edited.list)) {
          throw new PeopleError('This is the last owner of the organization. Make another person ' +
            'an owner first.')
        }
        const name = organizationRecord(orgId)
        const content = Buffer.from(JSON.stringify(edited.list))
        const wrapped = await keys.wrap(orgId, content, buildBinding(orgId))
        const fields = {
          [PEOPLE_FIELD]: wrapped.toString('base64'),
          [PEOPLE_INDEX_FIELD]: index.fieldOf(edited.list),
        }
        // Listed first, so that a crash leaves no person whom a sign-in does not find.
        await listAccount(redis, { name, fields })
        if (await records.change({ name, from: revision, fields })) return edited.made
      }
    },
  }
}

/** The wrapped people of an organization. */
export async function wrappedPeople (
  redis: RedisClient, orgId: string
): Promise<readonly Wrapped[]> {
  return await wrappedFields(createAccountRecords(redis), organizationRecord(orgId),
    [{ field: PEOPLE_FIELD, binding: buildBinding(orgId), class: 'webhooks' }])
}

/** Deletes what is stored of the people of an erased organization. It needs no key. */
export async function erasePeople (redis: RedisClient, orgId: string): Promise<void> {
  const records = createAccountRecords(redis)
  const name = organizationRecord(orgId)
  const { fields = {} } = await records.read(name) ?? {}
  if ((fields[PEOPLE_FIELD] ?? '') === '') return
  // The sets come first: without the record nothing says which ones list the organization.
  for (const key of indexKeysIn(fields[PEOPLE_INDEX_FIELD])) await redis.srem(key, orgId)
  await records.change({ name, fields: { [PEOPLE_FIELD]: '', [PEOPLE_INDEX_FIELD]: '[]' } })
}

async function findMemberships (
  { redis, index }: Indexed, records: PeopleRecords, given: Identity
): Promise<readonly Membership[]> {
  const identity = { ...given, email: addressIn(given.email) ?? '' }
  await records.requireCurrent()
  const orgIds = await Promise.all(index.keysOf(identity).map(key => redis.smembers(key)))
  const memberships = await Promise.all([...new Set(orgIds.flat())].toSorted().map(async orgId => {
    const person = await bind(records, orgId, identity)
    return person === undefined ? [] : [{ orgId, person }]
  }))
  return memberships.flat()
}

/** The person with this account in an organization; binds one who has never signed in. */
async function bind (
  { read, edit }: PeopleRecords, orgId: string, { issuer, subject, email }: Identity
): Promise<Person | undefined> {
  const isBound = (person: Person) => person.issuer === issuer && person.subject === subject
  const bound = (await read(orgId)).list.find(isBound)
  if (bound !== undefined || email === '') return bound
  return await edit(orgId, list => {
    const old = list.find(person => person.issuer === '' && person.email === email)
    if (old === undefined || list.some(isBound)) return undefined
    const made = { ...old, issuer, subject }
    return { list: list.map(person => person === old ? made : person), made }
  })
}

/** The address in lower case; undefined for a text that is none. */
function addressIn (email: string): string | undefined {
  const text = email.trim()
  const isAddress = text.length <= MAX_ADDRESS_CHARACTERS && ADDRESS.test(text)
  return isAddress ? text.toLowerCase() : undefined
}

function newPerson ({ email, role, createdBy }: NewPerson, nowMs: number): Person {
  return {
    id: newId('per', nowMs),
    email: parseAddress(email),
    role,
    createdBy,
    createdAtMs: nowMs,
    issuer: '',
    subject: '',
    generation: 0,
  }
}

function parseAddress (email: string): string {
  const address = addressIn(email)
  if (address === undefined) {
    throw new PeopleError(`"${email.trim()}" is not an e-mail address: use one like ` +
      'ann@example.com, in ASCII characters.')
  }
  return address
}

function checkNew (list: List, address: string): void {
  if (list.some(({ email }) => email === address)) {
    throw new PeopleError(`${address} is a member already. Change the role instead.`)
  }
  if (list.length >= MAX_PEOPLE) {
    throw new PeopleError(`The organization has ${MAX_PEOPLE} people already. Remove one first.`)
  }
}

/** Whether a text names a role. */
export function isPersonRole (text: string): text is Role {
  return ROLES.some(role => role === text)
}

type PersonIndex = ReturnType<typeof createPersonIndex>

/**
 * Finds people by digests. The topic `accounts` keeps them when an organization is erased, and a
 * plain hash of an address could be guessed, so they are HMACs with a key derived from a message
 * key: from that whose id sorts first when stored, from each one when searched, because a new key
 * may have an id that sorts before the others.
 */
function createPersonIndex (messageKeys: MessageKeySettings['MESSAGE_KEYS']) {
  const keys = Object.keys(messageKeys).sort().map(id =>
    deriveSubkey(messageKeys[id] ?? '', 'people'))
  const computeDigests = (...parts: readonly string[]) => keys.map(key =>
    createHmac('sha256', key).update(JSON.stringify(parts)).digest('hex'))
  const ofAddress = (email: string) => computeDigests('address', email)
  const ofAccount = (issuer: string, subject: string) => computeDigests('account', issuer, subject)
  return {
    /** The sets of the organizations that may have a person with this account or address. */
    keysOf: ({ email, issuer, subject }: IndexedPerson): readonly string[] =>
      [...ofAccount(issuer, subject), ...email === '' ? [] : ofAddress(email)]
        .map(organizationsOfPerson),

    /** The value of the field for people. */
    fieldOf: (people: readonly IndexedPerson[]): string =>
      JSON.stringify(people.flatMap(({ email, issuer, subject }) =>
        [ofAddress(email)[0], ...issuer === '' ? [] : [ofAccount(issuer, subject)[0]]])),
  }
}
