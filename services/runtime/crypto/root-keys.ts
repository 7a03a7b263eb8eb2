import type { KMS } from '@aws-sdk/client-kms'
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { checkKeyId, MissingKeyError, splitKeyId, unpooled, withKeyId } from './key-ring.ts'
import { type Binding, openSealed, SealError, sealPlain } from './seal.ts'
import type { Environment } from '../platform/command-environment.ts'
import { ConfigError, nameKey, rootKeys } from '../platform/config.ts'
import { FatalError, InfrastructureError, isInfrastructure } from '../platform/errors.ts'
import type { CounterLabels, Metrics } from '../platform/metrics.ts'
import { readBody } from '../platform/peer-guards.ts'
import { type RedisClient, script } from '../platform/redis.ts'
import { UsageError } from '../platform/run-command.ts'
import { KEY_CLASSES, type KeyClass } from '../../topology.ts'

/** What an organization key belongs to. Neither field is empty, and neither is secret. */
type KeyContext = { readonly purpose: string, readonly organization: string }

/** The root keys of a class of organization keys. They encrypt nothing else. */
export type RootKeys = {
  readonly activeId: string
  /** What `rootKeyDigest` returns for the active one. */
  readonly activeDigest?: string | undefined
  readonly ids: readonly string[]
  /** Wraps 32 bytes with the active root key: length of its id, id, ciphertext of its provider. */
  readonly wrap: (key: Buffer, context: KeyContext) => Promise<Buffer>
  /**
   * Unwraps with the root key of that id, active or not.
   * @throws FatalError when it is not configured, or does not unwrap these bytes in this context,
   * most probably because its value was changed: a stop loses nothing, treating the organization
   * key as erased would.
   * @throws SealError for bytes that no root key can have wrapped.
   * @throws InfrastructureError while the provider is unavailable or denies access.
   */
  readonly unwrap: (wrapped: Buffer, context: KeyContext) => Promise<Buffer>
}

export type RootKeyConfig = {
  /** Where each root key is, by id. */
  readonly keys: Readonly<Record<string, string>>
  readonly active: string
  /** The name of the setting that `keys` is from, for errors. */
  readonly setting: string
}

export type RootKeyOptions = {
  /** Where Vault is, and its token. The AWS SDK reads `process.env`. */
  readonly env?: Environment
  /** How long a call of a provider may take. */
  readonly timeoutMs?: number
  /** Counts calls of providers; commands have none. */
  readonly metrics?: RootKeyMetrics | undefined
}

/** Bytes of an organization key, and of a local root key. */
const KEY_BYTES = 32

/** The most that AWS KMS accepts; the ciphertext of 32 bytes is far shorter everywhere. */
const MAX_CIPHERTEXT_BYTES = 6_144

/**
 * Creates root keys. Each is the base64 of 32 bytes, which is the key itself,
 * `aws-kms:<key id, alias or ARN>`, or `vault:<mount>/<key name>`. Nothing is called before the
 * first key is wrapped or unwrapped.
 * @throws ConfigError for an invalid configuration.
 */
export function createRootKeys (
  { keys, active, setting }: RootKeyConfig, options: RootKeyOptions = {}
): RootKeys {
  const roots = new Map(Object.entries(keys).map(([id, where]) =>
    [id, createRootKey({ id, where, setting }, options)]))
  const activeRoot = roots.get(active)
  if (activeRoot === undefined) {
    throw new ConfigError([`${setting} has no ${nameKey(active)}, which is the active one: add it`])
  }
  const wrap = async (key: Buffer, context: KeyContext) => {
    if (key.length !== KEY_BYTES) throw new TypeError(`a key must have ${KEY_BYTES} bytes`)
    return withKeyId(active, await activeRoot.encrypt(key, context))
  }
  const unwrap = async (wrapped: Buffer, context: KeyContext) => {
    const { id, content: ciphertext } = splitKeyId(wrapped)
    const root = roots.get(id)
    if (root === undefined) {
      throw new MissingKeyError(`${setting} lacks key "${id}"`, {
        wraps: describeWraps(context), advice: 'add it again until nothing is wrapped by it',
      })
    }
    if (ciphertext.length === 0 || ciphertext.length > MAX_CIPHERTEXT_BYTES) {
      throw new SealError(`wrapped key is invalid: its ciphertext has ${ciphertext.length} bytes`)
    }
    const key = await root.decrypt(ciphertext, context).catch((error: unknown) => {
      throw error instanceof SealError ? wrongRootError(id, setting, context) : error
    })
    if (key.length !== KEY_BYTES) {
      throw new SealError(`unwrapped key has ${key.length} bytes: expected ${KEY_BYTES}`)
    }
    return unpooled(key)
  }
  const activeDigest = rootKeyDigest(keys[active] ?? '')
  return { wrap, unwrap, activeId: active, activeDigest, ids: [...roots.keys()] }
}

