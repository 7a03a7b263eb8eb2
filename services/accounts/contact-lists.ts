import { randomBytes } from 'node:crypto'
import { domainToASCII } from 'node:url'
import { LRUCache } from 'lru-cache'
import {
  ENTRY_KINDS, LIST_ACTIONS, type ListAction, MAX_LIST_ENTRIES,
} from '../../schemas/api/contact-lists.ts'
import { MAX_CONTACT_CHARACTERS } from '../../schemas/api/create-job.ts'
import type { ContactListChange } from '../../schemas/types.ts'
import { createShortMac, type ShortMac } from '../runtime/crypto/mac.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import { InfrastructureError } from '../runtime/platform/errors.ts'
import { eventLoop } from '../runtime/platform/limits.ts'
import { globalKey, type RedisClient, RUN_ID_LUA, script } from '../runtime/platform/redis.ts'
import { sleep } from '../runtime/platform/retry.ts'
import type { OrganizationKeys } from './organization-keys.ts'
import {
  type AccountRecords, ACCOUNTS_CACHE_MS, ACCOUNTS_RUN_KEY, createAccountRecords, unlessLocked,
  type Wrapped, wrappedFields,
} from './records.ts'

/** What is wanted for the contacts of an entry, as a person writes it. */
export type ListChange = {
  readonly text: string
  readonly action: ListAction | 'remove'
  /** Another kind is a fault; then `mx:`, the dot or the star may be left out of the text. */
  readonly kind?: EntryKind
}

type EntryKind = typeof ENTRY_KINDS[number]

type EntryFault = { readonly index: number, readonly message: string }

/** Texts are no entries; the message is about the first, and says what to write. */
export class ListEntryError extends RangeError {
  override readonly name = 'ListEntryError'
  /** The first of them, with their places among the texts, from 0. */
  readonly faults: readonly EntryFault[]
  /** How many there are. */
  readonly count: number

