/** The subset of OpenAPI 3.1 that is used here. */
export type OpenApiDocument = {
  readonly openapi: string
  readonly info: {
    readonly title: string
    readonly version: string
    readonly description?: string
  }
  readonly tags?: readonly { readonly name: string, readonly description?: string }[]
  readonly paths: Paths
  readonly webhooks?: Paths
  readonly components: Readonly<Record<string, object>>
}

export type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>

export type Operation = {
  readonly operationId?: string
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly deprecated?: boolean
  readonly security?: readonly object[]
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly required?: boolean, readonly content: Content }
  readonly responses: Readonly<Record<string, OpenApiResponse>>
  readonly 'x-codeSamples'?: readonly CodeSample[]
}

/** An item of the extension `x-codeSamples`. */
export type CodeSample = {
  readonly lang: string
  readonly label: string
  readonly source: string
}

export type Parameter = {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description?: string
  readonly style?: string
  readonly explode?: boolean
  readonly schema: object
}

export type OpenApiResponse = {
  readonly description: string
  readonly headers?: Readonly<Record<string, object>>
  readonly content?: Content
  readonly links?: Readonly<Record<string, object>>
}

export type Content = Readonly<Record<string, {
  readonly schema: object
  readonly example?: unknown
  readonly examples?: Readonly<Record<string, object>>
}>>

/**
 * Describes parameters of queries as they are read: the items of lists are separated by commas, and
 * objects are sent as `name[key]=value`.
 */
export function withParameterStyles (document: OpenApiDocument): OpenApiDocument {
  const styled = (parameter: Parameter): Parameter => {
    const { type } = parameter.schema as { readonly type?: string }
    if (type === 'object') return { ...parameter, style: 'deepObject', explode: true }
    return type === 'array' && parameter.in === 'query'
      ? { ...parameter, explode: false }
      : parameter
  }
  const paths = mapOperations(document.paths, operation => operation.parameters === undefined
    ? operation
    : { ...operation, parameters: operation.parameters.map(styled) })
  return { ...document, paths }
}

/** Moves shared response headers to `components`. */
export function withSharedHeaders (document: OpenApiDocument): OpenApiDocument {
  const operations = Object.values(document.paths).flatMap(item => Object.values(item))
  const answers = operations.flatMap(({ responses }) => Object.values(responses))
  const headers = new Map<string, object>()
  for (const [name, header] of answers.flatMap(it => Object.entries(it.headers ?? {}))) {
    if (!headers.has(name)) headers.set(name, header)
  }
  const shared = (name: string, header: object) =>
    JSON.stringify(headers.get(name)) === JSON.stringify(header)
      ? { $ref: `#/components/headers/${name}` }
      : header
  const paths = mapOperations(document.paths, operation => ({
    ...operation,
    responses: mapValues(operation.responses, answer => answer.headers === undefined
      ? answer
      : { ...answer, headers: mapValues(answer.headers, (header, name) => shared(name, header)) }),
  }))
  const components = { ...document.components, headers: Object.fromEntries(headers) }
  return { ...document, paths, components }
}

/**
 * Moves schemas with a title to `components`, so that generated clients have one type with a name
 * for each. Throws if two different schemas have the same title.
 */
export function withSharedSchemas (document: OpenApiDocument): OpenApiDocument {
  const schemas: Record<string, unknown> = {}
  const share = (schema: unknown): unknown => {
    if (!isObject(schema)) return Array.isArray(schema) ? schema.map(share) : schema
    const shared = mapValues(schema, share)
    const { title } = shared
    if (typeof title !== 'string') return shared
    if (JSON.stringify(schemas[title] ?? shared) !== JSON.stringify(shared)) {
      throw new Error(`two different schemas have the title ${title}: rename one of them`)
    }
    schemas[title] = shared
    return { $ref: `#/components/schemas/${title}` }
  }
  const walk = (node: unknown): unknown => {
    if (!isObject(node)) return Array.isArray(node) ? node.map(walk) : node
    return mapValues(node, (value, name) => name === 'schema' ? share(value) : walk(value))
  }
  const paths = walk(document.paths) as Paths
  const webhooks = walk(document.webhooks ?? {}) as Paths
  return { ...document, paths, webhooks, components: { ...document.components, schemas } }
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Maps every operation of the paths. */
export function mapOperations (paths: Paths, change: (operation: Operation) => Operation): Paths {
  return mapValues(paths, item => mapValues(item, change))
}

/** Maps the values of an object. */
export function mapValues<T, U> (
  values: Readonly<Record<string, T>>, change: (value: T, name: string) => U
): Record<string, U> {
  return Object.fromEntries(Object.entries(values)
    .map(([name, value]) => [name, change(value, name)]))
}