/**
 * The id of the root key that wraps an organization key.
 * @throws SealError for bytes that are not wrapped.
 */
export const readRootId = (wrapped: Buffer): string => splitKeyId(wrapped).id

const describeWraps = ({ purpose, organization }: KeyContext) => `${purpose} of ${organization}`

/** A local key and Vault cannot distinguish a wrong key from damaged bytes. */
function wrongRootError (id: string, setting: string, context: KeyContext): FatalError {
  return new MissingKeyError(`${setting} has another value for key "${id}"`, {
    wraps: describeWraps(context),
    advice: 'set it back to the value that wrapped the key, and give another value another id; ' +
      'if it was never changed, the wrapped key is damaged: restart every ledger, which ' +
      'restores it from topic organization.keys',
  })
}

/**
 * One root key, wherever it is. Rejects with a SealError for changed bytes or another context, and
 * with an InfrastructureError while the key cannot be used.
 */
type RootKey = {
  readonly encrypt: (plain: Buffer, context: KeyContext) => Promise<Buffer>
  readonly decrypt: (ciphertext: Buffer, context: KeyContext) => Promise<Buffer>
}

/** A root key of the configuration: `where` is the key itself for a local one. */
type RootKeyEntry = {
  readonly id: string
  readonly where: string
  /** The name of the setting, for errors. */
  readonly setting: string
}

/** What a provider is asked to do. */
type RootKeyAction = 'encrypt' | 'decrypt'

/**
 * How errors name a key that a provider keeps: setting, id and where it is. None of them is secret
 * then.
 */
function nameOfRootKey ({ setting, id, where }: RootKeyEntry): string {
  return `${setting}: key "${id}" (${where})`
}

/** The value of an entry may be a key, or contain one by mistake, so no error shows it. */
function createRootKey (
  entry: RootKeyEntry, { env = process.env, timeoutMs = 5_000, metrics }: RootKeyOptions
): RootKey {
  const { id, where, setting } = entry
  checkKeyId(id, setting)
  const provider = /^([\w-]+):/.exec(where)?.[1]
  if (provider === undefined) return localRootKey(entry)
  if (provider === 'aws-kms') {
    return measureCalls(awsKmsRootKey(entry, timeoutMs), provider, metrics)
  }
  if (provider === 'vault') {
    return measureCalls(vaultRootKey(entry, env, timeoutMs), provider, metrics)
  }
  throw new ConfigError([`${setting}: ${nameKey(id)} has an unknown provider: use ` +
    'aws-kms:<key id, alias or ARN>, vault:<mount>/<key name>, or the base64 of 32 bytes'])
}

/** A key in the memory of this process: AES-256-GCM. */
function localRootKey ({ id, where, setting }: RootKeyEntry): RootKey {
  const key = Buffer.from(where, 'base64')
  if (key.length !== KEY_BYTES || key.toString('base64') !== where) {
    throw new ConfigError([`${setting}: ${nameKey(id)} must be ${KEY_BYTES} bytes of base64: ` +
      `create one with "openssl rand -base64 ${KEY_BYTES}"`])
  }
  const buildBinding = ({ purpose, organization }: KeyContext): Binding =>
    ['root-key', id, purpose, organization]
  return {
    encrypt: async (plain, context) => sealPlain(key, buildBinding(context), plain),
    decrypt: async (ciphertext, context) => openSealed(key, buildBinding(context), ciphertext),
  }
}

