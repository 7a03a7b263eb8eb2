import { parse } from 'csv-parse/sync'
import {
  createClient, type Client, type Created, type JobRequest, type JobStatusResource,
} from '../../../services/client/client.ts'
import { tenantOf, tenantsOf } from '../../../services/accounts/tenant.ts'
import { buildKeyPrefix } from '../../../services/cache/tokens.ts'
import { runAudit } from '../audit.ts'
import type { Breach } from '../../../services/admin/audit/report.ts'
import { createDemo } from '../../../services/admin/demo.ts'
import { sharedServices, startAll, startAlone, type RunningServices } from './services.ts'
import { testStack } from './stack.ts'
import { requireDocumented } from '../documented-errors.ts'

export type Environment = {
  readonly env: Record<string, string>
  readonly services: RunningServices
  readonly live: Client
  readonly test: Client
  readonly orgId: string
  readonly keys: { readonly live: string, readonly test: string }
  readonly baseUrl: string
  /** A client of further services for the same organization. */
  readonly clientAt: (baseUrl: string, mode: 'live' | 'test') => Client
  /** What the audit finds wrong with the organization, all its tenants. */
  readonly breaches: () => Promise<readonly Breach[]>
  /** A pattern of the names of its live phone numbers in the cache, by version of their tokens. */
  readonly cacheNames: (version: string) => string
  readonly stop: () => Promise<void>
}

/**
 * Default environment of the services of tests: receivers on this machine, frequent erasures and
 * copies of the journal, whose entries of top-ups the ledger alone sends.
 */
const DEFAULTS = {
  WEBHOOK_ALLOW_HTTP: 'true',
  WEBHOOK_ALLOW_LOOPBACK: 'true',
  ERASE_EVERY_MS: '500',
  COPY_AFTER_MS: '100',
  ORPHAN_AGE_MS: '1000',
  REAP_EVERY_MS: '500',
}

type EnvironmentOptions = {
  /** Starts all services for this file, as overrides for all of them do, and shares none. */
  readonly alone?: boolean
  /** Only these stages get the overrides, each in the place of the shared one. */
  readonly stages?: readonly string[]
  /** Stages with a process of their own, which the file kills, stops or scales. */
  readonly apart?: readonly string[]
}

/**
 * All services on the stack of this worker, with an organization of its own that has 1,000 USD.
 * Files share the services, which take seconds to start; a file that needs other settings names
 * the `stages` that read them, or else has all services alone.
 */
export async function startEnvironment (
  overrides: Record<string, string> = {}, options: EnvironmentOptions = {}
): Promise<Environment> {
  const { env } = testStack()
  const services = await servicesOf(overrides, options)
  const { orgId, keys } = await createDemo(env)
  const { baseUrl } = services
  const clientAt: Environment['clientAt'] = (at, mode) =>
    createClient({ baseUrl: at, apiKey: keys[mode] })
  return {
    env,
    services,
    live: clientAt(baseUrl, 'live'),
    test: clientAt(baseUrl, 'test'),
    orgId,
    keys,
    baseUrl,
    clientAt,
    breaches: async () => await breachesOf(env, orgId),
    cacheNames: version => `${buildKeyPrefix({
      tenant: tenantOf(orgId, 'live'), service: 'phone-validation', version,
    })}*`,
    stop: async () => {
      await cancelOpenJobs(baseUrl, keys)
      await services.stop()
    },
  }
}

const OPEN_STATES = ['queued', 'preparing', 'verifying'] as const
/** Services that a test has damaged may answer never. */
const CANCEL_WITHIN_MS = 10_000

/**
 * Cancels the jobs that the tests of a file have left. A check that is unavailable is retried for
 * 15 minutes: by the services of later files on the same stack, whose tests see it.
 */
export async function cancelOpenJobs (
  baseUrl: string, keys: Readonly<Record<string, string>>
): Promise<void> {
  const signal = AbortSignal.timeout(CANCEL_WITHIN_MS)
  const brief: typeof fetch = (url, init) => fetch(url, { ...init, signal })
  await Promise.allSettled(Object.values(keys).flatMap(apiKey => OPEN_STATES.map(async status => {
    const client = createClient({ baseUrl, apiKey, retries: 0, fetch: brief })
    for await (const { id } of client.jobs({ status })) await client.cancel(id).catch(() => {})
  })))
}

