import { SchemaRegistry } from '@kafkajs/confluent-schema-registry'
import type { Schema, Type } from 'avsc'
import { LRUCache } from 'lru-cache'
import type { TopicName } from '../topology.ts'
import { InfrastructureError } from '../platform/errors.ts'
import { ownSchema, ownSchemas, typeOf } from './schemas.ts'

/** Where ids of schemas come from: the registry, or nothing but our own files. */
export type SchemaSource = {
  /** The id of OUR schema under the subject, which need not be the latest one. */
  readonly idOf: (subject: string) => Promise<number>
  /** The schema some writer used. */
  readonly schemaOf: (id: number) => Promise<Type>
}

export type Codec = {
  /** Avro in the registry's wire format: a zero byte, the schema id (32 bits), the content. */
  readonly encode: (subject: string, value: unknown) => Promise<Buffer>
  /** The value of a topic's message as our own schema has it, whatever version wrote it. */
  readonly decode: (topic: TopicName, bytes: Buffer) => Promise<unknown>
  /** Avro without the prefix, for content that carries its schema id elsewhere. */
  readonly encodeBare: (
    subject: string, value: unknown,
  ) => Promise<{ readonly schemaId: number, readonly bytes: Buffer }>
  /** Makes ready for the writer's schema of such content; what it gives then decodes at once. */
  readonly prepare: (subject: string, schemaId: number) => Promise<(bytes: Buffer) => unknown>
}

const PREFIX_BYTES = 5

/**
 * Encodes by our own schemas and decodes to them. Ids and resolvers are kept for ever, as a schema
 * id never changes its meaning; failed look-ups are not kept.
 */
export function createCodec (source: SchemaSource): Codec {
  const ids = remember((subject: string) => source.idOf(subject))
  const decoders = remember(async (name: string) => {
    const [subject = '', id = ''] = name.split('#')
    return decoderOf(ownSchema(subject).type, await source.schemaOf(Number(id)))
  })
  const prepare = (subject: string, schemaId: number) => decoders(`${subject}#${schemaId}`)
  const encodeBare = async (subject: string, value: unknown) =>
    ({ schemaId: await ids(subject), bytes: encoded(subject, value, 0) })
  const encode = async (subject: string, value: unknown) => {
    const schemaId = await ids(subject)
    const bytes = encoded(subject, value, PREFIX_BYTES)
    bytes[0] = 0
    bytes.writeUInt32BE(schemaId, 1)
    return bytes
  }
  const decode = async (topic: TopicName, bytes: Buffer) => {
    if (bytes.length < PREFIX_BYTES || bytes[0] !== 0) throw new TypeError('not an encoded message')
    const decodeContent = await prepare(`${topic}-value`, bytes.readUInt32BE(1))
    return decodeContent(bytes.subarray(PREFIX_BYTES))
  }
  return { encode, decode, encodeBare, prepare }
}

let scratch = Buffer.allocUnsafe(64 * 1_024)

/**
 * The content after so many bytes that are left to the caller. Written to one buffer that grows to
 * the largest content there was: the library's own holds a kilobyte and writes all else twice.
 */
function encoded (subject: string, value: unknown, prefixBytes: number): Buffer {
  const { type } = ownSchema(subject)
  const end = type.encode(value, scratch, prefixBytes)
  if (end >= 0) return Buffer.from(scratch.subarray(0, end))
  // A negative end is the number of bytes that were missing.
  scratch = Buffer.allocUnsafe(2 * (scratch.length - end))
  return encoded(subject, value, prefixBytes)
}

export type RegistryOptions = {
  /** How long an id that the registry does not know is believed to be on its way to it. */
  readonly unknownForMs?: number
  /** A clock that never goes back, in ms. */
  readonly now?: () => number
}

const UNKNOWN_FOR_MS = 10_000

/**
 * A client of the registry. User and password may stand in the address, as the client would send
 * them itself; but its errors quote the address, and errors are logged.
 */
export function connectRegistry (url: string): SchemaRegistry {
  const { username, password } = new URL(url)
  if (username === '' && password === '') return new SchemaRegistry({ host: url })
  const clean = new URL(url)
  clean.username = ''
  clean.password = ''
  return new SchemaRegistry({
    host: clean.href.replace(/\/$/, ''),
    auth: { username: decodeURIComponent(username), password: decodeURIComponent(password) },
  })
}

