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

/** Additional curl options. */
const CURL_OPTIONS: Readonly<Record<string, readonly string[]>> = {
  createJob: ['-H "Idempotency-Key: $(uuidgen)"'],
  createVerification: ['-H "Idempotency-Key: $(uuidgen)"'],
  getResults: ['--compressed -o verified.csv'],
}

const QUERIES: Readonly<Record<string, string>> = {
  listJobs: '?limit=20&status=completed',
  getResults: '?format=csv&status=valid&duplicates=drop',
  getUsage: '?from=2026-08-01&group_by=day,service&format=csv',
}

/** TypeScript samples; `client` and the ids are defined in the introduction. */
const CALLS: Readonly<Record<string, (body: string) => string>> = {
  createJob: body => `const { id, preflight } = await client.createJob(${body})
const job = await client.waitForEnd(id)
console.log(job.status, preflight.maxQuoteMicros, job.chargedMicros)`,
  createVerification: body => `const { results, chargedMicros } = await client.verify(${body})
console.log(results[0].status, results[0].reason, chargedMicros)`,
  listJobs: () => `for await (const job of client.jobs({ status: 'completed' })) {
  console.log(job.id, job.totalRows)
}`,
  getJob: () => `const job = await client.job(jobId)
console.log(job.status, job.progressPercent)`,
  cancelJob: () => `const job = await client.cancel(jobId)
console.log(job.status)`,
  eraseJob: () => `const { erasedAt } = await client.eraseJob(jobId)
console.log(erasedAt)`,
  getResults: () => `const clean = { status: 'valid', duplicates: 'drop' } as const
for await (const row of client.resultRows(jobId, clean)) {
  console.log(row.input, row.e164, row.carrier)
}`,
  listDeliveries: () => `for (const attempt of await client.deliveries(jobId)) {
  console.log(attempt.deliveryId, attempt.outcome, attempt.statusCode)
}`,
  resendDelivery: () => 'await client.resend(jobId, deliveryId)',
  createQuote: body => `const { preflight } = await client.quote(${body})
console.log(preflight.freshChecks, preflight.maxQuoteMicros)`,
  createWebhookEndpoint: body => `const { id, secret } = await client.createWebhookEndpoint(${body})
console.log(id, secret) // Keep the secret: it is not shown again.`,
  listWebhookEndpoints: () => `for (const endpoint of await client.webhookEndpoints()) {
  console.log(endpoint.id, endpoint.url, endpoint.enabled)
}`,
  getWebhookEndpoint: () => `const endpoint = await client.webhookEndpoint(endpointId)
console.log(endpoint.url, endpoint.events)`,
  updateWebhookEndpoint: body =>
    `const endpoint = await client.updateWebhookEndpoint(endpointId, ${body})
console.log(endpoint.enabled)`,
  deleteWebhookEndpoint: () => 'await client.deleteWebhookEndpoint(endpointId)',
  rotateWebhookEndpointSecret: () =>
    `const { secret } = await client.rotateWebhookEndpointSecret(endpointId)
console.log(secret)`,
  listWebhookEndpointDeliveries: () =>
    `for await (const attempt of client.endpointDeliveries(endpointId)) {
  console.log(attempt.jobId, attempt.type, attempt.outcome)
}`,
  listWebhookKeys: () => `const publicKeys = await client.webhookKeys()
console.log(publicKeys) // "publicKey" of verifyWebhook.`,
  getBalance: () => `const { availableMicros } = await client.balance()
console.log(availableMicros)`,
  listTransactions: () => `for await (const { type, amountMicros } of client.transactions()) {
  console.log(type, amountMicros)
}`,
  getUsage: () => `const { data } = await client.usage({ group_by: 'day,service' })
for (const group of data) console.log(group.day, group.service, group.chargedMicros)`,
  listServices: () => `for (const service of await client.services()) {
  console.log(service.slug, service.priceMicros, service.configured)
}`,
}

/** How a receiver verifies an event; the same for all events. */
const RECEIVING = `import { verifyWebhook } from './services/client/verify-webhook.ts'

// The raw body: the signature is over its bytes.
const verified = verifyWebhook({ headers: request.headers, body, secret: 'whsec_...' })
if (!verified.ok) response.writeHead(400).end()
else if (await isNew(verified.event.id)) await enqueue(verified.event)`

/** The signature without the client, for other languages. */
const SIGNING = `# X-Service-Signature: t=$TIMESTAMP,v1=$SIGNATURE
printf '%s.%s' "$TIMESTAMP" "$BODY" | openssl dgst -sha256 -hmac "$SECRET" -r`

/**
 * Adds `x-codeSamples` to each operation. BASE is the address that ends in /api/v1, KEY an API key.
 */
export function withSamples (document: OpenApiDocument): OpenApiDocument {
  const { paths, webhooks = {} } = document
  return {
    ...document,
    paths: Object.fromEntries(Object.entries(paths).map(([path, item]) =>
      [path, itemWithSamples(path, item)])),
    webhooks: mapOperations(webhooks, operation => ({
      ...operation, 'x-codeSamples': [typescript(RECEIVING), curl(SIGNING, 'by hand')],
    })),
  }
}

function itemWithSamples (path: string, item: Paths[string]): Paths[string] {
  return Object.fromEntries(Object.entries(item).map(([method, operation]) => {
    const call = CALLS[operation.operationId ?? '']
    if (call === undefined) return [method, operation]
    const samples = [
      curl(curlSource(method, path, operation)),
      typescript(call(literalOf(bodyOf(operation)))),
    ]
    return [method, { ...operation, 'x-codeSamples': samples }]
  }))
}

const curl = (source: string, label = 'curl'): CodeSample => ({ lang: 'Shell', label, source })
const typescript = (source: string): CodeSample =>
  ({ lang: 'TypeScript', label: 'TypeScript', source })

function curlSource (method: string, path: string, operation: Operation): string {
  const { operationId: id = '' } = operation
  const address = path.replace('/api/v1', '$BASE')
    .replaceAll(/\{(\w+)\}/g, (_, name: string) => variableOf(path, name))
  const body = bodyOf(operation)
  const options = [
    `curl ${methodOption(method, body)}` +
      `"${address}${QUERIES[id] ?? ''}"`,
    '-H "Authorization: Bearer $KEY"',
    ...CURL_OPTIONS[id] ?? [],
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