type CallLabels = CounterLabels<'root_key_calls_total'>

/** Where the calls of a provider are counted and timed. */
export type RootKeyMetrics = Pick<Metrics, 'count' | 'observe'>

/**
 * Counts and times the calls of a key that a provider keeps. `failed` are those that may be
 * repeated: the provider is unavailable, throttles or denies access. `invalid` are those that it
 * answered and whose bytes, context or key do not match.
 */
function measureCalls (
  root: RootKey, provider: CallLabels['provider'], metrics: RootKeyMetrics | undefined
): RootKey {
  if (metrics === undefined) return root
  const measured = (action: RootKeyAction): RootKey[RootKeyAction] => async (bytes, context) => {
    const startedAt = performance.now()
    // The purpose of an organization's key is its class.
    const keyClass = context.purpose as CallLabels['class']
    const end = (outcome: CallLabels['outcome']) => {
      metrics.count('root_key_calls_total', { class: keyClass, provider, action, outcome })
      metrics.observe('root_key_call_seconds', { provider, action },
        (performance.now() - startedAt) / 1_000)
    }
    try {
      const result = await root[action](bytes, context)
      end('ok')
      return result
    } catch (error) {
      end(isInfrastructure(error) ? 'failed' : 'invalid')
      throw error
    }
  }
  return { encrypt: measured('encrypt'), decrypt: measured('decrypt') }
}

/** An id, an alias or an ARN, in the characters that AWS allows. */
const KMS_WHERE = /^aws-kms:((?:arn:[\w-]+:kms:([\w-]+):\d+:)?[\w:/-]+)$/

/**
 * A symmetric key of AWS KMS. Credentials, region and endpoint follow the standard chain of the AWS
 * SDK; the region of an ARN comes first. The SDK is loaded by the first call.
 * @throws ConfigError for an invalid key.
 */
function awsKmsRootKey (entry: RootKeyEntry, timeoutMs: number): RootKey {
  const [, key, region] = KMS_WHERE.exec(entry.where) ?? []
  if (key === undefined) {
    throw new ConfigError([`${entry.setting}: ${nameKey(entry.id)} must be aws-kms: and the id, ` +
      'alias (alias/...) or ARN of a key'])
  }
  const failing = { ...entry, timeoutMs }
  let connected: Promise<KMS> | undefined
  const send = async <T>(action: RootKeyAction, call: KmsCall<T>) => {
    connected ??= import('@aws-sdk/client-kms').then(({ KMS }) =>
      new KMS(region === undefined ? {} : { region }))
    const abortSignal = AbortSignal.timeout(timeoutMs)
    try {
      const sent = connected.then(kms => call(kms, { abortSignal }))
      const timeout = once(abortSignal, 'abort').then(() => abortSignal.throwIfAborted() as never)
      return await Promise.race([sent, timeout])
    } catch (error) {
      // The SDK waits forever for credentials whose source hangs, in later calls too.
      if (abortSignal.aborted) connected = undefined
      throw kmsFailure(error, action, failing)
    }
  }
  return {
    encrypt: async (Plaintext, { purpose, organization }) => {
      const { CiphertextBlob } = await send('encrypt', (kms, options) => kms.encrypt({
        KeyId: key, Plaintext, EncryptionContext: { purpose, organization },
      }, options))
      return kmsBytes(CiphertextBlob, failing)
    },
    decrypt: async (CiphertextBlob, { purpose, organization }) => {
      const { Plaintext } = await send('decrypt', (kms, options) => kms.decrypt({
        KeyId: key, CiphertextBlob, EncryptionContext: { purpose, organization },
      }, options))
      return kmsBytes(Plaintext, failing)
    },
  }
}

type KmsCall<T> = (kms: KMS, options: { readonly abortSignal: AbortSignal }) => Promise<T>
type Failing = RootKeyEntry & { readonly timeoutMs: number }

