import { createHmac, randomBytes } from 'node:crypto'
import { domainToASCII } from 'node:url'
import { LRUCache } from 'lru-cache'
import { LIST_ACTIONS, MAX_LIST_ENTRIES } from '../../schemas/api/contact-lists.ts'
import type { ContactListChange } from '../../schemas/types.ts'
import { InfrastructureError } from '../runtime/platform/errors.ts'
import { yieldToEventLoop } from '../runtime/platform/event-loop.ts'
import { globalKey, type RedisClient, RUN_ID_LUA, script } from '../runtime/platform/redis.ts'
import { sleep } from '../runtime/platform/retry.ts'
import type { OrganizationKeys } from './organization-keys.ts'
import { LISTS_FIELD } from './organizations.ts'
import {
  type AccountRecords, ACCOUNTS_CACHE_MS, ACCOUNTS_RUN_KEY, createAccountRecords, type Wrapped,
  wrappedFields,
} from './records.ts'

export type ListAction = typeof LIST_ACTIONS[number]

/** A text is no entry; the message says what to write. */
export class ListEntryError extends RangeError {
  override readonly name = 'ListEntryError'
  /** Its place among the texts, from 0. */
  readonly index: number

  constructor (message: string, index: number) {
    super(message)
    this.index = index
  }
}

/** The organization has changed as many entries as it may in 24 hours. */
export class ListChangesError extends RangeError {
  override readonly name = 'ListChangesError'
  readonly retryAfterSeconds: number

  constructor (message: string, retryAfterSeconds: number) {
    super(message)
    this.retryAfterSeconds = retryAfterSeconds
  }
}

/** There is no room for further entries. */
export class ListsFullError extends RangeError {
  override readonly name = 'ListsFullError'
}

/**
 * An entry, as it is compared: an address in lower case, a domain in ASCII, a number in E.164, or
 * its beginning. `shape` is `address`, `number`, `domain:<labels>` or `prefix:<length>`.
 */
type Entry = { readonly shape: string, readonly value: string }

