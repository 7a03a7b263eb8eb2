import { describe, expect, it } from 'vitest'
import { EVENT_TYPES } from '../../schemas/api/webhooks.ts'
import { deriveEventId } from '../../services/webhooks/event.ts'
import type { OpenApiDocument, Operation } from '../../services/ingest/openapi.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { startGuideEnvironment } from '../support/guides/environment.ts'
import { root } from '../support/sources.ts'

const here = closeAfterAll(await startGuideEnvironment())
const answer = await fetch(new URL('/openapi.json', here.environment.baseUrl))
const document = await answer.json() as OpenApiDocument

/** Operations with a key, in an order in which each finds what it needs. */
const sampled = (): readonly (Operation & { readonly operationId: string })[] =>
  Object.values(document.paths).flatMap(item => Object.values(item))
    .flatMap(operation => operation.operationId === undefined ||
      operation['x-codeSamples'] === undefined
      ? []
      : [{ ...operation, operationId: operation.operationId }])

const sourceOf = (operation: Operation, lang: string) =>
  operation['x-codeSamples']?.find(sample => sample.lang === lang)?.source ?? ''

/** A job that is still under way: the check of this number of a test key is unavailable. */
async function unendingJob (): Promise<string> {
  const { id } = await here.environment.test.createJob({
    service: 'phone-validation', inputs: ['+12125550005'],
  })
  return id
}

/** A job that has ended, for the sample that erases it. */
async function endedJob (): Promise<string> {
  const { live } = here.environment
  const { id } = await live.createJob({ service: 'phone-validation', inputs: ['+12127365001'] })
  return (await live.waitForEnd(id)).id
}

/** Samples in TypeScript that need another client, job or endpoint than the others. */
const OWN: Readonly<Record<string, string>> = {
  cancelJob: 'const client = testClient, jobId = runningId',
  eraseJob: 'const client = liveClient, jobId = erasableId',
  deleteWebhookEndpoint: 'const client = liveClient, endpointId = deletableId',
}

/** A webhook endpoint; the sample that deletes one needs its own. */
async function webhookEndpoint (): Promise<string> {
  const url = 'https://hooks.customer.example/events'
  return (await here.environment.live.createWebhookEndpoint({ url })).id
}

describe('the samples of the reference', () => {
  it('by curl get the documented responses', async () => {
    const { environment, job, shell } = here
    const [running, erasable] = [await unendingJob(), await endedJob()]
    const [endpoint, deletable] = [await webhookEndpoint(), await webhookEndpoint()]
    const jobs: Readonly<Record<string, string>> = { cancelJob: running, eraseJob: erasable }
    const results = await Promise.all(sampled().map(async operation => {
      const isCancel = operation.operationId === 'cancelJob'
      const script = sourceOf(operation, 'Shell')
        .replace('curl ', 'curl --silent --show-error --fail-with-body ')
      const { status, out, errors } = await shell(
        `uuidgen () { node -p 'crypto.randomUUID()'; }\n${script}`, {
          BASE: environment.baseUrl,
          KEY: isCancel ? environment.keys.test : environment.keys.live,
          JOB: jobs[operation.operationId] ?? job,
          DELIVERY: deriveEventId(job, EVENT_TYPES[0]),
          ENDPOINT: operation.operationId === 'deleteWebhookEndpoint' ? deletable : endpoint,
        })
      return { id: operation.operationId, status, errors, lacking: lackingIn(out, operation) }
    }))
    expect(results).toEqual(results.map(({ id }) =>
      ({ id, status: 0, errors: '', lacking: [] })))
    const withKey = Object.values(document.paths).flatMap(item => Object.values(item))
      .filter(({ security }) => security?.length === 1)
    expect(results.map(({ id }) => id)).toEqual(withKey.map(({ operationId }) => operationId))
  })

  it('in TypeScript do what they document', async () => {
    const { environment, job, shell } = here
    const blocks = sampled().map(operation => {
      const own = OWN[operation.operationId] ?? 'const client = liveClient'
      return `{\n${own}\n${sourceOf(operation, 'TypeScript')}\n}`
    })
    const code = [
      `import { createClient } from '${root}/services/client/client.ts'`,
      'const { BASE: baseUrl, LIVE, TEST, jobId, runningId, erasableId } = process.env',
      'const { deliveryId, endpointId, deletableId } = process.env',
      'const liveClient = createClient({ baseUrl, apiKey: LIVE })',
      'const testClient = createClient({ baseUrl, apiKey: TEST })',
      ...blocks,
    ]
    const { status, out, errors } = await shell(
      'node --input-type=module-typescript -e "$CODE"', {
        CODE: code.join('\n'),
        BASE: environment.baseUrl,
        LIVE: environment.keys.live,
        TEST: environment.keys.test,
        jobId: job,
        runningId: await unendingJob(),
        erasableId: await endedJob(),
        endpointId: await webhookEndpoint(),
        deletableId: await webhookEndpoint(),
        deliveryId: deriveEventId(job, EVENT_TYPES[0]),
      })
    expect({ status, errors }).toEqual({ status: 0, errors: '' })
    expect(out).toMatch(/^completed \d+ \d+$/m)
    expect(out).toContain('phone-validation 2000 true')
  })
})

/** Fields that the documented example has and an answer lacks. */
function lackingIn (out: string, { responses }: Operation): readonly string[] {
  const [answer] = Object.values(responses)
  const example = answer?.content?.['application/json']?.example
  // The sample of the usage asks for a CSV file.
  if (!out.startsWith('{') || typeof example !== 'object' || example === null) return []
  const body = JSON.parse(out) as object
  return Object.keys(example).filter(name => !(name in body))
}