/** The same memory, so that clearing the result leaves no copy of a key. */
function kmsBytes (bytes: Uint8Array | undefined, entry: RootKeyEntry): Buffer {
  if (bytes !== undefined) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  throw new InfrastructureError(`${nameOfRootKey(entry)}: the response is not from AWS KMS: ` +
    'check AWS_ENDPOINT_URL_KMS')
}

/** Without the error as its cause: the SDK attaches bodies of responses, which may hold a key. */
function kmsFailure (error: unknown, action: RootKeyAction, failing: Failing): Error {
  const { name = 'unknown error', code, $metadata } = error as Partial<KmsError>
  const key = nameOfRootKey(failing)
  if (name === 'InvalidCiphertextException') {
    return new SealError(`${key} cannot decrypt: wrong context or modified bytes`)
  }
  if (name === 'IncorrectKeyException') {
    return new FatalError(`${key} is not the key that wraps a key in use: set the id back to the ` +
      'key of AWS KMS that it had, and add another id for the new one')
  }
  const status = $metadata?.httpStatusCode
  const permission = `kms:${action === 'encrypt' ? 'Encrypt' : 'Decrypt'}`
  const advice = KMS_ADVICE.get(name) ?? (name === 'AccessDeniedException' || status === 403
    ? `allow ${permission} on the key for these credentials`
    : 'check the network, AWS_REGION, the source of credentials and the status of AWS KMS')
  const details = [
    name,
    ...typeof code === 'string' ? [code] : [],
    ...status === undefined ? [] : [`status ${status}`],
    ...LATE.has(name) ? [`no response within ${failing.timeoutMs} ms`] : [],
  ]
  return new InfrastructureError(`${key} cannot ${action} (${details.join(', ')}): ${advice}`)
}

/** What is shown of an error: of a service of AWS, of the SDK, or of the network. */
type KmsError = {
  readonly name: string
  readonly code: unknown
  readonly $metadata: { readonly httpStatusCode?: number }
}

const LATE: ReadonlySet<string> = new Set(['AbortError', 'TimeoutError'])

const CREDENTIALS = 'check the AWS credentials of this process: the role, or AWS_ACCESS_KEY_ID'
const THROTTLED = 'it is retried; if that lasts, request a higher quota of AWS KMS'
const DISABLED = 'enable the key in AWS KMS, or cancel its deletion'

/** What an operator does, by the name of the error. */
const KMS_ADVICE: ReadonlyMap<string, string> = new Map([
  ['CredentialsProviderError', CREDENTIALS],
  ['UnrecognizedClientException', CREDENTIALS],
  ['InvalidClientTokenId', CREDENTIALS],
  ['InvalidSignatureException', CREDENTIALS],
  ['ExpiredTokenException', CREDENTIALS],
  ['ThrottlingException', THROTTLED],
  ['LimitExceededException', THROTTLED],
  ['DisabledException', DISABLED],
  ['KMSInvalidStateException', DISABLED],
  ['NotFoundException', 'check the key, the account and AWS_REGION'],
  ['InvalidKeyUsageException', 'use a symmetric key for encryption and decryption'],
])

/** A mount, whose path may have several segments, and the name of a key. */
const VAULT_WHERE = /^vault:(\w[\w.-]*(?:\/\w[\w.-]*)*)\/(\w[\w.-]*)$/

/**
 * A key of the transit secrets engine of HashiCorp Vault or OpenBao. `env` has VAULT_ADDR,
 * VAULT_TOKEN or VAULT_TOKEN_FILE, and VAULT_NAMESPACE if need be.
 * @throws ConfigError for an invalid key, or a missing or invalid variable.
 */
