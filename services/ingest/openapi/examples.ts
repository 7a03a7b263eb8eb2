import type { RouteOptions } from 'fastify'
import { ENTRY_KINDS } from '../../../schemas/api/contact-lists.ts'
import { FileOptionsSchema, WORKBOOK_TYPE } from '../../../schemas/api/file.ts'
import { PreviewOptionsSchema } from '../../../schemas/api/file-preview.ts'
import { describeError, errorBody, type ErrorCode, ERRORS } from '../errors.ts'
import {
  type CodeSample, type Content, mapValues, type OpenApiDocument, type OpenApiResponse,
  type Operation,
} from './document.ts'

/** How an operation is called; `client` and the ids are defined in the introduction. */
type Sample = {
  /** Names of the examples of the body's schema, in their order; further ones are left out. */
  readonly bodies?: readonly string[]
  readonly query?: string
  /** Additional options of curl. */
  readonly curl?: readonly string[]
  /** Lines of TypeScript, if a client has a method; `body` is the literal of the first example. */
  readonly client?: (body: string) => readonly string[]
}

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly sample?: Sample
  }
}

/**
 * Adds to each operation what its route says of it: examples of parameters, bodies and answers,
 * which stand in the schemas as `examples`; `x-codeSamples`, in which BASE is the address that ends
 * in /api/v1 and KEY an API key; and the media types of a file. Examples of errors are shared.
 */
export function withExamples (
  document: OpenApiDocument, routes: readonly RouteOptions[]
): OpenApiDocument {
  const { paths, components } = document
  const faults = (Object.keys(ERRORS) as ErrorCode[]).map(code =>
    [code, { value: errorBody({ code, ...describeError(code).example }, REQUEST_ID) }] as const)
  const byId = new Map(routes.map(route => [route.schema?.operationId, route]))
  return {
    ...document,
    paths: mapValues(paths, (item, path) => mapValues(item, (operation, method) => {
      const route = byId.get(operation.operationId)
      if (route === undefined) return operation
      const shown = withSamples(withOwnExamples(operation, route), { method, path, route })
      switch (route.config?.takesFile) {
        case 'contacts': return withFile(shown, path)
        case 'preview': return withPreviewedFile(shown)
        case 'entries': return { ...shown, requestBody: LIST_FILE }
        default: return shown
      }
    })),
    components: { ...components, examples: Object.fromEntries(faults) },
  }
}

type Place = { readonly method: string, readonly path: string, readonly route: RouteOptions }

function withSamples (operation: Operation, { method, path, route }: Place): Operation {
  const { scope, sample = {} } = route.config ?? {}
  if (scope === undefined) return operation
  const lines = sample.client?.(literalOf(bodyOf(operation)))
  return {
    ...operation,
    'x-codeSamples': [
      shellSample(curlSource(method, path, operation, sample), 'curl'),
      ...lines === undefined ? [] : [typescriptSample(lines.join('\n'))],
    ],
  }
}

function withOwnExamples (operation: Operation, { schema, config }: RouteOptions): Operation {
  const { parameters, requestBody, responses } = operation
  const parts = [schema?.params, schema?.querystring, config?.headers]
  const fields = Object.assign({}, ...parts.map(part =>
    (part as Schema | undefined)?.properties)) as NonNullable<Schema['properties']>
  const bodies = (schema?.body as Schema | undefined)?.examples ?? []
  const names = config?.sample?.bodies ?? []
  const examples = Object.fromEntries(names.map((name, n) => [name, { value: bodies[n] }]))
  const answers = (schema?.response ?? {}) as Readonly<Record<string, Schema>>
  return {
    ...operation,
    ...parameters && {
      parameters: parameters.map(parameter => {
        const example = fields[parameter.name]?.examples?.[0]
        return example === undefined ? parameter : { ...parameter, example }
      }),
    },
    ...requestBody && names.length > 0 && {
      requestBody: {
        ...requestBody, content: mapValues(requestBody.content, media => ({ ...media, examples })),
      },
    },
    responses: mapValues(responses, (answer, status) => withAnswer(answer, answers[status])),
  }
}