async function servicesOf (
  overrides: Record<string, string>, { stages, alone, apart = [] }: EnvironmentOptions
): Promise<RunningServices> {
  const { env, servicesDir } = testStack()
  const all = { env, overrides: { ...DEFAULTS, ...overrides }, servicesDir, apart }
  const isAlone = stages === undefined && Object.keys(overrides).length > 0
  if (alone ?? isAlone) return await startAlone(all)
  const kept = await sharedServices({ env, servicesDir, overrides: DEFAULTS })
  const none = Object.fromEntries((stages ?? []).map(stage => [stage, 0]))
  const shared: RunningServices = {
    ...kept, setScale: scale => kept.setLayout({ scale: { ...scale, ...none }, apart }),
  }
  // What a file before has changed is put back at the same time.
  await shared.setScale({})
  return stages === undefined ? shared : besides(shared, await startAll({ ...all, stages }))
}

/** Shared services, some of which stand still, and those of this file in their place. */
function besides (shared: RunningServices, own: RunningServices): RunningServices {
  const hasIngest = own.list().some(({ name }) => name.startsWith('ingest-'))
  return {
    ...own,
    baseUrl: hasIngest ? own.baseUrl : shared.baseUrl,
    list: () => [...shared.list(), ...own.list()],
    setScale: async scale => {
      await Promise.all([shared.setScale(scale), own.setScale(scale)])
    },
    untilReady: async () => { await Promise.all([shared.untilReady(), own.untilReady()]) },
    kill: (name, signal) => {
      const isOwn = own.list().some(service => service.name === name)
      return (isOwn ? own : shared).kill(name, signal)
    },
  }
}

/** What the audit finds wrong with some organizations: other tests' jobs may be under way. */
export async function breachesOf (
  env: Record<string, string>, ...orgs: readonly string[]
): Promise<readonly Breach[]> {
  const only = orgs.flatMap(org => tenantsOf(org))
  return (await runAudit(env, { only })).breaches
}

export type Finished = {
  readonly created: Created
  readonly job: JobStatusResource
  readonly rows: readonly Record<string, string>[]
}

/** Posts a job and waits for its end and its results. */
export async function runJob (client: Client, request: JobRequest): Promise<Finished> {
  const created = await client.createJob(request)
  const job = await client.waitForEnd(created.id, { pollEveryMs: 20 })
  return { created, job, rows: parseCsv(await client.results(created.id)) }
}

export type Sent = {
  readonly key?: string
  /** GET without a body, or else POST. */
  readonly method?: string
  /** Sent as JSON, unless it is a text or bytes. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends a request as any client may write it; `json` is empty for another type of answer. */
export async function ask (url: string | URL, { key, method, body, headers: more }: Sent = {}) {
  const isRaw = typeof body === 'string' || body instanceof Uint8Array
  const sentMethod = method ?? (body === undefined ? 'GET' : 'POST')
  const response = await fetch(url, {
    method: sentMethod,
    headers: {
      ...key !== undefined && { authorization: `Bearer ${key}` },
      ...body !== undefined && { 'content-type': 'application/json' },
      ...more,
    },
    ...body !== undefined && { body: isRaw ? body as string : JSON.stringify(body) },
  })
  const { status, headers } = response
  const text = await response.text()
  const isJson = headers.get('content-type')?.startsWith('application/json') === true
  const json = isJson && text !== '' ? JSON.parse(text) : {}
  const code = json.error?.code
  requireDocumented(sentMethod, new URL(url).pathname, { status, code })
  return { status, headers, text, json, code }
}

const NO_VERDICTS = { valid: 0, invalid: 0, risky: 0, unknown: 0 }

/** How often rows of a file have each status and each reason. */
export function verdictsOf (rows: readonly Readonly<Record<string, string>>[]) {
  const count = (name: string) => Object.fromEntries(
    [...Map.groupBy(rows, row => row[name])].map(([text, of]) => [text, of.length]))
  return { verdicts: { ...NO_VERDICTS, ...count('status') }, reasons: count('reason') }
}

/** The rows of a result file by column name; the parser is not the one that wrote it. */
export function parseCsv (text: string): readonly Record<string, string>[] {
  return parse(text, { columns: true, relax_column_count: false })
}
