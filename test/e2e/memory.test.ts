import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { createClient, type Client, type JobStatusResource }
  from '../../services/client/client.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { usageOf } from '../bench/usage.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { createRichDemo } from '../support/organizations.ts'
import { breachesOf, startEnvironment } from '../support/stacks/environment.ts'
import { stackEnv } from '../support/stacks/stack.ts'

/** In full ten jobs of the largest size, which is all that a tenant may have at once. */
const full = process.env.MEMORY_JOBS !== undefined
const jobs = Number(process.env.MEMORY_JOBS ?? 6)
const rows = Number(process.env.MEMORY_ROWS ?? (full ? 100_000 : 20_000))
const heapMb = Number(process.env.MEMORY_HEAP_MB ?? (full ? 256 : 96))
/** Characters of an input; without it phone numbers are sent, else e-mail addresses so long. */
const characters = Number(process.env.MEMORY_CHARACTERS ?? 0)

const JOBS_OF_A_TENANT = 10
/** What rows go through. */
const STAGES = ['ingest', 'normalize', 'lookup', 'verify', 'settle', 'ledger']

const env = stackEnv()
const clients: Client[] = []
const orgs: string[] = []
const overrides = { NODE_OPTIONS: `--max-old-space-size=${heapMb}` }
const environment = closeAfterAll(await startEnvironment(overrides, { stages: STAGES }))
for (let tenant = 0; tenant * JOBS_OF_A_TENANT < jobs; tenant++) {
  const { keys, orgId } = await createRichDemo(env)
  orgs.push(orgId)
  clients.push(createClient({ baseUrl: environment.baseUrl, apiKey: keys.live, retries: 0 }))
}

const refusals: Record<string, number> = {}

/** As long as it takes: a job refused for now is retried after its Retry-After. */
async function runJob (number: number): Promise<JobStatusResource> {
  const client = clients[Math.floor(number / JOBS_OF_A_TENANT)] as Client
  const request = requestOf(number)
  for (;;) {
    const created = await client.createJob(request).catch(refusedForNow)
    if (created === undefined) continue
    return await client.waitForEnd(created.id, { pollEveryMs: 500, timeoutMs: 460_000 })
  }
}

function requestOf (number: number) {
  const from = 10_000_000 + number * rows
  if (characters === 0) {
    const inputs = mixedPhones(rows, from)
    return { service: 'phone-validation', inputs, countryCode: 'US', forceFresh: true } as const
  }
  const domain = `@${'a.'.repeat(90)}example.com`
  const inputs = Array.from({ length: rows }, (_, row) =>
    `${String(from + row).padStart(Math.max(characters - domain.length, 12), 'x')}${domain}`)
  return { service: 'email-validation', inputs, forceFresh: true } as const
}

type Refused = Error & { readonly status?: number, readonly retryAfterSeconds?: number }

async function refusedForNow (error: Refused): Promise<undefined> {
  const { status = 0, retryAfterSeconds = 1 } = error
  if (![429, 503].includes(status)) throw error
  refusals[error.message] = (refusals[error.message] ?? 0) + 1
  await delay(retryAfterSeconds * 1_000 * (1 + Math.random()))
}

/** What a process needs now and at its peak, in megabytes. */
function memoryOf (pid: number): { readonly nowMb: number, readonly peakMb: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const nowMb = Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / 1_024
  return { nowMb: Math.round(nowMb), peakMb: Math.round(usageOf(pid).peakMb) }
}

describe(`${jobs} jobs of ${rows} rows at once, ${heapMb} MB of heap a service`, () => {
  it('all end, no service crashes, every micro is accounted for', async () => {
    const startedAt = performance.now()
    const ended = await Promise.all(Array.from({ length: jobs }, (_, number) => runJob(number)))
    const seconds = Math.round((performance.now() - startedAt) / 1_000)
    const processes = environment.services.list()
      .filter(({ name }) => STAGES.includes(name.split('-')[0] ?? ''))
    console.log(`${jobs} x ${rows} rows in ${seconds} s; refused for now:`, refusals)
    for (const { name, pid, restarts } of processes) {
      console.log(name, pid === undefined ? 'is down' : memoryOf(pid), `restarts ${restarts}`)
    }
    expect(ended.map(({ status }) => status)).toEqual(ended.map(() => 'completed'))
    expect(ended.map(job => job.successRecords + job.failedRecords)).toEqual(ended.map(() => rows))
    expect(processes.filter(({ restarts }) => restarts > 0)).toEqual([])
    expect(await breachesOf(env, ...orgs)).toEqual([])
  })
})