/** What is read of a JSON Schema. */
type Schema = {
  readonly examples?: readonly unknown[]
  readonly const?: unknown
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
}

function withAnswer (answer: OpenApiResponse, schema: Schema = {}): OpenApiResponse {
  if (answer.content === undefined) return answer
  const { content: forms } = schema as { readonly content?: Content }
  const content = mapValues(answer.content, (media, type) => {
    const example = exampleOf(forms?.[type]?.schema ?? schema)
    if (example !== undefined) return { ...media, example }
    const { properties }: FaultSchema = media.schema
    const codes = properties?.error?.properties?.code?.enum
    return codes === undefined
      ? media
      : { ...media, examples: Object.fromEntries(codes.map(refOf)) }
  })
  return { ...answer, content }
}

/** The first example of a schema, else one composed of those of its parts, if it has all. */
function exampleOf (schema: Schema): unknown {
  const { examples, items, properties, required = [] } = schema
  if (examples !== undefined) return examples[0]
  if (items !== undefined) {
    const item = exampleOf(items)
    return item === undefined ? undefined : [item]
  }
  if (properties === undefined) return schema.const
  const members = mapValues(properties, exampleOf)
  return required.some(name => members[name] === undefined) ? undefined : members
}

/** A schema without the examples of it and its parts: they are shown beside it. */
export function withoutExamples<T> (schema: T): T {
  if (Array.isArray(schema)) return schema.map(withoutExamples) as T
  if (typeof schema !== 'object' || schema === null) return schema
  return Object.fromEntries(Object.entries(schema)
    .filter(([name, value]) => name !== 'examples' || !Array.isArray(value))
    .map(([name, value]) => [name, withoutExamples(value)])) as T
}

const refOf = (code: string) => [code, { $ref: `#/components/examples/${code}` }] as const

type FaultProperties = { readonly code?: { readonly enum?: readonly string[] } }
type FaultSchema = {
  readonly properties?: { readonly error?: { readonly properties?: FaultProperties } }
}

/** Shell variables for path parameters. */
const VARIABLES: Readonly<Record<string, string>> = { id: '$JOB', deliveryId: '$DELIVERY' }

const variableOf = (path: string, name: string): string =>
  path.startsWith('/api/v1/webhook-endpoints/') ? '$ENDPOINT' : VARIABLES[name] ?? name

/** A sample for a shell. */
export const shellSample = (source: string, label: string): CodeSample =>
  ({ lang: 'Shell', label, source })
/** A sample in TypeScript. */
export const typescriptSample = (source: string): CodeSample =>
  ({ lang: 'TypeScript', label: 'TypeScript', source })

function curlSource (
  method: string, path: string, operation: Operation, { query = '', curl: more = [] }: Sample
): string {
  const address = path.replace('/api/v1', '$BASE')
    .replaceAll(/\{(\w+)\}/g, (_, name: string) => variableOf(path, name))
  const body = bodyOf(operation)
  // Of curl: GET, or POST if there is a body.
  const isDefault = method === 'get' || (method === 'post' && body !== undefined)
  const options = [
    `curl ${isDefault ? '' : `-X ${method.toUpperCase()} `}"${address}${query}"`,
    '-H "Authorization: Bearer $KEY"',
    ...more,
    ...(body === undefined
      ? []
      : ['-H \'Content-Type: application/json\'', `-d '${JSON.stringify(body, null, 2)}'`]),
  ]
  return options.join(' \\\n  ')
}

/** The first example of the request body. */
function bodyOf ({ requestBody }: Operation): unknown {
  const [media] = Object.values(requestBody?.content ?? {})
  const [first] = Object.values(media?.examples ?? {})
  return first !== undefined && 'value' in first ? first.value : undefined
}

/** A value as a TypeScript literal: names without quotes, strings in single quotes. */
function literalOf (value: unknown): string {
  return (JSON.stringify(value, null, 2) ?? '')
    .replaceAll(/^( *)"(\w+)":/gm, '$1$2:').replaceAll('"', "'")
}

