import type { RouteOptions } from 'fastify'
import {
  type CodeSample, mapOperations, type OpenApiDocument, type Operation, type Paths,
} from './document.ts'
import type { AttemptBody } from '../../../schemas/api/deliveries.ts'
import type { EventBody, EventType } from '../../../schemas/api/event.ts'
import type { JobBody } from '../../../schemas/api/job.ts'
import type {
  CreateEndpointBody, EndpointBody, UpdateEndpointBody,
} from '../../../schemas/api/webhook-endpoints.ts'
import { eventIdOf } from '../../jobs/events.ts'

/** Shell variables for path parameters. */
const VARIABLES: Readonly<Record<string, string>> = { id: '$JOB', deliveryId: '$DELIVERY' }

const variableOf = (path: string, name: string): string =>
  path.startsWith('/api/v1/webhook-endpoints/') ? '$ENDPOINT' : VARIABLES[name] ?? name

/** How a receiver verifies an event; the same for all events. */
const RECEIVING = `import { verifyWebhook } from './services/client/verify-webhook.ts'

// The raw body: the signature is over its bytes.
const verified = verifyWebhook({ headers: request.headers, body, secret: 'whsec_...' })
if (!verified.ok) response.writeHead(400).end()
else if (await isNew(verified.event.id)) await enqueue(verified.event)`

/** The signature without the client, for other languages. */
const SIGNING = `# X-Service-Signature: t=$TIMESTAMP,v1=$SIGNATURE
printf '%s.%s' "$TIMESTAMP" "$BODY" | openssl dgst -sha256 -hmac "$SECRET" -r`

/** How an operation is called; `client` and the ids are defined in the introduction. */
type Sample = {
  readonly query?: string
  /** Additional options of curl. */
  readonly curl?: readonly string[]
  /** Lines of TypeScript; `body` is the literal of the first example. */
  readonly client: (body: string) => readonly string[]
}

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly sample?: Sample
  }
}

/**
 * Adds `x-codeSamples` to each operation, as its route says. BASE is the address that ends in
 * /api/v1, KEY an API key.
 */
export function withSamples (
  document: OpenApiDocument, routes: readonly RouteOptions[]
): OpenApiDocument {
  const { paths, webhooks = {} } = document
  const samples = new Map(routes.map(({ schema, config }) => [schema?.operationId, config?.sample]))
  return {
    ...document,
    paths: Object.fromEntries(Object.entries(paths).map(([path, item]) =>
      [path, itemWithSamples(path, item, samples)])),
    webhooks: mapOperations(webhooks, operation => ({
      ...operation, 'x-codeSamples': [typescript(RECEIVING), curl(SIGNING, 'by hand')],
    })),
  }
}

function itemWithSamples (
  path: string, item: Paths[string], samples: ReadonlyMap<string | undefined, Sample | undefined>
): Paths[string] {
  return Object.fromEntries(Object.entries(item).map(([method, operation]) => {
    const sample = samples.get(operation.operationId)
    if (sample === undefined) return [method, operation]
    return [method, {
      ...operation,
      'x-codeSamples': [
        curl(curlSource(method, path, operation, sample)),
        typescript(sample.client(literalOf(bodyOf(operation))).join('\n')),
      ],
    }]
  }))
}

const curl = (source: string, label = 'curl'): CodeSample => ({ lang: 'Shell', label, source })
const typescript = (source: string): CodeSample =>
  ({ lang: 'TypeScript', label: 'TypeScript', source })

function curlSource (
  method: string, path: string, operation: Operation, { query = '', curl: more = [] }: Sample
): string {
  const address = path.replace('/api/v1', '$BASE')
    .replaceAll(/\{(\w+)\}/g, (_, name: string) => variableOf(path, name))
  const body = bodyOf(operation)
  const options = [
    `curl ${methodOption(method, body)}"${address}${query}"`,
    '-H "Authorization: Bearer $KEY"',
    ...more,
    ...(body === undefined
      ? []
      : ['-H \'Content-Type: application/json\'', `-d '${JSON.stringify(body, null, 2)}'`]),
  ]
  return options.join(' \\\n  ')
}

