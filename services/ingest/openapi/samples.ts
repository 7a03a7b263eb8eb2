import {
  mapOperations, type CodeSample, type OpenApiDocument, type Operation, type Paths,
} from './document.ts'

/** Names of the shell for what a path holds in braces. */
const VARIABLES: Readonly<Record<string, string>> = { id: '$JOB', deliveryId: '$DELIVERY' }

/** What curl is told beside the address and the key. */
const MORE_WORDS: Readonly<Record<string, readonly string[]>> = {
  createJob: ['-H "Idempotency-Key: $(uuidgen)"'],
  getResults: ['--compressed -o verified.csv'],
}

const QUERIES: Readonly<Record<string, string>> = {
  listJobs: '?limit=20&status=completed', getResults: '?format=csv',
}

/** How the TypeScript client does it; `client` and the ids are told of before. */
const CALLS: Readonly<Record<string, (body: string) => string>> = {
  createJob: body => `const { id, preflight } = await client.createJob(${body})
const job = await client.waitForEnd(id)
console.log(job.status, preflight.maxQuoteMicros, job.chargedMicros)`,
  listJobs: () => `for await (const job of client.jobs({ status: 'completed' })) {
  console.log(job.id, job.totalRows)
}`,
  getJob: () => `const job = await client.job(jobId)
console.log(job.status, job.progressPercent)`,
  cancelJob: () => `const job = await client.cancel(jobId)
console.log(job.status)`,
  getResults: () => `for await (const row of client.resultRows(jobId, { status: 'valid' })) {
  console.log(row.input, row.e164, row.carrier)
}`,
  listDeliveries: () => `for (const attempt of await client.deliveries(jobId)) {
  console.log(attempt.deliveryId, attempt.outcome, attempt.statusCode)
}`,
  resendDelivery: () => 'await client.resend(jobId, deliveryId)',
  createQuote: body => `const { preflight } = await client.quote(${body})
console.log(preflight.freshChecks, preflight.maxQuoteMicros)`,
  getBalance: () => `const { availableMicros } = await client.balance()
console.log(availableMicros)`,
  listServices: () => `for (const service of await client.services()) {
  console.log(service.slug, service.priceMicros, service.configured)
}`,
}

/** How a receiver believes an event; the same for all of them. */
const RECEIVING = `import { verifyWebhook } from './services/client/verify-webhook.ts'

// The body exactly as it came: the signature is over its bytes.
const verified = verifyWebhook({ headers: request.headers, body, secret: 'whsec_...' })
if (!verified.ok) response.writeHead(400).end()
else if (await isNew(verified.event.id)) await enqueue(verified.event)`

/** The same by hand, for receivers in other languages. */
const SIGNING = `# X-Service-Signature: t=$TIMESTAMP,v1=$SIGNATURE
printf '%s.%s' "$TIMESTAMP" "$BODY" | openssl dgst -sha256 -hmac "$SECRET" -r`

/**
 * The document with code that calls each operation, in the member `x-codeSamples` that readers of
 * OpenAPI know. BASE is the address ending in /api/v1, KEY an API key.
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
    .replaceAll(/\{(\w+)\}/g, (_, name: string) => VARIABLES[name] ?? name)
  const body = bodyOf(operation)
  const words = [
    `curl ${method === 'post' && body === undefined ? '-X POST ' : ''}` +
      `"${address}${QUERIES[id] ?? ''}"`,
    '-H "Authorization: Bearer $KEY"',
    ...MORE_WORDS[id] ?? [],
    ...(body === undefined
      ? []
      : ['-H \'Content-Type: application/json\'', `-d '${JSON.stringify(body, null, 2)}'`]),
  ]
  return words.join(' \\\n  ')
}

/** The first example of the body of a request. */
function bodyOf ({ requestBody }: Operation): unknown {
  const [media] = Object.values(requestBody?.content ?? {})
  const [first] = Object.values(media?.examples ?? {})
  return first !== undefined && 'value' in first ? first.value : undefined
}

/** A value as TypeScript writes it: names without quotes, texts in single ones. */
function literalOf (value: unknown): string {
  return (JSON.stringify(value, null, 2) ?? '')
    .replaceAll(/^( *)"(\w+)":/gm, '$1$2:').replaceAll('"', "'")
}