const { metadata: _labels, sample: _sample, ...jobOptions } = FileOptionsSchema.properties
const { metadata: _metadata, ...quoteOptions } = FileOptionsSchema.properties

const FILE = 'name,phone\r\nAnn,+12127365000\r\n'
const PHONES = { service: 'phone-validation', column: 'phone' }

const FILE_PART = {
  type: 'string',
  contentMediaType: 'text/csv',
  description: 'A CSV file or a workbook (.xlsx), whose part needs no file name.',
}

/** The bodies of a file beside that of JSON. */
const contentOf = (form: object, example: object): Content => ({
  'text/csv': {
    schema: {
      type: 'string',
      description: 'A CSV file in UTF-8, of at most 500 columns with 32 KiB of names, 64 KiB ' +
        'a line and 100,000 rows below its header. Its options are in the query.',
    },
    examples: { phones: { value: FILE } },
  },
  [WORKBOOK_TYPE]: {
    schema: {
      type: 'string',
      contentMediaType: WORKBOOK_TYPE,
      description: 'An Excel workbook (.xlsx), of which one sheet is read as a CSV file of its ' +
        'rows would be. It may inflate to 256 MiB.',
    },
  },
  'multipart/form-data': {
    schema: { type: 'object', ...form, additionalProperties: false },
    examples: { phones: { value: example } },
  },
})

const ENTRIES = 'entry,list\r\nexample.org,suppress\r\n+4930*,block\r\n'

const LIST_PART = {
  type: 'string',
  description: 'A CSV file in UTF-8 of at most 100,000 lines below its header, with the ' +
    'columns entry (as in JSON), list (allow, block, suppress, or remove) and perhaps kind ' +
    `(${ENTRY_KINDS.join(', ')}); or one column of entries without a name, with action in ` +
    'the query.',
}

/** The body with entries of contact lists. */
const LIST_FILE = {
  required: true,
  content: {
    'text/csv': { schema: LIST_PART, examples: { entries: { value: ENTRIES } } },
    'multipart/form-data': {
      schema: {
        title: 'ContactListForm',
        type: 'object',
        required: ['file'],
        properties: { file: { ...LIST_PART, contentMediaType: 'text/csv' } },
        additionalProperties: false,
      },
      examples: { entries: { value: { file: ENTRIES } } },
    },
  },
} as const

/** The media types of a file beside that of JSON. */
function withFile (operation: Operation, path: string): Operation {
  const { requestBody, 'x-codeSamples': samples = [] } = operation
  const isQuote = operation.operationId === 'createQuote'
  const content = contentOf({
    title: isQuote ? 'QuoteForm' : 'JobForm',
    required: ['file', 'service'],
    properties: { file: FILE_PART, ...isQuote ? quoteOptions : jobOptions },
    patternProperties: { '^metadata\\[.{1,40}\\]$': { type: 'string', maxLength: 500 } },
  }, { file: FILE, ...PHONES })
  const source = [
    `curl "${path.replace('/api/v1', '$BASE')}"`,
    '-H "Authorization: Bearer $KEY"',
    '-F file=@contacts.csv', '-F service=phone-validation', '-F column=phone',
  ].join(' \\\n  ')
  return {
    ...operation,
    requestBody: { ...requestBody, content: { ...requestBody?.content, ...content } },
    'x-codeSamples': [...samples, shellSample(source, 'curl with a file')],
  }
}

/** The media types of a file that is looked at. */
function withPreviewedFile (operation: Operation): Operation {
  const { properties } = PreviewOptionsSchema
  const parameters = Object.entries<object>(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: false,
    description: 'What is known of the file already.',
    schema: { ...schema },
  }))
  const content = contentOf({
    title: 'PreviewForm', required: ['file'], properties: { file: FILE_PART, ...properties },
  }, { file: FILE })
  return { ...operation, parameters, requestBody: { required: true, content } }
}

const REQUEST_ID = 'req_01jd3v8zj7m5n2k4q6r8s0t1w3'