/** Nothing for the default of curl: GET, or POST if there is a body. */
function methodOption (method: string, body: unknown): string {
  const isDefault = method === 'get' || (method === 'post' && body !== undefined)
  return isDefault ? '' : `-X ${method.toUpperCase()} `
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

const CREATED = '2026-08-11T10:00:00.000Z'

const newEndpoint: CreateEndpointBody = {
  url: 'https://hooks.customer.example/events', events: ['job.completed', 'balance.low'],
}
const endpointChange: UpdateEndpointBody = { enabled: false }

export type EndpointRequest = CreateEndpointBody | UpdateEndpointBody

/** Request bodies of webhook endpoints, by operation id and name. */
export const ENDPOINT_REQUESTS = {
  createWebhookEndpoint: { endpoint: newEndpoint },
  updateWebhookEndpoint: { disable: endpointChange },
}

const ENDPOINT_ID = 'we_01jd3v8zj7m5n2k4q6r8s0t1w3'

const endpoint: EndpointBody = {
  id: ENDPOINT_ID,
  ...newEndpoint,
  events: ['job.completed', 'balance.low'],
  description: '',
  enabled: true,
  livemode: true,
  createdAt: CREATED,
  updatedAt: CREATED,
}
/** Not a secret: it is in the public documentation. */
const endpointWithSecret = { ...endpoint, secret: `whsec_${Buffer.alloc(32).toString('base64')}` }

/** Responses of webhook endpoints, by operation id, status and media type. */
export function endpointAnswers (attempt: AttemptBody): Readonly<Record<string, unknown>> {
  return {
    'createWebhookEndpoint 201 application/json': endpointWithSecret,
    'listWebhookEndpoints 200 application/json': { data: [endpoint] },
    'getWebhookEndpoint 200 application/json': endpoint,
    'updateWebhookEndpoint 200 application/json': { ...endpoint, ...endpointChange },
    'deleteWebhookEndpoint 200 application/json': { id: ENDPOINT_ID, deleted: true },
    'rotateWebhookEndpointSecret 200 application/json': endpointWithSecret,
    'listWebhookEndpointDeliveries 200 application/json': {
      data: [{
        ...attempt, deliveryId: `${attempt.deliveryId}.${ENDPOINT_ID}`, endpointId: ENDPOINT_ID,
      }],
      has_more: false,
      next_cursor: null,
    },
    'listWebhookKeys 200 application/json': {
      data: [{ key: `whpk_${Buffer.alloc(32).toString('base64')}` }],
    },
  }
}

const PROGRESS_TENTH = 5

type Jobs = { readonly ended: JobBody, readonly running: JobBody }

/** An event of a type: its id, its type and its data. */
export function eventExample (
  type: EventType, { ended, running }: Jobs
): Pick<EventBody, 'id' | 'type' | 'data'> {
  const uncharged = { chargedMicros: 0, completedAt: null } as const
  const data: Readonly<Record<EventType, EventBody['data']>> = {
    'job.completed': ended,
    'job.failed': { ...ended, status: 'failed' },
    'job.cancelled': { ...ended, status: 'cancelled' },
    'job.accepted': {
      ...ended,
      ...uncharged,
      status: 'queued',
      freshRecords: 0,
      successRecords: 0,
      failedRecords: 0,
      invalidRecords: 0,
      duplicateRecords: 0,
      pendingRecords: 4,
      progressPercent: 0,
    },
    'job.progress': { ...running, ...uncharged, status: 'verifying' },
    'balance.low': {
      thresholdMicros: 1_000_000, availableMicros: 996_000, currency: 'USD', jobId: ended.id,
    },
  }
  const id = eventIdOf(ended.id, type, type === 'job.progress' ? PROGRESS_TENTH : 0)
  return { id, type, data: data[type] }
}
