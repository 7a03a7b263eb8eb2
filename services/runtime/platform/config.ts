import { readFileSync, unwatchFile, watchFile } from 'node:fs'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import Type, { type Static, type TObject, type TProperties, type TSchema } from 'typebox'
import { Errors } from 'typebox/schema'
import { type KeyClass, LANES } from '../../topology.ts'
import type { Log } from './log.ts'

/** One row of the configuration table in the documentation. */
type ConfigRow = {
  readonly key: string
  readonly description: string
  /** The default as an environment variable; undefined when the key is required or optional. */
  readonly fallback: string | undefined
  readonly required: boolean
  readonly secret: boolean
}

/** All faults of a configuration, one line each. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly faults: readonly string[]

  constructor (faults: readonly string[]) {
    super(['Invalid configuration:', ...faults.map(fault => `- ${fault}`)].join('\n'))
    this.faults = faults
  }
}

/** Settings of every service. */
export const processConfig = {
  INSTANCE: Type.String({
    default: 'local', minLength: 1, description: 'Name of this process in logs and at the brokers.',
  }),
  HOST_METRICS: Type.String({
    default: '127.0.0.1',
    minLength: 1,
    description: 'Listen address of health and metrics; 0.0.0.0 in a container.',
  }),
  PORT_METRICS: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 65_535,
    description: 'Port of /healthz, /readyz and /metrics; 0 uses a free one.',
  }),
  LOG_LEVEL: Type.Enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], {
    default: 'info', description: 'Minimum level of log lines.',
  }),
  OTEL_EXPORTER_OTLP_ENDPOINT: Type.Optional(Type.String({
    pattern: '^https?://.+',
    description: 'OTLP/HTTP endpoint for traces; tracing is disabled without it.',
    examples: ['http://localhost:4318'],
  })),
  OTEL_EXPORTER_OTLP_HEADERS: Type.Optional(Type.String({
    secret: true,
    needs: ['OTEL_EXPORTER_OTLP_ENDPOINT'],
    description: 'Headers of trace exports, name=value with commas, for example a token.',
  })),
  OTEL_TRACES_SAMPLER: Type.Enum([
    'always_on', 'always_off', 'traceidratio', 'parentbased_always_on', 'parentbased_always_off',
    'parentbased_traceidratio',
  ], { default: 'parentbased_always_on', description: 'Sampler of traces.' }),
  OTEL_TRACES_SAMPLER_ARG: Type.Number({
    default: 1, minimum: 0, maximum: 1, description: 'Ratio of a `traceidratio` sampler.',
  }),
}

/** The schema of a service: its own settings and those of every service. */
export function defineConfig<F extends TProperties> (fields: F): TObject<typeof processConfig & F> {
  return Type.Object({ ...processConfig, ...fields })
}

/** Some of the shared fields, typed. */
export function pick<F extends TProperties, K extends keyof F & string> (
  fields: F, keys: readonly K[]
): Pick<F, K> {
  return Object.fromEntries(keys.map(key => [key, fields[key]])) as unknown as Pick<F, K>
}

/**
 * The configuration from environment variables. Numbers and booleans are converted; lists are
 * comma-separated or JSON, objects are JSON. An empty variable counts as missing, except for an
 * optional list, which is then empty. Faults contain the key, the violation and what to do, never
 * the value, and of a secret value no name either. A key that `needs` others is of no use without
 * them.
 * @throws ConfigError with all faults.
 */
export function loadConfig<F extends TProperties> (
  schema: TObject<F>, env: Readonly<Record<string, string | undefined>>
): Static<TObject<F>> {
  const faults: string[] = []
  const values: Record<string, unknown> = {}
  for (const [key, field] of Object.entries(listFields(schema))) {
    const text = env[key]?.trim()
    const isMissing = text === '' && !(field.type === 'array' && isOptional(field))
    const result = parseValue(field, isMissing ? undefined : text)
    if ('fault' in result) faults.push(`${key} ${result.fault} ${formatHint(key, field)}`)
    else if (result.value !== undefined) values[key] = result.value
  }
  faults.push(...missingNeeds(listFields(schema), env))
  if (faults.length > 0) throw new ConfigError(faults)
  return values as Static<TObject<F>>
}

