import { setTimeout as delay } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { createClient, type JobStatusResource } from '../../services/client/client.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { usageOf } from '../bench/usage.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { createRichDemo } from '../support/organizations.ts'
import { breachesOf, startEnvironment } from '../support/stacks/environment.ts'

/** In full as many jobs of the largest size as a tenant may have at once. */
const isFull = process.env['TEST_TIER'] === 'full'
const { jobs, rows, heapMb } = isFull
  ? { jobs: 10, rows: 100_000, heapMb: 256 }
  : { jobs: 6, rows: 20_000, heapMb: 96 }

const environment = closeAfterAll(await startEnvironment(
  { NODE_OPTIONS: `--max-old-space-size=${heapMb}` },
  { stages: ['ingest', 'normalize', 'lookup', 'verify', 'settle', 'ledger'] }))
const { keys, orgId } = await createRichDemo(environment.env)
const client = createClient({ baseUrl: environment.baseUrl, apiKey: keys.live, retries: 0 })

/** As long as it takes: a job refused for now is retried after its Retry-After. */
async function runJob (number: number): Promise<JobStatusResource> {
  const inputs = mixedPhones(rows, 10_000_000 + number * rows)
  const request = { service: 'phone-validation', inputs, countryCode: 'US', forceFresh: true }
  for (;;) {
    const created = await client.createJob(request).catch(refusedForNow)
    if (created === undefined) continue
    return await client.waitForEnd(created.id, { pollEveryMs: 500, timeoutMs: 460_000 })
  }
}

type Refused = Error & { readonly status?: number, readonly retryAfterSeconds?: number }

async function refusedForNow (error: Refused): Promise<undefined> {
  const { status = 0, retryAfterSeconds = 1 } = error
  if (![429, 503].includes(status)) throw error
  await delay(retryAfterSeconds * 1_000 * (1 + Math.random()))
}

it(`${jobs} jobs of ${rows} rows at once end with ${heapMb} MB of heap, and no service crashes`,
  async () => {
    const processes = () => environment.services.list().map(({ name, pid }) => [name, pid])
    const before = processes()
    const ended = await Promise.all(Array.from({ length: jobs }, (_, number) => runJob(number)))
    for (const { name, pid = 0 } of environment.services.list()) {
      console.log(`${name}: ${Math.round(usageOf(pid).peakMb)} MB at most`)
    }
    expect(ended.map(({ status }) => status)).toEqual(ended.map(() => 'completed'))
    expect(ended.map(job => job.successRecords + job.failedRecords)).toEqual(ended.map(() => rows))
    expect(processes()).toEqual(before)
    expect(await breachesOf(environment.env, orgId)).toEqual([])
  })
