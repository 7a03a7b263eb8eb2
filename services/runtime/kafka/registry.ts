import { readdirSync, readFileSync } from 'node:fs'
import { SchemaRegistry } from '@kafkajs/confluent-schema-registry'
import avro, { type Schema, type Type } from 'avsc'
import { LRUCache } from 'lru-cache'
import { PasswordFile } from '../platform/config.ts'
import { InfrastructureError, storeText } from '../platform/errors.ts'
import { withTimeout } from '../platform/retry.ts'
import type { TopicName } from '../../topology.ts'

/** The source of schema ids: the registry, or in tests the local files. */
type SchemaSource = {
  /** The id of our version of the schema, which need not be the latest one. */
  readonly findId: (subject: string) => Promise<number>
  /** The schema of a writer. */
  readonly readSchema: (id: number) => Promise<Type>
}

export type Codec = ReturnType<typeof createCodec>

const PREFIX_BYTES = 5

/**
 * Encodes with our version of the schemas and decodes to it. Ids and resolvers are cached forever,
 * because a schema id is immutable; failed lookups are not cached.
 */
export function createCodec (source: SchemaSource) {
  const ids = memoize((subject: string) => source.findId(subject))
  const decoders = memoize(async (name: string) => {
    const [subject = '', id = ''] = name.split('#')
    const reader = ownSchema(subject).type
    const writer = await source.readSchema(Number(id))
    // Equal schemas, the usual case, need no resolver, which is faster.
    if (reader.equals(writer)) return (bytes: Buffer) => reader.fromBuffer(bytes) as unknown
    const resolver = reader.createResolver(writer)
    return (bytes: Buffer) => reader.fromBuffer(bytes, resolver) as unknown
  })
  const prepare = (subject: string, schemaId: number) => decoders(`${subject}#${schemaId}`)
  return {
    /** Avro in the wire format of the registry: a zero byte, the schema id in 32 bits, content. */
    encode: async (subject: string, value: unknown): Promise<Buffer> => {
      const schemaId = await ids(subject)
      const bytes = encoded(subject, value, PREFIX_BYTES)
      bytes[0] = 0
      bytes.writeUInt32BE(schemaId, 1)
      return bytes
    },

    /** Decodes a message of a topic to our version of its schema, whatever version wrote it. */
    decode: async (topic: TopicName, bytes: Buffer): Promise<unknown> => {
      if (bytes.length < PREFIX_BYTES || bytes[0] !== 0) {
        throw new TypeError(`message of ${topic} is not in the wire format of the schema registry`)
      }
      const decodeContent = await prepare(`${topic}-value`, bytes.readUInt32BE(1))
      return decodeContent(bytes.subarray(PREFIX_BYTES))
    },

    /** Avro without the prefix, for content whose schema id is stored elsewhere. */
    encodeBare: async (subject: string, value: unknown) =>
      ({ schemaId: await ids(subject), bytes: encoded(subject, value, 0) }),

    /** Loads the schema of the writer of such content; resolves to a synchronous decoder. */
    prepare,
  }
}

let scratch = Buffer.allocUnsafe(64 * 1_024)

/**
 * The encoded value after `prefixBytes` for the caller. Uses one buffer that grows to the largest
 * value: the buffer of the library has a kilobyte, and larger values are encoded twice.
 */
function encoded (subject: string, value: unknown, prefixBytes: number): Buffer {
  const { type } = ownSchema(subject)
  const end = type.encode(value, scratch, prefixBytes)
  if (end >= 0) return Buffer.from(scratch.subarray(0, end))
  // A negative end is the number of missing bytes.
  scratch = Buffer.allocUnsafe(2 * (scratch.length - end))
  return encoded(subject, value, prefixBytes)
}

/** The settings of a registry, and of what its subjects begin with, as topics on the brokers. */
export type RegistrySettings = {
  readonly SCHEMA_REGISTRY_URL: string
  /** In place of a password in the URL. */
  readonly SCHEMA_REGISTRY_PASSWORD_FILE?: string | undefined
  readonly TOPIC_PREFIX?: string | undefined
}

type RegistryOptions = {
  /** How long an unknown id counts as not yet replicated. */
  readonly unknownIdTimeoutMs?: number
  /** A monotonic clock, in milliseconds. */
  readonly now?: () => number
}

const UNKNOWN_ID_TIMEOUT_MS = 10_000

/**
 * A client of the registry. Takes user and password out of the URL, because errors of the client
 * contain the URL and are logged. A password in a file is read for each request.
 * @throws TypeError for such a file without a user in the URL.
 */