/** The rows of the table in the documentation, in the order of the schema. */
export function describeConfig (schema: TObject): readonly ConfigRow[] {
  return Object.entries(listFields(schema)).map(([key, field]) => ({
    key,
    description: field.description ?? '',
    fallback: field.default === undefined ? undefined : formatted(field.default),
    required: field.default === undefined && !isOptional(field),
    secret: field.secret === true,
  }))
}

type Field = TSchema & {
  readonly type?: string
  readonly description?: string
  readonly default?: unknown
  readonly secret?: boolean
  readonly examples?: readonly unknown[]
  /** Keys that must be set together with this one, or with this value of it. */
  readonly needs?: readonly string[] | ((text: string) => readonly string[])
}

function listFields (schema: TObject): Readonly<Record<string, Field>> {
  return schema.properties as Readonly<Record<string, Field>>
}

/**
 * Faults of keys that are not set and needed by another key that is set. What a key has may be in a
 * file that another one names.
 */
function missingNeeds (
  fields: Readonly<Record<string, Field>>, env: Readonly<Record<string, string | undefined>>
): readonly string[] {
  const isSet = (key: string) => (env[key]?.trim() ?? '') !== ''
  const needed = new Map(Object.entries(fields).filter(([key]) => isSet(key))
    .map(([key, { needs = [] }]) =>
      [key, typeof needs === 'function' ? needs(env[key] ?? '') : needs] as const))
  const isGiven = (key: string) => isSet(key) || isSet(`${key}_FILE`)
  return Object.entries(fields).filter(([key]) => !isGiven(key)).flatMap(([key, field]) => {
    const [needing] = [...needed].find(([, keys]) => keys.includes(key)) ?? []
    return needing === undefined
      ? []
      : [`${key} is missing, which ${needing} needs. ${formatHint(key, field)}`]
  })
}

type Found = { readonly value: unknown } | { readonly fault: string }

function parseValue (field: Field, text: string | undefined): Found {
  if (text === undefined) {
    if (field.default !== undefined) return { value: field.default }
    return isOptional(field) ? { value: undefined } : { fault: 'is missing.' }
  }
  const converted = convert(field, text)
  if ('fault' in converted) return converted
  const [, errors] = Errors(field, converted.value)
  if (errors.length === 0) return converted
  const formatPath = ({ instancePath }: { readonly instancePath: string }) => field.secret === true
    ? publicPath(field, converted.value, instancePath)
    : instancePath
  const reasons = new Set(errors.map(error => {
    const path = formatPath(error)
    const allowed = 'allowedValues' in error.params ? error.params.allowedValues : undefined
    const reason =
      Array.isArray(allowed) ? `must be one of ${allowed.join(', ')}` : error.message
    return path === '' ? reason : `at "${path.slice(1)}" ${reason}`
  }))
  const fault = `${[...reasons].join(', ')}.`
  return { fault: field.secret === true ? hideTexts(fault, converted.value) : fault }
}

/**
 * A path (JSON pointer) into a secret value with the names of its schema only: the name of another
 * property is the secret itself if name and value were swapped, so its position takes its place.
 */
export function publicPath (schema: TSchema, value: unknown, path: string): string {
  let [at, inside]: readonly [TSchema | undefined, unknown] = [schema, value]
  const names = path.split('/').slice(1).map(part => {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    const { properties = {}, items } = (at ?? {}) as {
      readonly properties?: Readonly<Record<string, TSchema>>, readonly items?: TSchema,
    }
    const isDeclared = Object.hasOwn(properties, name)
    const entry = Object.keys(inside ?? {}).indexOf(name) + 1
    const isIndex = Array.isArray(inside)
    at = isIndex ? items : isDeclared ? properties[name] : undefined
    inside = (inside as Readonly<Record<string, unknown>> | undefined)?.[name]
    return isDeclared || isIndex ? name : `entry ${entry}`
  })
  return names.map(name => `/${name}`).join('')
}