const ADDRESS = /^[^\s"(),:;<>@[\]\\]{1,64}@([^@]+)$/
const NUMBER = /^\+[1-9]\d{6,14}$/
const PREFIX = /^(\+[1-9]\d{0,13})\*$/
const DOMAIN = /^(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z][a-z0-9-]{0,62}$/

/**
 * The entry in a text: `jane@example.com`, `example.com` with its subdomains, `.xyz`,
 * `+493012345678`, or `+4930*` for all numbers that begin so.
 * Undefined for another text.
 */
function parseEntry (text: string): Entry | undefined {
  const compact = text.trim()
  const [, domainPart] = ADDRESS.exec(compact) ?? []
  const number = compact.replace(/[\s().-]/g, '')
  const [, prefix] = PREFIX.exec(number) ?? []
  if (prefix !== undefined) return { shape: `prefix:${prefix.length}`, value: prefix }
  if (NUMBER.test(number)) return { shape: 'number', value: number }
  const domain = asciiDomain(domainPart ?? compact.replace(/^(?:\*\.|[.@])/, ''))
  // A word is no top-level domain unless it is written like one.
  if (domain === undefined || (labelsIn(domain) === 1 && !/^\*?\./.test(compact))) return undefined
  if (domainPart === undefined) return { shape: `domain:${labelsIn(domain)}`, value: domain }
  const local = compact.slice(0, -domainPart.length - 1)
  return { shape: 'address', value: addressOf(local, domain) }
}

const MAX_SHOWN = 80

/** Yields to other work between parts of long lists. */
async function parseEntries (
  texts: readonly string[], orgId: string, isWanted = (_entry: Entry) => true
): Promise<readonly Entry[]> {
  const entries: Entry[] = []
  for (const [index, text] of texts.entries()) {
    if (index % ENTRIES_OF_CHANGE === 0) await yieldToEventLoop('bulk', orgId)
    const entry = parseEntry(text)
    if (entry === undefined || !isWanted(entry)) {
      const shown = text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}...` : text
      throw new ListEntryError(`"${shown}" cannot be used here. ${ADVICE}`, index)
    }
    entries.push(entry)
  }
  return entries
}

const ADVICE = 'Write an address such as jane@example.com, a number such as +493012345678, and ' +
  'in lists also example.com for a domain with its subdomains, .xyz for a top-level domain, or ' +
  '+4930* for all numbers that begin so.'

function asciiDomain (text: string): string | undefined {
  const name = (/^[ -~]*$/.test(text) ? text.toLowerCase() : domainToASCII(text)).replace(/\.$/, '')
  return DOMAIN.test(name) ? name : undefined
}

const labelsIn = (domain: string) => domain.split('.').length

/** Rows keep the case of the local part, which names one mailbox. */
const addressOf = (local: string, domain: string) =>
  `${local.normalize('NFC').toLowerCase()}@${domain}`

/** What a contact is compared with, the most specific first, of the shapes that lists have. */
function entriesFor (contact: string, shapes: ReadonlySet<string>): readonly Entry[] {
  const at = contact.lastIndexOf('@')
  const [local, domain] = [contact.slice(0, Math.max(0, at)), contact.slice(at + 1)]
  const whole = at < 0
    ? { shape: 'number', value: contact }
    : { shape: 'address', value: addressOf(local, domain) }
  const labels = domain.split('.')
  const entries = shapes.has(whole.shape) ? [whole] : []
  for (let length = at < 0 ? contact.length : labels.length; length > 0; length--) {
    const shape = at < 0 ? `prefix:${length}` : `domain:${length}`
    if (!shapes.has(shape)) continue
    const value = at < 0 ? contact.slice(0, length) : labels.slice(-length).join('.')
    entries.push({ shape, value })
  }
  return entries
}

/** The name of the record with the key of an organization's lists and the shapes of its entries. */
const listsOf = (orgId: string) => `lists:${orgId}`
const KEY_FIELD = 'key'
const SHAPES_FIELD = 'shapes'
const KEY_BYTES = 32
const DIGEST_BYTES = 12
/** Digests are spread over so many hashes, so that Redis stores each in its compact form. */
const BUCKETS = 4_096
const bucketsOf = (orgId: string) => globalKey(`list:${orgId}:`)
/** By the first 12 bits, as in APPLY. */
const bucketOf = (orgId: string, digest: Buffer) =>
  `${bucketsOf(orgId)}${digest.readUInt16BE() >> 4}`
/** Hash: the version of the last change, by organization. */
const VERSIONS_KEY = globalKey('lists:versions')
/** Stream: changes that the topic `contact.lists` has not acknowledged. */
export const LISTS_OUTBOX_KEY = globalKey('lists:outbox')
/** A script blocks Redis for a few milliseconds. */
const ENTRIES_OF_CHANGE = 2_000
const CACHED_ORGANIZATIONS = 10_000
const SHIPPED_WITHIN_MS = 10_000
const POLL_MS = 50
const DAY_SECONDS = 86_400
/** String: the entries that an organization has changed since its first change of 24 hours. */
const changedKey = (orgId: string) => globalKey(`lists:changed:${orgId}`)

/** Entries have the first letter of their action. */
const APPLY = `
local function apply(buckets, action, digests)
  for at = 1, #digests, ${DIGEST_BYTES} do
    local digest = string.sub(digests, at, at + ${DIGEST_BYTES - 1})
    local first, second = string.byte(digest, 1, 2)
    local bucket = buckets .. (first * 16 + math.floor(second / 16))
    if action == 'remove' then
      redis.call('HDEL', bucket, digest)
    else
      redis.call('HSET', bucket, digest, string.sub(action, 1, 1))
    end
  end
end`

/** KEYS: versions, outbox, run, buckets. ARGV: organization, action, digests. */
const CHANGE = `${APPLY}
if redis.call('GET', KEYS[3]) ~= ${RUN_ID_LUA} then
  return redis.error_reply(
    'RECOVERING accounts are locked until ledger has restored them from topic accounts')
end
apply(KEYS[4], ARGV[2], ARGV[3])
local version = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
return redis.call('XADD', KEYS[2], '*', 'organization', ARGV[1], 'version', version,
  'action', ARGV[2], 'digests', ARGV[3])`

/**
 * KEYS: versions, buckets. ARGV: organization, version, action, digests. What Redis has is the
 * result of all changes up to its version.
 */
const RESTORE = `${APPLY}
if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0') >= tonumber(ARGV[2]) then
  return 0
end
apply(KEYS[2], ARGV[3], ARGV[4])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1`

type Lists = { readonly key: Buffer, readonly shapes: ReadonlySet<string> }

export type ContactListsDeps = {
  readonly redis: RedisClient
  /** Of the class `results`. */
  readonly keys: Pick<OrganizationKeys, 'wrap' | 'unwrap'>
  /** The most entries, and changes in 24 hours; MAX_LIST_ENTRIES by default. */
  readonly maxEntries?: number
}

/**
 * The allow, block and suppression lists of organizations. Redis and the topic `contact.lists` have
 * digests of the entries only, by a key that a key of the organization wraps, so that they mean
 * nothing once the organization is erased. So entries can be looked up, not listed.
 */
export class ContactLists {
  readonly #redis: RedisClient
  readonly #keys: ContactListsDeps['keys']
  readonly #maxEntries: number
  readonly #records: AccountRecords
  readonly #apply: ReturnType<typeof script>
  readonly #lists = new LRUCache<string, { readonly lists: Lists | undefined }>({
    max: CACHED_ORGANIZATIONS, ttl: ACCOUNTS_CACHE_MS,
  })

  constructor ({ redis, keys, maxEntries = MAX_LIST_ENTRIES }: ContactListsDeps) {
    this.#maxEntries = maxEntries
    this.#redis = redis
    this.#keys = keys
    this.#records = createAccountRecords(redis)
    this.#apply = script(redis, { name: 'change-lists', source: CHANGE, numberOfKeys: 4 })
  }

  /**
   * Adds entries, or changes what is wanted for them; `remove` removes them. Idempotent. Resolves
   * to the number of entries, once the topic has the change.
   * @throws ListEntryError for a text that is no entry; then nothing is changed.
   * @throws ListsFullError beyond MAX_LIST_ENTRIES; then nothing is changed.
   * @throws ListChangesError beyond as many changes in 24 hours, as the topic keeps each of them.
   * @throws InfrastructureError when it is not known to be kept; then it can be repeated.
   */
  async change (
    orgId: string, texts: readonly string[], action: ListAction | 'remove'
  ): Promise<number> {
    const entries = await parseEntries(texts, orgId)
    if (action !== 'remove') await this.#checkRoom(orgId, entries.length)
    const lists = action === 'remove'
      ? await this.#read(orgId)
      : await this.#widen(orgId, entries.map(({ shape }) => shape))
    if (lists === undefined) return 0
    await this.#countChanges(orgId, entries.length)
    const keys = [VERSIONS_KEY, LISTS_OUTBOX_KEY, ACCOUNTS_RUN_KEY, bucketsOf(orgId)]
    let change = ''
    for (let from = 0; from < entries.length; from += ENTRIES_OF_CHANGE) {
      await yieldToEventLoop('bulk', orgId)
      const digests = entries.slice(from, from + ENTRIES_OF_CHANGE)
        .map(entry => digestOf(lists, nameOf(entry)))
      change = await this.#apply(keys, [orgId, action, Buffer.concat(digests)]) as string
    }
    await this.#whenShipped(change)
    return await this.count(orgId)
  }

  /** The number of entries. */
  async count (orgId: string): Promise<number> {
    if (await this.#read(orgId) === undefined) return 0
    const pipeline = this.#redis.pipeline()
    for (let bucket = 0; bucket < BUCKETS; bucket++) pipeline.hlen(`${bucketsOf(orgId)}${bucket}`)
    const sizes = await resultsOf(pipeline)
    return sizes.reduce<number>((sum, size) => sum + Number(size), 0)
  }

  /**
   * What is wanted for contacts, which are canonical forms or blank; undefined if the organization
   * has no lists. The most specific entry of a contact decides.
   * @throws AccountsRecoveringError while entries may be missing after a loss of Redis.
   */
  async find (
    orgId: string, contacts: readonly string[]
  ): Promise<readonly (ListAction | undefined)[] | undefined> {
    const lists = await this.#read(orgId)
    if (lists === undefined) return undefined
    const candidates = contacts.map(contact =>
      entriesFor(contact, lists.shapes).map(nameOf))
    const actions = await this.#actions(orgId, lists, new Set(candidates.flat()))
    return candidates.map(names =>
      names.map(name => actions.get(name)).find(action => action !== undefined))
  }

  /**
   * What is wanted for addresses and numbers, as people write them.
   * @throws ListEntryError for another text.
   */
  async lookUp (
    orgId: string, texts: readonly string[]
  ): Promise<readonly (ListAction | undefined)[]> {
    const isContact = ({ shape }: Entry) => shape === 'address' || shape === 'number'
    const contacts = await parseEntries(texts, orgId, isContact)
    return await this.find(orgId, contacts.map(({ value }) => value)) ?? []
  }

  async #actions (
    orgId: string, lists: Lists, names: ReadonlySet<string>
  ): Promise<ReadonlyMap<string, ListAction>> {
    const buckets = new Map<string, { readonly names: string[], readonly digests: Buffer[] }>()
    for (const name of names) {
      const digest = digestOf(lists, name)
      const key = bucketOf(orgId, digest)
      const bucket = buckets.get(key) ?? { names: [], digests: [] }
      bucket.names.push(name)
      bucket.digests.push(digest)
      buckets.set(key, bucket)
    }
    const pipeline = this.#redis.pipeline()
    for (const [key, { digests }] of buckets) pipeline.hmget(key, ...digests)
    const replies = await resultsOf(pipeline) as (string | null)[][]
    const actions = new Map<string, ListAction>()
    for (const [index, { names: inBucket }] of [...buckets.values()].entries()) {
      for (const [at, letter] of replies[index]?.entries() ?? []) {
        const action = LIST_ACTIONS.find(([first]) => first === letter)
        if (action !== undefined) actions.set(inBucket[at] ?? '', action)
      }
    }
    return actions
  }

  async #read (orgId: string): Promise<Lists | undefined> {
    const cached = this.#lists.get(orgId)
    if (cached !== undefined) return cached.lists
    const { fields = {} } = await this.#records.readCurrent(listsOf(orgId)) ?? {}
    const lists = await this.#open(orgId, fields)
    this.#lists.set(orgId, { lists })
    return lists
  }

  async #open (
    orgId: string, { [KEY_FIELD]: wrapped = '', [SHAPES_FIELD]: shapes = '' }: Fields
  ): Promise<Lists | undefined> {
    if (wrapped === '') return undefined
    const key = await this.#keys.unwrap(orgId, Buffer.from(wrapped, 'base64'), bindingOf(orgId))
    return { key, shapes: new Set(shapes.split(' ')) }
  }

  /** The lists, once their record has these shapes: an entry is found by a shape that it has. */
  async #widen (orgId: string, shapes: readonly string[]): Promise<Lists> {
    for (;;) {
      const name = listsOf(orgId)
      const { revision: from = 0, fields = {} } = await this.#records.readCurrent(name) ?? {}
      const before = await this.#open(orgId, fields)
      const key = before?.key ?? randomBytes(KEY_BYTES)
      const all = new Set([...before?.shapes ?? [], ...shapes])
      if (before !== undefined && all.size === before.shapes.size) return before
      const wrapped = before === undefined
        ? (await this.#keys.wrap(orgId, key, bindingOf(orgId))).toString('base64')
        : fields[KEY_FIELD] ?? ''
      if (before === undefined) {
        await this.#records.change({ name: `org:${orgId}`, fields: { [LISTS_FIELD]: '1' } })
      }
      const after = { [KEY_FIELD]: wrapped, [SHAPES_FIELD]: [...all].join(' ') }
      if (!await this.#records.change({ name, from, fields: after })) continue
      this.#lists.delete(orgId)
      return { key, shapes: all }
    }
  }

  async #checkRoom (orgId: string, entries: number): Promise<void> {
    const before = await this.count(orgId)
    if (before + entries <= this.#maxEntries) return
    throw new ListsFullError(`The lists have ${before} entries, and ${entries} more would exceed ` +
      `${this.#maxEntries}. Remove entries that you no longer need.`)
  }

  async #countChanges (orgId: string, entries: number): Promise<void> {
    const key = changedKey(orgId)
    await this.#redis.set(key, 0, 'EX', DAY_SECONDS, 'NX')
    const changed = await this.#redis.incrby(key, entries)
    if (changed <= this.#maxEntries) return
    throw new ListChangesError(
      `${this.#maxEntries} entries may be changed in 24 hours, and these ${entries} would exceed ` +
      'that. Send them later.', Math.max(1, await this.#redis.ttl(key)))
  }

  async #whenShipped (change: string): Promise<void> {
    for (let leftMs = SHIPPED_WITHIN_MS; leftMs > 0; leftMs -= POLL_MS) {
      if ((await this.#redis.xrange(LISTS_OUTBOX_KEY, change, change)).length === 0) return
      await sleep(POLL_MS)
    }
    throw new InfrastructureError('ledger has not sent a change of contact lists to topic ' +
      'contact.lists in time: check that a ledger is running and Kafka is available')
  }
}

/** The replies of a pipeline; throws the first error among them. */
async function resultsOf (
  pipeline: ReturnType<RedisClient['pipeline']>
): Promise<readonly unknown[]> {
  return (await pipeline.exec() ?? []).map(([error, reply]) => {
    if (error !== null) throw error
    return reply
  })
}

type Fields = Readonly<Record<string, string>>

const bindingOf = (orgId: string) => ['contact-lists', orgId]

const nameOf = ({ shape, value }: Entry) => `${shape} ${value}`

function digestOf ({ key }: Lists, name: string): Buffer {
  return createHmac('sha256', key).update(name).digest().subarray(0, DIGEST_BYTES)
}

/** The wrapped key of an organization's lists, if it has any. */
export async function wrappedListsKey (
  redis: RedisClient, orgId: string
): Promise<readonly Wrapped[]> {
  return await wrappedFields(createAccountRecords(redis), listsOf(orgId),
    [{ field: KEY_FIELD, binding: bindingOf(orgId), class: 'results' }])
}

const CHANGES_AT_ONCE = 100

type PendingChange = { readonly id: string, readonly change: ContactListChange }

/** The oldest changes that the topic has not acknowledged. */
export async function pendingListChanges (redis: RedisClient): Promise<readonly PendingChange[]> {
  const entries = await redis.xrangeBuffer(LISTS_OUTBOX_KEY, '-', '+', 'COUNT', CHANGES_AT_ONCE)
  return entries.map(([id, fields]) => {
    const field = (name: string) =>
      fields[fields.findIndex((text, at) => at % 2 === 0 && text.toString() === name) + 1]
    const text = (name: string) => String(field(name) ?? '')
    const change = {
      organization: text('organization'),
      version: Number(text('version')),
      action: text('action'),
      digests: field('digests') ?? Buffer.alloc(0),
    }
    return { id: id.toString(), change }
  })
}

/** An empty stream would stay, and ledger looks for one that exists. */
const REMOVE_CHANGES = `
redis.call('XDEL', KEYS[1], unpack(ARGV))
if redis.call('XLEN', KEYS[1]) == 0 then
  redis.call('DEL', KEYS[1])
end`

/** Removes changes that the topic has acknowledged. Idempotent. */
export async function removeListChanges (
  redis: RedisClient, changes: readonly PendingChange[]
): Promise<void> {
  if (changes.length === 0) return
  const remove = script(redis, { name: 'remove-lists', source: REMOVE_CHANGES, numberOfKeys: 1 })
  await remove([LISTS_OUTBOX_KEY], changes.map(({ id }) => id))
}

/** Applies changes of the topic, in its order, that Redis has lost; resolves to their number. */
export async function restoreListChanges (
  redis: RedisClient, changes: readonly ContactListChange[]
): Promise<number> {
  const restore = script(redis, { name: 'restore-lists', source: RESTORE, numberOfKeys: 2 })
  let restored = 0
  for (const { organization, version, action, digests } of changes) {
    restored += Number(await restore(
      [VERSIONS_KEY, bucketsOf(organization)], [organization, version, action, digests]))
  }
  return restored
}

/** Deletes the entries of an erased organization. It needs no key. */
export async function eraseContactLists (redis: RedisClient, orgId: string): Promise<void> {
  const pipeline = redis.pipeline()
  for (let bucket = 0; bucket < BUCKETS; bucket++) pipeline.unlink(`${bucketsOf(orgId)}${bucket}`)
  await resultsOf(pipeline)
}