/** What an operator has to set right when the registry is there but refuses, or is not trusted. */
export function registryRefusalOf (error: unknown): string | undefined {
  if (!(error instanceof Error && 'status' in error)) return undefined
  if (error.status === 401 || error.status === 403) {
    return 'schema registry authentication failed: check user and password in ' +
      'SCHEMA_REGISTRY_URL'
  }
  // The client makes a status and a text of every failure, so the text is all there is to tell by.
  if (!/certificate|altnames/i.test(error.message)) return undefined
  return 'the certificate of the registry is not trusted: give the file of its authority as ' +
    'NODE_EXTRA_CA_CERTS, and a name in the certificate in SCHEMA_REGISTRY_URL'
}

/**
 * Looks ids up and never registers: only deployment decides which schemas there are. While releases
 * change, a writer may know an id that this reader's registry, a copy that lags or one that is
 * being restored, does not have yet: that is waited for. Only garbage has an id that never comes.
 */
export function registrySource (
  url: string,
  { unknownForMs = UNKNOWN_FOR_MS, now = () => performance.now() }: RegistryOptions = {}
): SchemaSource {
  const registry = connectRegistry(url)
  const unknownSinceMs = new LRUCache<number, number>({ max: MAX_UNKNOWN })
  const mayCome = (id: number, error: unknown) => {
    if (!(error instanceof Error && 'status' in error && error.status === 404)) return false
    const sinceMs = unknownSinceMs.get(id) ?? now()
    unknownSinceMs.set(id, sinceMs)
    return now() - sinceMs < unknownForMs
  }
  const idOf = async (subject: string) => {
    try {
      // The library's type asks for its own notion of a record; it sends the JSON as it is.
      return await registry.getRegistryIdBySchema(subject, ownSchema(subject).json as never)
    } catch (cause) {
      if (cause instanceof TypeError) throw cause
      const why = registryRefusalOf(cause) ?? 'the registry is down, or was not provisioned'
      throw new InfrastructureError(`no id for the schema of ${subject}: ${why}`, { cause })
    }
  }
  const schemaOf = async (id: number) => {
    if (id > MAX_ID) throw new TypeError(`no schema has the id ${id}`)
    const found = await registry.getSchema(id).catch((cause: unknown) => {
      if (isDefinite(cause) && !mayCome(id, cause)) throw cause
      const why = registryRefusalOf(cause) ?? 'the registry is down'
      throw new InfrastructureError(`schema ${id} could not be read: ${why}`, { cause })
    })
    // Read anew from its text, so that writer and reader are types of the same library. What is no
    // Avro fails here, and always will.
    return typeOf(JSON.parse(JSON.stringify(found)) as Schema)
  }
  return { idOf, schemaOf }
}

/** Ids are positive integers of 32 bits with a sign. */
const MAX_ID = 2 ** 31 - 1

/** Unknown ids of more are forgotten, the oldest first, and waited for once more. */
const MAX_UNKNOWN = 1_000

/** Refusals that say something of this process, its rights or its haste, and nothing of the id. */
const PASSING: ReadonlySet<number> = new Set([401, 403, 407, 408, 425, 429])

/**
 * Whether the registry will never give another answer about an id: a refusal, or a schema its
 * client cannot make sense of. The client calls a broken connection a 400 as well, but only what
 * the registry itself refuses comes with the registry's own message instead of a mere status.
 */
function isDefinite (error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (!('status' in error)) return error.name.startsWith('ConfluentSchemaRegistry')
  const status = Number(error.status)
  if (status === 400 && error.message.includes('Error, status 400')) return false
  return status >= 400 && status < 500 && !PASSING.has(status)
}

/** Our own files with made-up ids, from 1 in the order of the files: for tests and simulation. */
export function localSource (): SchemaSource {
  const subjects = [...ownSchemas().keys()]
  const subjectOf = (id: number) => subjects[id - 1] ?? `unknown id ${id}`
  return {
    idOf: async subject => subjects.indexOf(ownSchema(subject).subject) + 1,
    schemaOf: async id => ownSchema(subjectOf(id)).type,
  }
}

/** Equal schemas need no resolver, which is the common case and the fast one. */
function decoderOf (reader: Type, writer: Type): (bytes: Buffer) => unknown {
  if (reader.equals(writer)) return bytes => reader.fromBuffer(bytes) as unknown
  const resolver = reader.createResolver(writer)
  return bytes => reader.fromBuffer(bytes, resolver) as unknown
}

/** One look-up a key, shared by all who ask while it runs, and forgotten when it fails. */
function remember<T> (load: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const known = new Map<string, Promise<T>>()
  return key => {
    const found = known.get(key)
    if (found !== undefined) return found
    const loading = load(key)
    known.set(key, loading)
    loading.catch(() => known.delete(key))
    return loading
  }
}