/** A word of a format that a fault may name: a secret has digits or other characters. */
const PLAIN_WORD = /^[a-z]{1,16}([A-Z][a-z]{1,16}){0,3}$/

/** Shorter texts are no secrets, and would hide the digits of positions. */
const MIN_HIDDEN = 4

/** Hides what a fault quotes of a secret value. */
function hideTexts (fault: string, value: unknown): string {
  return textsIn(value).filter(text => text.length >= MIN_HIDDEN && !PLAIN_WORD.test(text))
    .toSorted((a, b) => b.length - a.length)
    .reduce((hidden, text) => hidden.replaceAll(text, '(hidden)'), fault)
}

/** The strings and names in a JSON value. */
function textsIn (value: unknown): readonly string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null) return []
  const names = Array.isArray(value) ? [] : Object.keys(value)
  return [...names, ...Object.values(value).flatMap(textsIn)]
}

function convert (field: Field, text: string): Found {
  if (field.type === 'integer' || field.type === 'number') return { value: Number(text) }
  if (field.type === 'boolean') {
    const isBoolean = ['true', 'false'].includes(text)
    return isBoolean ? { value: text === 'true' } : { fault: 'must be true or false.' }
  }
  if (field.type === 'array' && !text.startsWith('[')) {
    return { value: text.split(',').map(part => part.trim()).filter(part => part !== '') }
  }
  if (field.type !== 'array' && field.type !== 'object') return { value: text }
  try {
    return { value: JSON.parse(text) as unknown }
  } catch {
    return { fault: 'is not valid JSON.' }
  }
}

function formatHint (key: string, field: Field): string {
  const example = field.examples?.[0]
  const how = example === undefined
    ? `Set ${key}`
    : `Set it, for example ${key}=${formatted(example)}`
  return `${how} (${(field.description ?? '').replace(/\.$/, '')}).`
}