export function connectRegistry (url: string, passwordFile?: string): SchemaRegistry {
  const { username, password } = new URL(url)
  if (username === '' && passwordFile !== undefined) {
    throw new TypeError('SCHEMA_REGISTRY_PASSWORD_FILE is set, but SCHEMA_REGISTRY_URL has no ' +
      'user: add it, as in https://user@host')
  }
  const middlewares = [requireAnswer]
  if (username === '' && password === '') return new SchemaRegistry({ host: url, middlewares })
  const file = passwordFile === undefined ? undefined : new PasswordFile(passwordFile)
  const clean = new URL(url)
  clean.username = ''
  clean.password = ''
  return new SchemaRegistry({
    host: clean.href.replace(/\/$/, ''),
    middlewares,
    auth: {
      username: decodeURIComponent(username),
      get password () { return file?.toString() ?? decodeURIComponent(password) },
    },
  })
}

type Middleware =
  NonNullable<ConstructorParameters<typeof SchemaRegistry>[0]['middlewares']>[number]

const ANSWER_WITHIN_MS = 10_000

/**
 * Ends a request, with its retries, that has no whole answer in time. By itself the client waits
 * for it forever, even if its connection ends within the answer, and all who ask for the same
 * schema wait with it.
 */
const requireAnswer: Middleware = () => ({
  // Closes a silent connection.
  prepareRequest: async next => (await next()).enhance({ timeout: ANSWER_WITHIN_MS }),
  response: async next => {
    const answering = next()
    let response: Awaited<typeof answering> | undefined
    await withTimeout(answering.then(answer => { response = answer }), ANSWER_WITHIN_MS)
    if (response !== undefined) return response
    const late = new Error(`no answer within ${ANSWER_WITHIN_MS / 1_000} seconds`)
    throw Object.assign(late, { status: 408 })
  },
})

/** What failed, and what an operator must fix for failed authentication or a wrong certificate. */
export function describeRegistryFailure (url: string, error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  const status = httpStatus(error)
  if (status === 401 || status === 403) {
    return 'schema registry authentication failed: check user and password in ' +
      'SCHEMA_REGISTRY_URL'
  }
  // The client turns every failure into a status and a text, so only the text shows the cause.
  if (status !== undefined && /certificate|altnames/i.test(message)) {
    return 'the certificate of the schema registry is not trusted: set NODE_EXTRA_CA_CERTS to ' +
      'the file of its CA, and use a host name of the certificate in SCHEMA_REGISTRY_URL'
  }
  // The text of a proxy may be a whole page.
  const [reason = ''] = message.replace(CLIENT_PREFIX, '').split('\n', 1)
  return `${storeText('SCHEMA_REGISTRY_URL', url)} failed: ${reason}`
}

/** What the client puts before the message of the registry, or of a lost connection. */
const CLIENT_PREFIX = /^Confluent_Schema_Registry - (?:Error, status 400: )?/

/** The HTTP status of a response; the client has one of a lost connection too. */
function httpStatus (error: unknown): number | undefined {
  return error instanceof Error && 'status' in error ? Number(error.status) : undefined
}

/**
 * Looks up ids and never registers schemas, which only the deployment does. During a release, a
 * message may have an id that this registry does not have yet, as a lagging replica or during a
 * restore: that is retried. An id that stays unknown means an invalid message.
 */
export function registrySource (
  settings: RegistrySettings,
  { unknownIdTimeoutMs = UNKNOWN_ID_TIMEOUT_MS, now = () => performance.now() }: RegistryOptions =
  {}
): SchemaSource {
  const {
    SCHEMA_REGISTRY_URL: url, SCHEMA_REGISTRY_PASSWORD_FILE: passwordFile,
    TOPIC_PREFIX: prefix = '',
  } = settings
  const registry = connectRegistry(url, passwordFile)
  const unknownSinceMs = new LRUCache<number, number>({ max: MAX_UNKNOWN })
  const mayAppear = (id: number, error: unknown) => {
    if (httpStatus(error) !== 404) return false
    const sinceMs = unknownSinceMs.get(id) ?? now()
    unknownSinceMs.set(id, sinceMs)
    return now() - sinceMs < unknownIdTimeoutMs
  }
  const findId = async (subject: string) => {
    try {
      // The library declares another type, but sends any JSON.
      return await registry.getRegistryIdBySchema(
        prefix + subject, ownSchema(subject).json as never)
    } catch (cause) {
      if (cause instanceof TypeError) throw cause
      const why = describeRegistryFailure(url, cause)
      // Of a schema that is not registered, the client drops the status 404.
      const advice = httpStatus(cause) === undefined ? '; run "npm run provision"' : ''
      throw new InfrastructureError(
        `no id for schema ${prefix}${subject}: ${why}${advice}`, { cause })
    }
  }
  const readSchema = async (id: number) => {
    if (id > MAX_ID) throw new TypeError(`invalid schema id ${id}: the maximum is ${MAX_ID}`)
    const schema = await registry.getSchema(id).catch((cause: unknown) => {
      if (isPermanent(cause) && !mayAppear(id, cause)) throw cause
      const why = describeRegistryFailure(url, cause)
      throw new InfrastructureError(`schema ${id} could not be read: ${why}`, { cause })
    })
    // Parsed again, so that writer and reader are types of the same library. Throws for a schema
    // that is not Avro, permanently.
    return toAvroType(JSON.parse(JSON.stringify(schema)) as Schema)
  }
  return { findId, readSchema }
}

