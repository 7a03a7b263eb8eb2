import Type, { type Static } from 'typebox'
import { PROVIDER_REASONS, ROW_STATUSES } from '../../../schemas/api/verdicts.ts'
import { SERVICE_SLUGS } from '../../topology.ts'
import { PROVIDER_FAILURES } from '../provider.ts'

const closed = { additionalProperties: false } as const
const text = Type.String({ minLength: 1, maxLength: 2_000 })
const pointer = Type.String({ pattern: '^(/([^~/]|~[01])*)*$' })
const failure = Type.Enum([...PROVIDER_FAILURES])
const reason = Type.Enum([...PROVIDER_REASONS])
const words = <T extends Type.TSchema>(of: T) => Type.Record(Type.String(), of)
const maybe = Type.Optional

/** The schema of each kind of authentication. */
export const AUTH = {
  none: Type.Object({ kind: Type.Literal('none') }, closed),
  bearer: Type.Object({ kind: Type.Literal('bearer'), token: text }, closed),
  header: Type.Object({ kind: Type.Literal('header'), name: text, value: text }, closed),
  query: Type.Object({ kind: Type.Literal('query'), name: text, value: text }, closed),
  basic: Type.Object({ kind: Type.Literal('basic'), username: text, password: text }, closed),
} as const

export type HttpAuth = Static<typeof AUTH[keyof typeof AUTH]>

const outcome = Type.Object({
  status: Type.Enum([...ROW_STATUSES]),
  reason,
  confidence: maybe(Type.Integer({ minimum: 0, maximum: 100 })),
}, closed)

const fields = Type.Object({ pointer, values: maybe(words(text)) }, closed)
const reasons = Type.Object({ pointer, values: words(reason) }, closed)
const rate = Type.Object({
  calls: Type.Integer({ minimum: 1 }), perMs: Type.Integer({ minimum: 1 }),
}, closed)

/** A file in a multipart form. */
const file = Type.Object({ name: text, type: text, text }, closed)
const multipart = words(Type.Union([Type.String(), file]))

/** A call with the authentication of the vendor. */
const call = {
  url: text,
  method: maybe(Type.Enum(['GET', 'POST', 'PUT'])),
  query: maybe(words(Type.String())),
  body: maybe(Type.Unknown()),
  multipart: maybe(multipart),
}

/** How rows are submitted as a task, and how its answers are fetched. */
const batch = Type.Object({
  task: pointer,
  idempotent: maybe(Type.Boolean()),
  find: maybe(Type.Object({ ...call, rows: pointer, reference: pointer, task: pointer }, closed)),
  status: Type.Object({
    ...call,
    pointer,
    values: words(Type.Enum(['running', 'ended', 'failed'])),
  }, closed),
  result: maybe(Type.Object({
    ...call,
    url: maybe(text),
    link: maybe(pointer),
    hosts: maybe(Type.Array(text, { minItems: 1 })),
    format: maybe(Type.Enum(['json', 'table'])),
  }, closed)),
  pollMs: maybe(Type.Integer({ minimum: 1_000, maximum: 3_600_000 })),
  deadlineMs: maybe(Type.Integer({ minimum: 1_000, maximum: 86_400_000 })),
  rate: maybe(rate),
}, closed)

/** The schema of a vendor, without the details of `AUTH`. */
export const VENDOR = Type.Object({
  id: Type.Integer({ minimum: 1, maximum: 999_999 }),
  name: text,
  words: maybe(Type.Array(Type.String({ minLength: 3 }))),
  services: Type.Array(Type.Enum([...SERVICE_SLUGS]), { minItems: 1 }),
  url: text,
  method: Type.Enum(['GET', 'POST', 'PUT']),
  auth: Type.Object({ kind: Type.Enum(['none', 'bearer', 'header', 'query', 'basic']) }),
  maxRows: maybe(Type.Integer({ minimum: 1, maximum: 2_000 })),
  request: maybe(Type.Object({
    headers: maybe(words(Type.String())),
    query: maybe(words(Type.String())),
    body: maybe(Type.Unknown()),
    multipart: maybe(multipart),
    row: maybe(Type.Unknown()),
    services: maybe(words(text)),
  }, closed)),
  response: Type.Object({
    rows: maybe(pointer),
    match: maybe(Type.Object({
      row: maybe(pointer), contact: maybe(pointer), key: maybe(Type.Enum(['row', 'contact'])),
    }, closed)),
    verdict: Type.Object({ pointer, values: words(outcome) }, closed),
    reason: maybe(Type.Union([reasons, Type.Array(reasons, { minItems: 1 })])),
    fields: maybe(words(fields)),
  }, closed),
  errors: maybe(Type.Object({
    statuses: maybe(words(failure)),
    field: maybe(Type.Object({
      pointer,
      values: maybe(words(failure)),
      fine: maybe(Type.Array(Type.String())),
      otherwise: maybe(failure),
    }, closed)),
  }, closed)),
  timeoutMs: maybe(Type.Integer({ minimum: 1 })),
  concurrency: maybe(Type.Integer({ minimum: 1 })),
  rate: maybe(rate),
  batch: maybe(batch),
}, closed)

/** The JSON API of a vendor, as a preset or the operator in `HTTP_PROVIDERS` describes it. */
export type HttpVendor = Omit<Static<typeof VENDOR>, 'auth'> & { readonly auth: HttpAuth }

/** The vendor takes batches: `check` submits. */
export type BatchVendor = HttpVendor & { readonly batch: Static<typeof batch> }

/** A call that a description makes. */
export type HttpCall = {
  readonly url: string
  readonly method: 'GET' | 'POST' | 'PUT'
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly query?: Readonly<Record<string, string>> | undefined
  readonly body?: unknown
  readonly multipart?: Static<typeof multipart> | undefined
}