function vaultRootKey (entry: RootKeyEntry, env: Environment, timeoutMs: number): RootKey {
  const [, mount, key] = VAULT_WHERE.exec(entry.where) ?? []
  if (mount === undefined || key === undefined) {
    throw new ConfigError([`${entry.setting}: ${nameKey(entry.id)} must be ` +
      'vault:<mount>/<key name>'])
  }
  const server = parseServer(env, nameOfRootKey(entry), timeoutMs)
  const send = async (action: RootKeyAction, body: object) => {
    const call = { action, path: `${mount}/${action}/${key}`, name: nameOfRootKey(entry) }
    const answer = await postToVault(server, call, body)
    const value = answer.data?.[action === 'encrypt' ? 'ciphertext' : 'plaintext']
    if (answer.status === 200 && typeof value === 'string') return value
    throw vaultFailure(answer, call)
  }
  return {
    encrypt: async (plain, context) => Buffer.from(await send('encrypt', {
      plaintext: plain.toString('base64'), associated_data: associatedData(context),
    })),
    decrypt: async (ciphertext, context) => Buffer.from(await send('decrypt', {
      ciphertext: ciphertext.toString('latin1'), associated_data: associatedData(context),
    }), 'base64'),
  }
}

/** An unambiguous text of the context, in base64. */
function associatedData ({ purpose, organization }: KeyContext): string {
  return Buffer.from(JSON.stringify([purpose, organization])).toString('base64')
}

type VaultServer = {
  readonly address: string
  readonly namespace: string | undefined
  readonly token: string | undefined
  readonly tokenFile: string | undefined
  readonly timeoutMs: number
}

function parseServer (env: Environment, name: string, timeoutMs: number): VaultServer {
  const { VAULT_ADDR: address = '', VAULT_NAMESPACE: namespace } = env
  const { VAULT_TOKEN: token, VAULT_TOKEN_FILE: tokenFile } = env
  if (!/^https?:$/.test(URL.parse(address)?.protocol ?? '')) {
    throw new ConfigError([
      `${name} needs VAULT_ADDR, the URL of Vault: such as https://vault:8200`,
    ])
  }
  if (tokenFile === undefined && !TOKEN.test(token ?? '')) {
    throw new ConfigError([`${name} needs VAULT_TOKEN_FILE, a file with the token, or VAULT_TOKEN`])
  }
  return { address: address.replace(/\/+$/, ''), namespace, token, tokenFile, timeoutMs }
}

/** Visible ASCII: an error of `fetch` would quote any other token. */
const TOKEN = /^[\x21-\x7e]+$/

/** A call, for errors: `name` is that of the root key. */
type VaultCall = { readonly action: RootKeyAction, readonly path: string, readonly name: string }

type VaultAnswer = {
  readonly status: number
  readonly data?: Readonly<Record<string, unknown>>
  readonly errors?: unknown
}

/** An answer has one key; a larger one is not from Vault. */
const MAX_ANSWER_BYTES = 65_536