/** Ids are signed 32-bit integers. */
const MAX_ID = 2 ** 31 - 1

const MAX_UNKNOWN = 1_000

/** HTTP statuses about this client or its request rate, not about the id. */
const TRANSIENT_STATUSES: ReadonlySet<number> = new Set([401, 403, 407, 408, 425, 429])

/**
 * Whether the result for an id is final: a rejection, or a schema that the client cannot parse. The
 * client reports a lost connection as status 400 too, but with a generic message; a rejection has
 * the message of the registry.
 */
function isPermanent (error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const status = httpStatus(error)
  if (status === undefined) return error.name.startsWith('ConfluentSchemaRegistry')
  if (status === 400 && error.message.includes('Error, status 400')) return false
  return status >= 400 && status < 500 && !TRANSIENT_STATUSES.has(status)
}

/** Caches one lookup per key, shared by concurrent callers; a failed lookup is not cached. */
function memoize<T> (load: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const lookups = new Map<string, Promise<T>>()
  return key => {
    const earlier = lookups.get(key)
    if (earlier !== undefined) return earlier
    const loading = load(key)
    lookups.set(key, loading)
    loading.catch(() => lookups.delete(key))
    return loading
  }
}

/** A local schema: the registered JSON, and the type that encodes and decodes. */
type OwnSchema = { readonly json: Schema, readonly type: Type }

/** A column of strings as one JSON array: ten times as fast as Avro strings one by one. */
class StringColumn extends avro.types.LogicalType {
  override _toValue (texts: unknown): string | undefined {
    return Array.isArray(texts) ? JSON.stringify(texts) : undefined
  }

  override _fromValue (json: string): readonly string[] {
    return JSON.parse(json) as string[]
  }

  /** The registry client drops logical types, so the schema of a writer may be a plain string. */
  override _resolve (writer: Type) {
    if (writer instanceof StringColumn) return (texts: unknown) => texts
    const isText = avro.Type.isType(writer, 'string')
    return isText ? (json: unknown) => this._fromValue(json as string) : undefined
  }
}

/** The read position of avsc in a buffer, which its types do not declare. */
type Tap = {
  readonly buf: Buffer
  readonly pos: number
  readonly readLong: () => number
  readonly skipLong: () => void
}

/**
 * An array whose length is checked before its items are read. The library reads as many items as
 * the length says, even beyond the end of the buffer, so a damaged length could use all memory.
 */
class BoundedArray extends avro.types.ArrayType {
  declare readonly itemsType: Type & { readonly _read: (tap: Tap) => unknown }

  _read (tap: Tap): unknown[] {
    const items: unknown[] = []
    for (let size = tap.readLong(); size !== 0; size = tap.readLong()) {
      if (size < 0) tap.skipLong()
      const left = Math.abs(size)
      const bytes = tap.buf.length - tap.pos
      if (left > bytes) {
        throw new RangeError(`invalid Avro array: ${left} items in ${bytes} bytes`)
      }
      for (let item = 0; item < left; item++) items.push(this.itemsType._read(tap))
    }
    return items
  }
}

/** The type of an Avro schema; each call has its own namespace of named types. */
function toAvroType (json: Schema): Type {
  return avro.Type.forSchema(json, {
    logicalTypes: { texts: StringColumn },
    typeHook: (schema, options) => (schema as { type?: unknown }).type === 'array'
      ? new BoundedArray(schema, options)
      : undefined,
  })
}

/** The local schemas by subject, sorted by file: `<topic>.avsc` and `<topic>-rows.avsc`. */
export function ownSchemas (): ReadonlyMap<string, OwnSchema> {
  loaded ??= load()
  return loaded
}

/**
 * The local schema of a subject.
 * @throws TypeError for an unknown subject.
 */
function ownSchema (subject: string): OwnSchema {
  const schema = ownSchemas().get(subject)
  if (schema === undefined) {
    const file = `schemas/${subject.replace(/-value$/, '')}.avsc`
    throw new TypeError(`unknown schema subject ${subject}: there is no ${file}`)
  }
  return schema
}

function load (): ReadonlyMap<string, OwnSchema> {
  const folder = new URL('../../../schemas/', import.meta.url)
  const files = readdirSync(folder).filter(file => file.endsWith('.avsc')).sort()
  return new Map(files.map(file => {
    const base = file.slice(0, -'.avsc'.length)
    const subject = base.endsWith('-rows') ? base : `${base}-value`
    const json = JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Schema
    return [subject, { json, type: toAvroType(json) }]
  }))
}

let loaded: ReadonlyMap<string, OwnSchema> | undefined
