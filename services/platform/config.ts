import type { Static, TObject, TProperties, TSchema } from 'typebox'
import Type from 'typebox'
import { Errors } from 'typebox/value'

export { commonConfig, kafkaKeys, messageKeys } from './common-config.ts'

/** One row of the configuration table in the documentation. */
export type ConfigRow = {
  readonly key: string
  readonly description: string
  /** As it is written in the environment; undefined when the key is required or optional. */
  readonly fallback: string | undefined
  readonly required: boolean
  readonly secret: boolean
}

/** All faults of a configuration at once, one line each, in words. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly faults: readonly string[]

  constructor (faults: readonly string[]) {
    super(['The configuration has faults:', ...faults.map(fault => `- ${fault}`)].join('\n'))
    this.faults = faults
  }
}

/**
 * How far a heap that fills fast may grow (`heap-growth.ts`), in percent of what it holds after it
 * was cleaned up, until it is cleaned up again. V8 itself takes about 50 under a limit of the heap,
 * which cost a third of the time of a big job where all services had it. `lookup` and `ingest`,
 * whose memory would be the largest, have less than the others' 150: what that costs them alone is
 * hard to tell from noise.
 */
export const heapGrowth = (percent: number) => Type.Integer({
  default: percent,
  minimum: 20,
  maximum: 1_000,
  description: 'How far a heap that fills fast may grow before it is cleaned up: less memory or ' +
    'less work.',
})

/** What every service has. */
export const processConfig = {
  INSTANCE: Type.String({
    default: 'local', minLength: 1, description: 'Name of this process in logs and at the broker.',
  }),
  HOST_METRICS: Type.String({
    default: '127.0.0.1',
    minLength: 1,
    description: 'Address at which health and metrics listen; 0.0.0.0 in a container.',
  }),
  PORT_METRICS: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 65_535,
    description: 'Port of /healthz, /readyz and /metrics; 0 takes a free one.',
  }),
  LOG_LEVEL: Type.Enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], {
    default: 'info', description: 'Least severity that is logged.',
  }),
  HEAP_GROWTH_PERCENT: heapGrowth(150),
  OTEL_EXPORTER_OTLP_ENDPOINT: Type.Optional(Type.String({
    pattern: '^https?://.+',
    description: 'Where traces are sent, over OTLP/HTTP; without tracing if none.',
    examples: ['http://localhost:4318'],
  })),
  OTEL_EXPORTER_OTLP_HEADERS: Type.Optional(Type.String({
    secret: true,
    needs: ['OTEL_EXPORTER_OTLP_ENDPOINT'],
    description: 'Headers sent along with traces, name=value with commas, for example a token.',
  })),
  OTEL_TRACES_SAMPLER: Type.Enum([
    'always_on', 'always_off', 'traceidratio', 'parentbased_always_on', 'parentbased_always_off',
    'parentbased_traceidratio',
  ], { default: 'parentbased_always_on', description: 'Which traces are kept.' }),
  OTEL_TRACES_SAMPLER_ARG: Type.Number({
    default: 1, minimum: 0, maximum: 1, description: 'Share of the traces that a ratio keeps.',
  }),
}

/** The configuration of a service: its own keys and those that every service has. */
export function defineConfig<F extends TProperties> (fields: F): TObject<typeof processConfig & F> {
  return Type.Object({ ...processConfig, ...fields })
}

/** Some of many fields, typed, for services that share them. */
export function pick<F extends TProperties, K extends keyof F & string> (
  fields: F, keys: readonly K[]
): Pick<F, K> {
  return Object.fromEntries(keys.map(key => [key, fields[key]])) as unknown as Pick<F, K>
}

/**
 * The configuration from environment variables. Numbers and booleans are converted; lists are
 * written with commas or as JSON, objects as JSON. An empty variable counts as missing, except for
 * an optional list, which is then empty. Faults name the key, what is wrong and what to do, never
 * the value, which may be a secret. A key that names others which it `needs` is of no use without
 * them.
 */
export function loadConfig<F extends TProperties> (
  schema: TObject<F>, env: Readonly<Record<string, string | undefined>>
): Static<TObject<F>> {
  const faults: string[] = []
  const values: Record<string, unknown> = {}
  for (const [key, field] of Object.entries(fieldsOf(schema))) {
    const text = env[key]?.trim()
    const isMissing = text === '' && !(field.type === 'array' && isOptional(field))
    const found = valueOf(field, isMissing ? undefined : text)
    if ('fault' in found) faults.push(`${key} ${found.fault} ${hintOf(key, field)}`)
    else if (found.value !== undefined) values[key] = found.value
  }
  faults.push(...lackingOf(fieldsOf(schema), env))
  if (faults.length > 0) throw new ConfigError(faults)
  return values as Static<TObject<F>>
}

/** The rows of the documentation's table, in the order of the schema. */
export function describeConfig (schema: TObject): readonly ConfigRow[] {
  return Object.entries(fieldsOf(schema)).map(([key, field]) => ({
    key,
    description: field.description ?? '',
    fallback: field.default === undefined ? undefined : textOf(field.default),
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
  /** Keys without which this one means nothing. */
  readonly needs?: readonly string[]
}

function fieldsOf (schema: TObject): Readonly<Record<string, Field>> {
  return schema.properties as Readonly<Record<string, Field>>
}

/** Faults of keys that are not set although another one that is set needs them. */
function lackingOf (
  fields: Readonly<Record<string, Field>>, env: Readonly<Record<string, string | undefined>>
): readonly string[] {
  const isSet = (key: string) => (env[key]?.trim() ?? '') !== ''
  return Object.entries(fields).filter(([key]) => !isSet(key)).flatMap(([key, field]) => {
    const needing = Object.keys(fields)
      .find(other => isSet(other) && fields[other]?.needs?.includes(key) === true)
    return needing === undefined
      ? []
      : [`${key} is missing, which ${needing} needs. ${hintOf(key, field)}`]
  })
}

type Found = { readonly value: unknown } | { readonly fault: string }

function valueOf (field: Field, text: string | undefined): Found {
  if (text === undefined) {
    if (field.default !== undefined) return { value: field.default }
    return isOptional(field) ? { value: undefined } : { fault: 'is missing.' }
  }
  const converted = convert(field, text)
  if ('fault' in converted) return converted
  const errors = Errors(field, converted.value)
  if (errors.length === 0) return converted
  const words = new Set(errors.map(error => wordsOf(error.instancePath) + reasonOf(error)))
  return { fault: `${[...words].join(', ')}.` }
}

function convert (field: Field, text: string): Found {
  if (field.type === 'integer' || field.type === 'number') return { value: Number(text) }
  if (field.type === 'boolean') {
    const known = ['true', 'false'].includes(text)
    return known ? { value: text === 'true' } : { fault: 'must be true or false.' }
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

function reasonOf (error: { readonly message: string, readonly params: object }): string {
  const allowed = 'allowedValues' in error.params ? error.params.allowedValues : undefined
  return Array.isArray(allowed) ? `must be one of ${allowed.join(', ')}` : error.message
}

function wordsOf (path: string): string {
  return path === '' ? '' : `at "${path.slice(1)}" `
}

function hintOf (key: string, field: Field): string {
  const example = field.examples?.[0]
  const how = example === undefined ? `Set ${key}` : `Set it, for example ${key}=${textOf(example)}`
  return `${how} (${(field.description ?? '').replace(/\.$/, '')}).`
}

function textOf (value: unknown): string {
  if (Array.isArray(value) && value.every(item => typeof item === 'string')) return value.join(',')
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function isOptional (field: Field): boolean {
  return '~optional' in field
}