/** Without errors as causes: that of `fetch` may quote the token, that of a parser the key. */
async function postToVault (
  server: VaultServer, call: VaultCall, body: object
): Promise<VaultAnswer> {
  const token = await readToken(server, call)
  try {
    const response = await fetch(`${server.address}/v1/${call.path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-vault-request': 'true',
        'x-vault-token': token,
        ...server.namespace === undefined ? {} : { 'x-vault-namespace': server.namespace },
      },
      body: JSON.stringify(body),
      // Another host must not receive the token.
      redirect: 'manual',
      signal: AbortSignal.timeout(server.timeoutMs),
    })
    const text = await readBody(response, MAX_ANSWER_BYTES)
    return { ...parseObject(text?.toString() ?? ''), status: response.status }
  } catch (error) {
    throw vaultUnavailable(error, server, call)
  }
}

/** Read for each call, as Vault Agent replaces the file before the token expires. */
async function readToken (
  { token = '', tokenFile }: VaultServer, { name }: VaultCall
): Promise<string> {
  if (tokenFile === undefined) return token
  const text = await readFile(tokenFile, 'utf8').catch(() => '')
  if (TOKEN.test(text.trim())) return text.trim()
  throw new InfrastructureError(`${name}: VAULT_TOKEN_FILE ${tokenFile} has no token: check that ` +
    'Vault Agent writes it and that this process may read it')
}

/** Nothing for a text that is not a JSON object, such as that of a proxy. */
function parseObject (text: string): Omit<VaultAnswer, 'status'> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}

function vaultUnavailable (
  error: unknown, { timeoutMs }: VaultServer, call: VaultCall
): InfrastructureError {
  const { name = 'unknown error', cause } = error instanceof Error ? error : {}
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : name
  const what = name === 'TimeoutError' ? `no response within ${timeoutMs} ms` : code
  return new InfrastructureError(`${call.name} cannot ${call.action} (${what}): check Vault, ` +
    'VAULT_ADDR, the network, and NODE_EXTRA_CA_CERTS for a private certificate authority')
}

function vaultFailure ({ status, errors }: VaultAnswer, { action, path, name }: VaultCall): Error {
  const text = Array.isArray(errors) ? errors.map(String).join(' ') : ''
  if (status === 400 && action === 'decrypt' && DAMAGED.test(text)) {
    return new SealError(`${name} cannot decrypt: wrong context or modified bytes`)
  }
  const remedy = VAULT_REFUSALS.find(([pattern]) => status === 400 && pattern.test(text))?.[1]
  const advice = status === 403
    ? `allow "update" on ${path} for its token, and check that token and key exist`
    : remedy ?? VAULT_ADVICE.get(status) ?? 'check VAULT_ADDR and the state of Vault'
  return new InfrastructureError(`${name} cannot ${action} (status ${status}): ${advice}`)
}

/** A newer version than that of the key is no damage: Vault was restored from an old backup. */
const DAMAGED = /message authentication failed|^invalid ciphertext(?!: version is too new)/

/** What an operator does, by the text of an error with status 400. */
const VAULT_REFUSALS: readonly (readonly [RegExp, string])[] = [
  [/version is too new/, 'Vault lacks the version of the key: restore a newer backup of it'],
  [/disallowed by policy/, 'lower min_decryption_version of the key'],
  [/key not found/, 'create the key, or restore it from a backup of Vault'],
  [/./, 'use a key of type aes256-gcm96 that is not derived'],
]

/** What an operator does, by status. */
const VAULT_ADVICE: ReadonlyMap<number, string> = new Map([
  [307, 'VAULT_ADDR is not the active node: set it to the address of the cluster'],
  [404, 'check the mount and VAULT_NAMESPACE'],
  [429, 'it is retried; if that lasts, raise the rate limit quota of Vault'],
  [503, 'Vault is sealed or has no active node: unseal it'],
])

/** The ids of the root keys of a class that a process knows, and which one wraps. */
type KnownIds = {
  readonly ids: readonly string[]
  readonly active: string
  /** What `rootKeyDigest` returns for each value, by id; processes of older releases have none. */
  readonly digests?: Readonly<Record<string, string>>
}

/** A running process, and the ids of the root keys in its settings. Never the keys. */
export type RootKeyHolder = {
  readonly process: string
  readonly keys: Readonly<Partial<Record<KeyClass, KnownIds>>>
}

/**
 * Distinguishes the value of a root key from another one under the same id. It reveals nothing of
 * 32 random bytes. Undefined for a key of a provider, which may have several names.
 */
const rootKeyDigest = (value: string): string | undefined => value.includes(':')
  ? undefined
  : createHash('sha256').update(`root key ${value}`).digest('hex').slice(0, 16)

const KEY = 'processes:root-keys'
const EXPIRES_AFTER_SECONDS = 30
const PUBLISH_EVERY_MS = 5_000

/** Adds a record if there is one, and returns those that are not older than ARGV[1] seconds. */
const SOURCE = `
local now = redis.call('TIME')[1]
if ARGV[2] then redis.call('ZADD', KEYS[1], now, ARGV[2]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])
return redis.call('ZRANGE', KEYS[1], 0, -1)`

const call = async (redis: RedisClient, ...record: readonly string[]) => {
  const run = script(redis, { name: 'root-key-holders', source: SOURCE, numberOfKeys: 1 })
  return await run([KEY], [EXPIRES_AFTER_SECONDS, ...record]) as readonly string[]
}

/**
 * Publishes the ids of the root keys of a process until it stops, so that an operator's command
 * wraps nothing by a key that some process lacks. A process without root keys publishes nothing.
 * While Redis is unavailable it is not published; no start and no stop waits for it.
 */
export function publishRootKeyIds (
  redis: RedisClient,
  { process, settings, onStop }: {
    readonly process: string,
    /** Of the process, with the names of `rootKeys`. */
    readonly settings: object,
    readonly onStop: (close: () => unknown) => void,
  }
): void {
  const keys = knownIdsIn(settings as Readonly<Record<string, unknown>>)
  if (Object.keys(keys).length === 0) return
  const record = JSON.stringify({ process, id: randomUUID(), keys })
  const publish = () => { call(redis, record).catch(() => {}) }
  publish()
  const timer = setInterval(publish, PUBLISH_EVERY_MS).unref()
  onStop(async () => {
    clearInterval(timer)
    if (redis.status === 'ready') await redis.zrem(KEY, record).catch(() => {})
  })
}

function knownIdsIn (settings: Readonly<Record<string, unknown>>): RootKeyHolder['keys'] {
  return Object.fromEntries(KEY_CLASSES.flatMap(keyClass => {
    const [keys, active] = rootKeys[keyClass].map(setting => settings[setting])
    if (typeof keys !== 'object' || keys === null) return []
    const digests = Object.fromEntries(Object.entries(keys).map(([id, value]) =>
      [id, rootKeyDigest(String(value))]))
    return [[keyClass, { ids: Object.keys(keys), active: String(active), digests }]]
  }))
}

/** The running processes that have root keys; one that crashed is listed for 30 seconds. */
export async function readRootKeyHolders (
  redis: RedisClient
): Promise<readonly RootKeyHolder[]> {
  return (await call(redis)).map(record => JSON.parse(record) as RootKeyHolder)
}

/** The names of the processes that have root keys of a class, but not this one. */
export const processesWithout = (
  holders: readonly RootKeyHolder[], keyClass: KeyClass, id: string
): readonly string[] => listNames(holders, keyClass, ({ ids }) => !ids.includes(id))

/** The names of the processes in which this root key of a class is active. */
export const processesWithActive = (
  holders: readonly RootKeyHolder[], keyClass: KeyClass, id: string
): readonly string[] => listNames(holders, keyClass, ({ active }) => active === id)

function listNames (
  holders: readonly RootKeyHolder[], keyClass: KeyClass, matches: (ids: KnownIds) => boolean
): readonly string[] {
  return holders.filter(({ keys: { [keyClass]: ids } }) => ids !== undefined && matches(ids))
    .map(({ process }) => process).toSorted()
}

/**
 * Refuses to wrap by a root key that a running process of its class lacks, or has with another
 * value: the process could not read what the key wraps.
 * @throws UsageError that names the setting and the processes.
 */
export function refuseUnknownRootKeys (
  holders: readonly RootKeyHolder[],
  roots: Readonly<Record<KeyClass, Pick<RootKeys, 'activeId' | 'activeDigest'>>>
): void {
  const faults = KEY_CLASSES.flatMap(keyClass => {
    const { activeId, activeDigest } = roots[keyClass]
    const lacking = processesWithout(holders, keyClass, activeId)
    const others = listNames(holders, keyClass, ({ digests = {} }) =>
      digests[activeId] !== undefined && digests[activeId] !== activeDigest)
    const [setting, activeSetting] = rootKeys[keyClass]
    const start = `${activeSetting} of this command is "${activeId}", but ${setting} of these ` +
      'processes'
    return [
      ...lacking.length === 0 ? [] : [`${start} lacks that key: ${lacking.join(', ')}.`],
      ...others.length === 0
        ? []
        : [`${start} has another value under that id: ${others.join(', ')}.`],
    ]
  })
  if (faults.length === 0) return
  const advice = 'They could not read what it wraps. Nothing was changed: give each process and ' +
    'this command the same key, and restart the process, as deploy/docs/keys.md describes.'
  throw new UsageError([...faults, advice].join('\n'))
}