  constructor (faults: readonly EntryFault[], count: number) {
    super(faults[0]?.message)
    this.faults = faults
    this.count = count
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
 * An entry, as it is compared: an address in lower case, a domain or the name of a mail server in
 * ASCII, a number in E.164, or its beginning. `shape` is `address`, `number`, `domain:<labels>`,
 * `mx:<labels>` or `prefix:<length>`.
 */
type Entry = { readonly shape: string, readonly value: string }

const ADDRESS = /^[^\s"(),:;<>@[\]\\]{1,64}@([^@]+)$/
const NUMBER = /^\+[1-9]\d{6,14}$/
const PREFIX = /^(\+[1-9]\d{0,13})\*$/
const MAIL_SERVER = /^mx:\s*(?:\*?\.)?/i
/** A contact is compared with an entry of each number of labels that the lists have. */
const MAX_LABELS = 10
const DOMAIN = /^(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z][a-z0-9-]{0,62}$/

/**
 * The entry in a text: `jane@example.com`, `example.com` with its subdomains, `.xyz`,
 * `mx:mail.example.com` for domains with this mail server, or one below it, `+493012345678`, or
 * `+4930*` for all numbers that begin so. Undefined for another text.
 */
function parseEntry (text: string): Entry | undefined {
  const compact = text.trim()
  // The ASCII form of a long name would take seconds.
  if (compact.length > MAX_CONTACT_CHARACTERS) return undefined
  if (MAIL_SERVER.test(compact)) {
    const host = asciiDomain(compact.replace(MAIL_SERVER, ''))
    const labels = host === undefined ? 0 : labelsIn(host)
    if (host === undefined || labels < 2 || labels > MAX_LABELS) return undefined
    return { shape: `mx:${labels}`, value: host }
  }
  const [, domainPart] = ADDRESS.exec(compact) ?? []
  const number = compact.replace(/[\s().-]/g, '')
  const [, prefix] = PREFIX.exec(number) ?? []
  if (prefix !== undefined) return { shape: `prefix:${prefix.length}`, value: prefix }
  if (NUMBER.test(number)) return { shape: 'number', value: number }
  const domain = asciiDomain(domainPart ?? compact.replace(/^(?:\*\.|[.@])/, ''))
  // A word is no top-level domain unless it is written like one.
  if (domain === undefined || (labelsIn(domain) === 1 && !/^\*?\./.test(compact))) return undefined
  if (domainPart === undefined && labelsIn(domain) > MAX_LABELS) return undefined
  if (domainPart === undefined) return { shape: `domain:${labelsIn(domain)}`, value: domain }
  const local = compact.slice(0, -domainPart.length - 1)
  return { shape: 'address', value: joinAddress(local, domain) }
}

/** The ASCII form of each takes up to 0.2 ms. */
const ENTRIES_PER_STEP = 50
const MAX_SHOWN = 80
const MAX_FAULTS = 20

type EntryText = Pick<ListChange, 'text' | 'kind'>

/** Yields to other work between parts of long lists. */
async function parseEntries (
  texts: readonly EntryText[], orgId: string
): Promise<readonly Entry[]> {
  const entries: Entry[] = []
  const faults: EntryFault[] = []
  let faultCount = 0
  for (const [index, { text, kind }] of texts.entries()) {
    if (index % ENTRIES_PER_STEP === 0) await eventLoop.yield('bulk', orgId)
    const entry = parseEntry(kind === undefined ? text : completed(text.trim(), kind))
    const isWanted = kind === undefined || (entry !== undefined && entryKind(entry) === kind)
    if (entry !== undefined && isWanted) {
      entries.push(entry)
      continue
    }
    faultCount++
    if (faultCount > MAX_FAULTS) continue
    const shown = text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}...` : text
    const message = isWanted
      ? `"${shown}" is no entry. ${ENTRY_ADVICE}`
      : `"${shown}" is no entry of kind ${kind}.`
    faults.push({ index, message })
  }
  if (faultCount > 0) throw new ListEntryError(faults, faultCount)
  return entries
}

/** The kind of an entry, by its shape. */
function entryKind ({ shape }: Entry): EntryKind {
  const kind = ENTRY_KINDS.find(name => shape.startsWith(name)) ?? 'address'
  return shape === 'domain:1' ? 'tld' : kind
}

/** A text as it is written where nothing else says its kind. */
function completed (text: string, kind: EntryKind): string {
  if (kind === 'mx') return MAIL_SERVER.test(text) ? text : `mx:${text}`
  if (kind === 'tld') return text.startsWith('.') ? text : `.${text}`
  if (kind === 'prefix') return text.endsWith('*') ? text : `${text}*`
  return text
}

/** What an entry may be. */
const ENTRY_ADVICE = 'Write an address such as jane@example.com, example.com for a ' +
  'domain with its subdomains, .xyz for a top-level domain, mx:mail.example.com for a mail ' +
  'server, a number such as +493012345678, or +4930* for all numbers that begin so. A name has ' +
  `at most ${MAX_LABELS} labels.`

function asciiDomain (text: string): string | undefined {
  const name = (/^[ -~]*$/.test(text) ? text.toLowerCase() : domainToASCII(text)).replace(/\.$/, '')
  return DOMAIN.test(name) ? name : undefined
}

const labelsIn = (domain: string) => domain.split('.').length

/**
 * Rows keep the case of the local part, which names one mailbox, and the quotes around one that
 * needs them; entries have none.
 */
const joinAddress = (local: string, domain: string) =>
  `${local.normalize('NFC').toLowerCase().replace(/^"(.*)"$/, '$1')}@${domain}`

/** The names of the entries that decide about one, the most specific first. */
function namesFor ({ shape, value }: Entry, { shapes, lengths }: Lists): readonly string[] {
  if (value === '') return []
  const [kind = ''] = shape.split(':', 1)
  const isPhone = kind === 'number' || kind === 'prefix'
  const general = isPhone ? 'prefix' : kind === 'mx' ? 'mx' : 'domain'
  const names = kind === shape && shapes.has(shape) ? [entryName({ shape, value })] : []
  const wider = lengths.get(general) ?? []
  if (wider.length === 0) return names
  const labels = isPhone ? [] : value.slice(value.lastIndexOf('@') + 1).split('.')
  for (const length of wider) {
    if (length > (isPhone ? value.length : labels.length)) continue
    const part = isPhone ? value.slice(0, length) : labels.slice(-length).join('.')
    names.push(entryName({ shape: `${general}:${length}`, value: part }))
  }
  return names
}

/** The numbers of characters or labels in shapes, by kind, the most specific first. */
function lengthsIn (shapes: ReadonlySet<string>): ReadonlyMap<string, readonly number[]> {
  const general = [...shapes].filter(shape => shape.includes(':')).map(shape => shape.split(':'))
  return new Map([...Map.groupBy(general, ([kind = '']) => kind)].map(([kind, same]) =>
    [kind, same.map(([, length]) => Number(length)).sort((a, b) => b - a)]))
}

/** The name of the record with the key of an organization's lists and the shapes of its entries. */
const recordName = (orgId: string) => `lists:${orgId}`
const KEY_FIELD = 'key'
const SHAPES_FIELD = 'shapes'
const KEY_BYTES = 32
const DIGEST_BYTES = 12
/** Digests are spread over so many hashes, so that Redis stores each in its compact form. */
const BUCKETS = 4_096
const bucketNames = (orgId: string) => globalKey(`list:${orgId}:`)
/** Hash: the version of the last change, by organization. */
const VERSIONS_KEY = globalKey('lists:versions')
/** Stream: changes that the topic `contact.lists` has not acknowledged. */
export const LISTS_OUTBOX_KEY = globalKey('lists:outbox')
/** A script blocks Redis for a few milliseconds. */
const ENTRIES_OF_CALL = 2_000
const CACHED_ORGANIZATIONS = 10_000
const SHIPPED_WITHIN_MS = 10_000
const POLL_MS = 50
const DAY_SECONDS = 86_400
/** String: the entries that an organization has changed since its first change of 24 hours. */
const changedKey = (orgId: string) => globalKey(`lists:changed:${orgId}`)

/** Hash: how many entries an organization has, by the first letter of their action. */
const countsKey = (orgId: string) => globalKey(`lists:counts:${orgId}`)

/** The hash with a digest, by its first 12 bits. */
const BUCKET_OF = `
local function bucket_of(buckets, digest)
  local first, second = string.byte(digest, 1, 2)
  return buckets .. (first * 16 + math.floor(second / 16))
end`

/**
 * KEYS: buckets. ARGV: digests. Returns what is wanted for each, a letter, or a dash. A command for
 * each bucket would cost the caller several times the CPU: 2,000 digests need most of the buckets.
 */
const FIND = `${BUCKET_OF}
local letters = {}
for at = 1, #ARGV[1], ${DIGEST_BYTES} do
  local digest = string.sub(ARGV[1], at, at + ${DIGEST_BYTES - 1})
  letters[#letters + 1] = redis.call('HGET', bucket_of(KEYS[1], digest), digest) or '-'
end
return table.concat(letters)`

/** Entries have the first letter of their action. */
const APPLY = `${BUCKET_OF}
local function apply(buckets, counts, action, digests)
  local letter = action ~= 'remove' and string.sub(action, 1, 1)
  local changes = { a = 0, b = 0, s = 0 }
  for at = 1, #digests, ${DIGEST_BYTES} do
    local digest = string.sub(digests, at, at + ${DIGEST_BYTES - 1})
    local bucket = bucket_of(buckets, digest)
    local before = redis.call('HGET', bucket, digest)
    if before then
      changes[before] = changes[before] - 1
    end
    if letter then
      redis.call('HSET', bucket, digest, letter)
      changes[letter] = changes[letter] + 1
    elseif before then
      redis.call('HDEL', bucket, digest)
    end
  end
  for counted, change in pairs(changes) do
    redis.call('HINCRBY', counts, counted, change)
  end
end`

/**
 * KEYS: versions, outbox, run, buckets, counts. ARGV: organization, action, digests, the run in
 * which the key of the lists was read: what a later run has of it, it may have lost.
 */
const CHANGE = `${APPLY}
local run = ${RUN_ID_LUA}
if redis.call('GET', KEYS[3]) ~= run or run ~= ARGV[4] then
  return redis.error_reply(
    'RECOVERING accounts are locked until ledger has restored them from topic accounts')
end
apply(KEYS[4], KEYS[5], ARGV[2], ARGV[3])
local version = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
return redis.call('XADD', KEYS[2], '*', 'organization', ARGV[1], 'version', version,
  'action', ARGV[2], 'digests', ARGV[3])`

/**
 * KEYS: changed. ARGV: entries, the most in 24 hours, seconds. Returns 0, or after how many seconds
 * there is room for them: what is refused does not count.
 */
const COUNT_CHANGED = `
local changed = tonumber(redis.call('GET', KEYS[1]) or '0') + tonumber(ARGV[1])
if changed > tonumber(ARGV[2]) then
  return math.max(1, redis.call('TTL', KEYS[1]))
end
redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3], 'NX')
return 0`

/** KEYS: outbox. ARGV: a change, its run. Whether the topic has it; what is gone may be lost. */
const IS_SHIPPED = `
if ${RUN_ID_LUA} ~= ARGV[2] then
  return redis.error_reply('RECOVERING the change may be lost with the run that had it')
end
return #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 and 1 or 0`

/**
 * KEYS: versions, buckets, counts. ARGV: organization, version, action, digests. What Redis has is
 * the result of all changes up to its version.
 */
const RESTORE = `${APPLY}
if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0') >= tonumber(ARGV[2]) then
  return 0
end
apply(KEYS[2], KEYS[3], ARGV[3], ARGV[4])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1`

/** `run` is the run of Redis in which they were read. */
type Lists = {
  readonly run: string
  readonly mac: ShortMac
  readonly shapes: ReadonlySet<string>
  readonly lengths: ReturnType<typeof lengthsIn>
}

type CachedLists = { readonly run: string, readonly lists: Lists | undefined }

/** How many entries there are by their actions. */
export type ListCounts = Readonly<Record<ListAction, number>>

export type ContactListsDeps = {
  readonly redis: RedisClient
  /** Of the class `results`. */
  readonly keys: OrganizationKeys
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
  readonly #findDigests: ReturnType<typeof script>
  readonly #isShipped: ReturnType<typeof script>
  readonly #countChanged: ReturnType<typeof script>
  readonly #lists = new LRUCache<string, CachedLists>({
    max: CACHED_ORGANIZATIONS, ttl: ACCOUNTS_CACHE_MS,
  })

  constructor ({ redis, keys, maxEntries = MAX_LIST_ENTRIES }: ContactListsDeps) {
    this.#maxEntries = maxEntries
    this.#redis = redis
    this.#keys = keys
    this.#records = createAccountRecords(redis)
    this.#apply = script(redis, { name: 'change-lists', source: CHANGE, numberOfKeys: 5 })
    this.#findDigests = script(redis, { name: 'find-lists', source: FIND, numberOfKeys: 1 })
    this.#isShipped = script(redis, {
      name: 'is-list-shipped', source: IS_SHIPPED, numberOfKeys: 1,
    })
    this.#countChanged = script(redis, {
      name: 'count-list-changes', source: COUNT_CHANGED, numberOfKeys: 1,
    })
  }

  /**
   * Adds entries, or changes what is wanted for them; `remove` removes them. Of several changes of
   * an entry the last counts. Idempotent. Resolves once the topic has the change.
   * @throws ListEntryError for texts that are no entries; then nothing is changed.
   * @throws ListsFullError beyond MAX_LIST_ENTRIES; then nothing is changed.
   * @throws ListChangesError beyond as many changes in 24 hours, as the topic keeps each of them.
   * @throws InfrastructureError when it is not known to be kept; then it can be repeated.
   */
  async change (orgId: string, changes: readonly ListChange[]): Promise<void> {
    const entries = await parseEntries(changes, orgId)
    const wanted = new Map(entries.map((entry, index) =>
      [entryName(entry), { entry, action: changes[index]?.action ?? 'remove' }] as const))
    const added = [...wanted].filter(([, { action }]) => action !== 'remove')
    if (added.length > 0) await this.#checkRoom(orgId, added.map(([name]) => name))
    await this.#countChanges(orgId, wanted.size)
    const shapes = added.map(([, { entry }]) => entry.shape)
    const lists = await this.#widen(orgId, shapes)
    if (lists === undefined) return
    for (const action of [...LIST_ACTIONS, 'remove'] as const) {
      const names = [...wanted].flatMap(([name, change]) =>
        change.action === action ? [name] : [])
      await unlessLocked(recordName(orgId), () => this.#send(orgId, lists, { names, action }))
    }
  }

  async #send (
    orgId: string, lists: Lists,
    { names, action }: { readonly names: readonly string[], readonly action: string }
  ): Promise<void> {
    const keys = [
      VERSIONS_KEY, LISTS_OUTBOX_KEY, ACCOUNTS_RUN_KEY, bucketNames(orgId), countsKey(orgId),
    ]
    let change: string | undefined
    for (const some of splitBatches(names, ENTRIES_OF_CALL)) {
      await eventLoop.yield('bulk', orgId)
      const text = [orgId, action, digestNames(lists, some), lists.run]
      change = await this.#apply(keys, text) as string
    }
    if (change === undefined) return
    for (let leftMs = SHIPPED_WITHIN_MS; leftMs > 0; leftMs -= POLL_MS) {
      if (await this.#isShipped([LISTS_OUTBOX_KEY], [change, lists.run]) === 1) return
      await sleep(POLL_MS)
    }
    throw new InfrastructureError('ledger has not sent a change of contact lists to topic ' +
      'contact.lists in time: check that a ledger is running and Kafka is available')
  }

  /** The numbers of entries. */
  async count (orgId: string): Promise<ListCounts> {
    const counts = await this.#redis.hgetall(countsKey(orgId))
    const counted = (action: ListAction) => Number(counts[action[0] ?? ''] ?? 0)
    return { allow: counted('allow'), block: counted('block'), suppress: counted('suppress') }
  }

  /**
   * What is wanted for contacts, which are canonical forms or blank; undefined if the organization
   * has no lists. The most specific entry of a contact decides.
   * @throws AccountsRecoveringError while entries may be missing after a loss of Redis.
   */
  async find (
    orgId: string, contacts: readonly string[]
  ): Promise<readonly (ListAction | undefined)[] | undefined> {
    return await this.#find(orgId, lists => contacts.map(contact => {
      const at = contact.lastIndexOf('@')
      if (at < 0) return namesFor({ shape: 'number', value: contact }, lists)
      const address = joinAddress(contact.slice(0, at), contact.slice(at + 1))
      return namesFor({ shape: 'address', value: address }, lists)
    }))
  }

  /** Whether mail servers may be among the entries. */
  async hasMailServers (orgId: string): Promise<boolean> {
    const { lists } = await this.#read(orgId)
    return lists !== undefined && [...lists.shapes].some(shape => shape.startsWith('mx:'))
  }

  /** The same for the preferred mail servers of domains, which only entries `mx:` are about. */
  async findMailServers (
    orgId: string, hosts: readonly string[]
  ): Promise<readonly (ListAction | undefined)[] | undefined> {
    return await this.#find(orgId, lists =>
      hosts.map(value => namesFor({ shape: `mx:${labelsIn(value)}`, value }, lists)))
  }

  /**
   * What the lists say of entries, as people write them; domains and prefixes as their contacts.
   * @throws ListEntryError for another text.
   */
  async lookUp (
    orgId: string, texts: readonly string[]
  ): Promise<readonly (ListAction | undefined)[]> {
    const entries = await parseEntries(texts.map(text => ({ text })), orgId)
    return await this.#find(orgId, lists => entries.map(entry => namesFor(entry, lists))) ?? []
  }

  /** What is wanted for contacts, each of which has the names of entries about it. */
  async #find (
    orgId: string, readNames: (lists: Lists) => readonly (readonly string[])[]
  ): Promise<readonly (ListAction | undefined)[] | undefined> {
    for (;;) {
      const { run, lists } = await this.#read(orgId)
      if (lists === undefined) return undefined
      const candidates = readNames(lists)
      const actions = await this.#actions(orgId, lists, new Set(candidates.flat()))
      // A later run may have lost entries, until the topic restored them.
      if (await this.#records.currentRun(recordName(orgId)) !== run) {
        this.#lists.delete(orgId)
        continue
      }
      return candidates.map(names => {
        const decisive = names.find(name => actions.has(name))
        return decisive === undefined ? undefined : actions.get(decisive)
      })
    }
  }

  /** The names that are entries, with what is wanted for them. */
  async #actions (
    orgId: string, lists: Lists, names: ReadonlySet<string>
  ): Promise<ReadonlyMap<string, ListAction>> {
    const all = [...names]
    const actions = new Map<string, ListAction>()
    for (const some of splitBatches(all, ENTRIES_OF_CALL)) {
      const letters = await this.#findDigests([bucketNames(orgId)], [digestNames(lists, some)])
      for (const [at, letter] of [...String(letters)].entries()) {
        const action = LIST_ACTIONS.find(([first]) => first === letter)
        if (action !== undefined) actions.set(some[at]!, action)
      }
    }
    return actions
  }

  async #read (orgId: string): Promise<CachedLists> {
    const cached = this.#lists.get(orgId)
    if (cached !== undefined) return cached
    const { run, lists } = await this.#open(orgId)
    this.#lists.set(orgId, { run, lists })
    return { run, lists }
  }

  async #open (orgId: string) {
    // The run is read first: if the record is of a later one, changes are refused, and look-ups
    // are repeated.
    const [run, record] = await Promise.all([
      this.#records.currentRun(recordName(orgId)), this.#records.readCurrent(recordName(orgId)),
    ])
    const { [KEY_FIELD]: wrapped = '', [SHAPES_FIELD]: shapes = '' } = record?.fields ?? {}
    if (wrapped === '') return { run, record, lists: undefined }
    const key = await this.#keys.unwrap(orgId, Buffer.from(wrapped, 'base64'), buildBinding(orgId))
    return { run, record, key, lists: listsWith(run, key, new Set(shapes.split(' '))) }
  }

  /**
   * The lists, once their record has these shapes: an entry is found by a shape that it has.
   * Undefined without lists and shapes.
   */
  async #widen (orgId: string, shapes: readonly string[]): Promise<Lists | undefined> {
    for (;;) {
      const { run, record, lists, key = randomBytes(KEY_BYTES) } = await this.#open(orgId)
      const all = new Set([...lists?.shapes ?? [], ...shapes])
      if (all.size === (lists?.shapes.size ?? 0)) return lists
      const wrapped = record?.fields[KEY_FIELD] ??
        (await this.#keys.wrap(orgId, key, buildBinding(orgId))).toString('base64')
      const fields = { [KEY_FIELD]: wrapped, [SHAPES_FIELD]: [...all].join(' ') }
      const name = recordName(orgId)
      if (!await this.#records.change({ name, from: record?.revision ?? 0, fields })) continue
      this.#lists.delete(orgId)
      return listsWith(run, key, all)
    }
  }

  async #checkRoom (orgId: string, names: readonly string[]): Promise<void> {
    const { allow, block, suppress } = await this.count(orgId)
    const before = allow + block + suppress
    if (before + names.length <= this.#maxEntries) return
    // A change that is repeated, as after a 503, has its entries already.
    const actions = await this.#find(orgId, () => names.map(name => [name]))
    const added = names.filter((_, index) => actions?.[index] === undefined).length
    if (before + added <= this.#maxEntries) return
    throw new ListsFullError(`The lists have ${before} entries, and ${added} more would exceed ` +
      `${this.#maxEntries}. Remove entries that you no longer need.`)
  }

  async #countChanges (orgId: string, entries: number): Promise<void> {
    const limits = [entries, this.#maxEntries, DAY_SECONDS]
    const waitSeconds = Number(await this.#countChanged([changedKey(orgId)], limits))
    if (waitSeconds === 0) return
    throw new ListChangesError(
      `${this.#maxEntries} entries may be changed in 24 hours, and these ${entries} would exceed ` +
      'that. Send fewer, or send them later.', waitSeconds)
  }
}

const buildBinding = (orgId: string) => ['contact-lists', orgId]

const entryName = ({ shape, value }: Entry) => `${shape} ${value}`

function listsWith (run: string, key: Buffer, shapes: ReadonlySet<string>): Lists {
  return { run, mac: createShortMac(key, DIGEST_BYTES), shapes, lengths: lengthsIn(shapes) }
}

/** The digests of names, one after another. */
function digestNames ({ mac }: Lists, names: readonly string[]): Buffer {
  const digests = Buffer.alloc(names.length * DIGEST_BYTES)
  const write = mac('')
  for (const [index, name] of names.entries()) write(name, digests, index * DIGEST_BYTES)
  return digests
}

/** The wrapped key of an organization's lists, if it has any. */
export async function wrappedListsKey (
  redis: RedisClient, orgId: string
): Promise<readonly Wrapped[]> {
  return await wrappedFields(createAccountRecords(redis), recordName(orgId),
    [{ field: KEY_FIELD, binding: buildBinding(orgId), class: 'results' }])
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
  const restore = script(redis, { name: 'restore-lists', source: RESTORE, numberOfKeys: 3 })
  let restored = 0
  for (const { organization, version, action, digests } of changes) {
    const keys = [VERSIONS_KEY, bucketNames(organization), countsKey(organization)]
    restored += Number(await restore(keys, [organization, version, action, digests]))
  }
  return restored
}

/** Deletes the entries of an erased organization. It needs no key. */
export async function eraseContactLists (redis: RedisClient, orgId: string): Promise<void> {
  const pipeline = redis.pipeline()
  for (let bucket = 0; bucket < BUCKETS; bucket++) pipeline.unlink(`${bucketNames(orgId)}${bucket}`)
  pipeline.unlink(countsKey(orgId))
  for (const [error] of await pipeline.exec() ?? []) if (error !== null) throw error
}