function formatted (value: unknown): string {
  if (Array.isArray(value) && value.every(item => typeof item === 'string')) return value.join(',')
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function isOptional (field: Field): boolean {
  return '~optional' in field
}

const base64Of32Bytes = '^[A-Za-z0-9+/]{43}=$'
const rootKey = `${base64Of32Bytes}|^aws-kms:.+$|^vault:.+/.+$`
const exampleKey = '{"1":"<output of openssl rand -base64 32>"}'
const url = (scheme: string, description: string, example: string) =>
  Type.String({ pattern: `^${scheme}://.+`, description, examples: [example] })
const secretKeys = (description: string) =>
  Type.Record(Type.String(), Type.String({ pattern: base64Of32Bytes }), {
    minProperties: 1, secret: true, description, examples: [exampleKey],
  })

const rootKeysField = (what: string) =>
  Type.Record(Type.String(), Type.String({ pattern: rootKey }), {
    minProperties: 1,
    secret: true,
    description: `Root keys of ${what}: JSON, key id to 32 bytes of base64, aws-kms:<key> or ` +
      'vault:<mount>/<key>.',
    examples: [exampleKey],
  })
/** Of a stage whose topics are divided into lanes. */
export const lanesConfig = {
  LANES: Type.Array(Type.Enum([...LANES]), {
    default: [...LANES], minItems: 1, description: 'Lanes this process serves.',
  }),
}

/** How an error names a key: by its id, unless that is longer than an id and may be the key. */
export const nameKey = (id: string): string =>
  /^[\w.-]{1,12}$/.test(id) ? `key "${id}"` : `key with an id of ${id.length} characters`

const rootKeyIdField = (what: string) => Type.String({
  minLength: 1, description: `Id of the root key that wraps new keys of ${what}.`, examples: ['1'],
})

/** The settings of each class of root keys. */
export const rootKeys = {
  results: ['RESULTS_ROOT_KEYS', 'RESULTS_ROOT_KEY_ACTIVE'],
  webhooks: ['WEBHOOKS_ROOT_KEYS', 'WEBHOOKS_ROOT_KEY_ACTIVE'],
  partners: ['PARTNERS_ROOT_KEYS', 'PARTNERS_ROOT_KEY_ACTIVE'],
} as const satisfies Readonly<Record<KeyClass, readonly string[]>>

const passwordKeys = ['KAFKA_SASL_USERNAME', 'KAFKA_SASL_PASSWORD'] as const
const tokenKeys =
  ['KAFKA_OAUTH_TOKEN_URL', 'KAFKA_OAUTH_CLIENT_ID', 'KAFKA_OAUTH_CLIENT_SECRET'] as const
/** What the mechanisms need that have no password. */
const SIGN_IN_KEYS: Readonly<Record<string, readonly string[]>> =
  { oauthbearer: tokenKeys, 'aws-msk-iam': ['KAFKA_AWS_REGION'] }
/** What a user needs, or a client of an OpenID provider: the mechanism, and all the others. */
const signInField = (keys: readonly string[], key: string) =>
  ({ needs: ['KAFKA_SASL_MECHANISM', ...keys.filter(other => other !== key)] })
/** A password in a file, which may change while the process runs. */
const passwordFile = (instead: string, needs: readonly string[] = []) =>
  Type.Optional(Type.String({
    needs,
    description: `File with the password, used in place of ${instead}; read again at each ` +
      'sign-in.',
  }))
const certificateKeys = ['KAFKA_TLS_CERT_FILE', 'KAFKA_TLS_KEY_FILE'] as const

const redisCertificateKeys = ['REDIS_TLS_CERT_FILE', 'REDIS_TLS_KEY_FILE'] as const

/** Settings of every client of the state Redis. */
export const stateKeys =
  ['REDIS_STATE_URL', 'REDIS_STATE_PASSWORD_FILE', ...redisCertificateKeys] as const

/** Settings of every client of the cache Redis. */
export const cacheKeys =
  ['REDIS_CACHE_URL', 'REDIS_CACHE_PASSWORD_FILE', ...redisCertificateKeys] as const

/** Settings of every client of ClickHouse. */
export const clickhouseKeys = ['CLICKHOUSE_URL', 'CLICKHOUSE_PASSWORD_FILE'] as const

/** Settings of every client of the schema registry. */
export const registryKeys = ['SCHEMA_REGISTRY_URL', 'SCHEMA_REGISTRY_PASSWORD_FILE'] as const

/** Settings of every client of Kafka. */
export const kafkaKeys = [
  'KAFKA_BROKERS', 'KAFKA_TLS', ...certificateKeys, 'KAFKA_SASL_MECHANISM', ...passwordKeys,
  'KAFKA_SASL_PASSWORD_FILE',
  ...tokenKeys, 'KAFKA_OAUTH_SCOPE', 'KAFKA_AWS_REGION', 'TOPIC_PREFIX',
] as const

/** Settings of every service that produces or consumes messages. */
export const messageKeys = [
  ...kafkaKeys, 'METADATA_MAX_AGE_MS', 'MESSAGE_KEYS', 'MESSAGE_KEY_ACTIVE',
] as const

/** Keys that several services share; each service picks what it needs. */
export const commonConfig = {
  KAFKA_BROKERS: Type.Array(Type.String({ pattern: '^[^:/]+:[0-9]+$' }), {
    minItems: 1, description: 'Addresses of the brokers, host:port.', examples: ['localhost:9092'],
  }),
  KAFKA_TLS: Type.Boolean({
    default: false, description: 'Connect to the brokers over TLS.',
  }),
  KAFKA_TLS_CERT_FILE: Type.Optional(Type.String({
    needs: ['KAFKA_TLS', 'KAFKA_TLS_KEY_FILE'],
    description: 'PEM file with the certificate and its chain by which the brokers know this ' +
      'client; read again for each connection.',
  })),
  KAFKA_TLS_KEY_FILE: Type.Optional(Type.String({
    needs: ['KAFKA_TLS_CERT_FILE'], description: 'PEM file with the key of that certificate.',
  })),
  KAFKA_SASL_MECHANISM: Type.Optional(Type.Enum(
    ['plain', 'scram-sha-256', 'scram-sha-512', 'oauthbearer', 'aws-msk-iam'], {
      needs: (text: string) => SIGN_IN_KEYS[text] ?? passwordKeys,
      description: 'SASL mechanism; no authentication by default. aws-msk-iam is for Amazon MSK, ' +
        'by the credentials of AWS that the process finds.',
    })),
  KAFKA_SASL_USERNAME: Type.Optional(Type.String({
    ...signInField(passwordKeys, 'KAFKA_SASL_USERNAME'), description: 'SASL user.',
  })),
  KAFKA_SASL_PASSWORD: Type.Optional(Type.String({
    ...signInField(passwordKeys, 'KAFKA_SASL_PASSWORD'),
    secret: true,
    description: 'Password of the SASL user.',
  })),
  KAFKA_SASL_PASSWORD_FILE: passwordFile('KAFKA_SASL_PASSWORD', ['KAFKA_SASL_USERNAME']),
  KAFKA_OAUTH_TOKEN_URL: Type.Optional(Type.String({
    ...signInField(tokenKeys, 'KAFKA_OAUTH_TOKEN_URL'),
    pattern: '^https://.+|^http://(localhost|127\\.0\\.0\\.1)[:/].*',
    description: 'Where the OpenID provider of the brokers issues tokens to clients, for ' +
      'oauthbearer.',
    examples: ['https://id.example.com/oauth2/token'],
  })),
  KAFKA_OAUTH_CLIENT_ID: Type.Optional(Type.String({
    ...signInField(tokenKeys, 'KAFKA_OAUTH_CLIENT_ID'),
    description: 'Client at that OpenID provider.',
  })),
  KAFKA_OAUTH_CLIENT_SECRET: Type.Optional(Type.String({
    ...signInField(tokenKeys, 'KAFKA_OAUTH_CLIENT_SECRET'),
    secret: true,
    description: 'Secret of that client.',
  })),
  KAFKA_OAUTH_SCOPE: Type.Optional(Type.String({
    needs: ['KAFKA_OAUTH_TOKEN_URL'], description: 'Scope of the tokens, if the brokers want one.',
  })),
  KAFKA_AWS_REGION: Type.Optional(Type.String({
    needs: ['KAFKA_SASL_MECHANISM', 'KAFKA_TLS'],
    pattern: '^[a-z]{2}(-[a-z]+)+-[0-9]+$',
    description: 'Region of the brokers, for aws-msk-iam.',
    examples: ['eu-central-1'],
  })),
  TOPIC_PREFIX: Type.Optional(Type.String({
    pattern: '^([A-Za-z0-9_-]+\\.)+$',
    maxLength: 100,
    description: 'What topics, consumer groups, schema subjects and users of the stages begin ' +
      'with, on brokers that others use as well; ends in a dot. It cannot be changed later.',
    examples: ['verification.'],
  })),
  METADATA_MAX_AGE_MS: Type.Integer({
    default: 30_000,
    minimum: 100,
    description: 'Age in ms at which metadata of topics is refreshed: new partitions are read ' +
      'then, and written to after three times that.',
  }),
  MESSAGE_KEYS: secretKeys(
    'Keys that sign messages between services and rows of ClickHouse: JSON, key id to 32 bytes ' +
    'of base64. Keep old keys: the journal keeps the messages that they signed forever.'),
  MESSAGE_KEY_ACTIVE: Type.String({
    minLength: 1, description: 'Id of the key that signs messages and rows.', examples: ['1'],
  }),
  SCHEMA_REGISTRY_URL: url('https?', 'Address of the schema registry.', 'http://localhost:8081'),
  SCHEMA_REGISTRY_PASSWORD_FILE: passwordFile('the password in SCHEMA_REGISTRY_URL'),
  REDIS_STATE_URL: url(
    'rediss?(-cluster|-sentinel)?', 'Redis for state: appendfsync always, noeviction; with ' +
    'Sentinel: redis-sentinel://host:port,host:port/group; a cluster: ' +
    'redis-cluster://host:port,host:port.', 'redis://localhost:6379'),
  REDIS_STATE_PASSWORD_FILE: passwordFile('the password in REDIS_STATE_URL'),
  REDIS_CACHE_URL: url(
    'rediss?(-cluster|-sentinel)?', 'Redis for the cache, which may evict; a cluster: ' +
    'redis-cluster://host:port,host:port.', 'redis://localhost:6380'),
  REDIS_CACHE_PASSWORD_FILE: passwordFile('the password in REDIS_CACHE_URL'),
  REDIS_TLS_CERT_FILE: Type.Optional(Type.String({
    needs: ['REDIS_TLS_KEY_FILE'],
    description: 'PEM file with the certificate and its chain by which both Redis know this ' +
      'client, where they want one; read again for each connection.',
  })),
  REDIS_TLS_KEY_FILE: Type.Optional(Type.String({
    needs: ['REDIS_TLS_CERT_FILE'], description: 'PEM file with the key of that certificate.',
  })),
  CLICKHOUSE_URL: url('https?', 'Address of ClickHouse.', 'http://localhost:8123'),
  CLICKHOUSE_PASSWORD_FILE: passwordFile('the password in CLICKHOUSE_URL'),
  JOBS_KEEP_MONTHS: Type.Optional(Type.Integer({
    minimum: 4,
    maximum: 1_200,
    description: 'Months after which the final records of jobs are deleted from ClickHouse; ' +
      'forever when left out. provision applies it, and audit must have the same value. Older ' +
      'jobs are unknown (404), and missing in lists and usage.',
  })),
  RESULTS_ROOT_KEYS: rootKeysField('inputs and results'),
  RESULTS_ROOT_KEY_ACTIVE: rootKeyIdField('inputs and results'),
  WEBHOOKS_ROOT_KEYS: rootKeysField('webhook addresses and secrets'),
  WEBHOOKS_ROOT_KEY_ACTIVE: rootKeyIdField('webhook addresses and secrets'),
  PARTNERS_ROOT_KEYS: rootKeysField('keys of feed partners'),
  PARTNERS_ROOT_KEY_ACTIVE: rootKeyIdField('keys of feed partners'),
  CACHE_SECRETS: secretKeys('Secrets of cache tokens: JSON, version to 32 bytes of base64.'),
  CACHE_SECRET_ACTIVE: Type.String({
    minLength: 1,
    description: 'Version of the cache secret for new tokens.',
    examples: ['1'],
  }),
}

/**
 * A password in a file, read at each sign-in, so that it is replaced without a restart. It is the
 * last one while the file is empty or cannot be read, as in the moment when it is written.
 * @throws Error of the file system if there is no such file at first.
 */
export class PasswordFile {
  readonly #path: string
  #last: string

  constructor (path: string) {
    this.#path = path
    this.#last = this.#read()
  }

  toString (): string {
    try {
      this.#last = this.#read() || this.#last
    } catch {
      // Keeps the last one.
    }
    return this.#last
  }

  #read (): string {
    return readFileSync(this.#path, 'utf8').replace(/\r?\n$/, '')
  }
}

/** A client certificate and its key, both PEM. They are read again when a client copies them. */
export const certificateFiles = (certFile: string, keyFile: string) => ({
  get cert () { return readFileSync(certFile) },
  get key () { return readFileSync(keyFile) },
})

const WATCH_EVERY_MS = 5_000
const CERTIFICATE = /-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----/gs

/**
 * Makes new connections of this process trust what NODE_EXTRA_CA_CERTS contains now: Node itself
 * reads it only when it starts. Returns a function that ends the watch.
 */
export function watchAuthorities (log: Log): () => void {
  const file = process.env['NODE_EXTRA_CA_CERTS'] ?? ''
  if (file === '') return () => {}
  const extra = new Set(getCACertificates('extra'))
  const others = getCACertificates('default').filter(certificate => !extra.has(certificate))
  watchFile(file, { interval: WATCH_EVERY_MS, persistent: false }, () => {
    try {
      const certificates = readFileSync(file, 'utf8').match(CERTIFICATE)
      if (certificates === null) throw new TypeError('there is no certificate in it')
      setDefaultCACertificates([...others, ...certificates])
      log.info({ certificates: certificates.length }, 'certificate authorities read again')
    } catch (error) {
      log.error({ err: error },
        'NODE_EXTRA_CA_CERTS cannot be read again, the authorities stay those before')
    }
  })
  return () => unwatchFile(file)
}
