import { connect, type Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { onTestFinished } from 'vitest'
import type { AccessEvent } from '../../../services/accounts/access-log/access-log.ts'
import type { KeyLookup } from '../../../services/accounts/api-keys.ts'
import { createApp } from '../../../services/ingest/app.ts'
import { EventStreams } from '../../../services/ingest/limits/limiter.ts'
import type { IngestDeps } from '../../../services/ingest/deps.ts'
import { ingestConfig, type Settings, toSettings } from '../../../services/ingest/config.ts'
import type { Job, ManifestEntry, QuoteSample } from '../../../services/jobs/job.ts'
import { cursorAfter } from '../../../services/jobs/results/provisional.ts'
import type { Submission, SubmitOutcome } from '../../../services/jobs/submit.ts'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { DELIVERED_JOB, DELIVERED_TENANT, endedJob } from '../../support/webhooks/deliveries.ts'
import { requireDocumented } from '../../support/documented-errors.ts'
import { NO_COUNTS } from '../../support/stage-messages.ts'
import { STAGE_ENVIRONMENT } from '../../support/stacks/stage-environment.ts'

export const JOB_ID = DELIVERED_JOB
export const NOW_MS = Date.parse('2026-08-11T10:00:00.000Z')
const LIVE_TENANT = DELIVERED_TENANT
export const KEY_ID = 'key_0123456789abcdef'

const { finishedRows: _finished, inputBlocks: _inputs, ...NO_RECORDS } = NO_COUNTS

/** The usage of a tenant without jobs. */
export const NO_USAGE = {
  jobs: 0,
  totalRows: 0,
  ...NO_RECORDS,
  chargedMicros: 0,
  verdicts: { valid: 0, invalid: 0, risky: 0, unknown: 0 },
}

/** The outcome of a quote, with or without a sample. */
export const quotedOf = (sample?: QuoteSample): SubmitOutcome => ({
  kind: 'refused',
  refusal: {
    code: 'quoted',
    preflight: jobOf().preflight,
    expiresAtMs: NOW_MS + 85_000,
    ...sample && { sample },
  },
})

/** A job that is under way. */
export const jobOf = (more: Partial<Job> = {}): Job => endedJob({
  status: 'queued',
  createdAtMs: NOW_MS - 5_000,
  updatedAtMs: NOW_MS - 4_000,
  ended: false,
  closed: false,
  endedAtMs: 0,
  counts: {
    ...NO_COUNTS,
    finishedRows: 6,
    inputBlocks: 1,
    cacheHits: 1,
    invalidRecords: 2,
    duplicateRecords: 3,
    successRecords: 4,
    failedRecords: 2,
  },
  verdicts: { 'valid assigned_range': 4, 'invalid too_short': 2 },
  chargedMicros: 0,
  releasedMicros: 0,
  ...more,
})

export const closedJob = (more: Partial<Job> = {}): Job => jobOf({
  status: 'completed', ended: true, closed: true, endedAtMs: NOW_MS - 3_000, ...more,
})

export const MANIFEST: readonly ManifestEntry[] = [
  { chunk: 0, digest: 'ab'.repeat(32), won: Buffer.of(0xff, 0x03), firstRow: 0, inputs: true },
]

const KEYS: Readonly<Record<string, KeyLookup>> = {
  '': { kind: 'missing' },
  live: ok('live', ['jobs:write', 'jobs:read']),
  test: ok('test', ['jobs:write', 'jobs:read']),
  reader: ok('live', ['jobs:read']),
  writer: ok('live', ['jobs:write']),
  expired: { kind: 'expired' },
  revoked: { kind: 'revoked' },
}

function ok (mode: 'live' | 'test', scopes: readonly ('jobs:write' | 'jobs:read')[]): KeyLookup {
  const key = { org: 'org_01', tenant: `org_01.${mode}`, mode, scopes, keyId: KEY_ID }
  return { kind: 'ok', key }
}

export const outage = new InfrastructureError('redis is away')

/** Every request is the first one of its organization. */
const amplyLimited: IngestDeps['limiter'] = {
  admit: async request => ({ kind: 'admitted', levels: await amplyLimited.levels(request) }),
  levels: async ({ kind }) => {
    const bucket = { capacity: kind === 'get' ? 200 : 100, seconds: 1 }
    return [{ bucket, tokens: bucket.capacity - 1 }]
  },
}

export type Calls = {
  readonly submissions: Submission[]
  readonly recorded: AccessEvent[]
}

const SOME_LISTS = {
  count: async () => ({ allow: 0, block: 0, suppress: 2 }),
  change: async () => {},
  lookUp: async () => [],
}

const BALANCE = {
  availableMicros: 7, reservedMicros: 3, chargedMicros: 5, fundedMicros: 15, seq: 4,
}

/** Dependencies that accept every job; `calls` records what they are called with. */
export function doubles (more: Partial<IngestDeps> = {}): IngestDeps & { readonly calls: Calls } {
  const calls: Calls = { submissions: [], recorded: [] }
  const readRecentJob: IngestDeps['readRecentJob'] = async (tenant, id) =>
    tenant === LIVE_TENANT && id === JOB_ID ? jobOf() : undefined
  return {
    calls,
    limiter: amplyLimited,
    loadShedding: { rejects: () => false, isClaimed: async () => false, countRefusal: () => {} },
    accessLog: {
      append: async event => {
        calls.recorded.push(event)
        return event.entryId ?? ''
      },
      withdraw: async id => {
        calls.recorded.splice(calls.recorded.findIndex(({ entryId }) => entryId === id), 1)
        return true
      },
    },
    inlineResultsOf: () => '',
    findKey: async secret => KEYS[secret] ?? { kind: 'invalid' },
    findExistingKeys: async () => new Set(),
    lists: () => undefined,
    submit: async submission => {
      calls.submissions.push(submission)
      if (submission.quoteOnly === true) return quotedOf()
      return { kind: 'accepted', job: jobOf(), replayed: false }
    },
    takeSample: async () => true,
    metrics: createMetrics(),
    contactLists: SOME_LISTS,
    openJobs: async () => [],
    listArchived: async () => [],
    cancel: async () => ({ kind: 'unknown' }),
    balance: async () => BALANCE,
    rows: async function * () { yield [] },
    readRecentJob,
    readWithManifest: async (tenant, job) => {
      const found = await (more.readRecentJob ?? readRecentJob)(tenant, job)
      return found && { job: found, manifest: MANIFEST }
    },
    provisionalRows: async ({ blocks }) => ({
      rows: (async function * () {})(), next: cursorAfter(blocks, 0), isComplete: false,
    }),
    eventStreams: new EventStreams({ capacity: 10, maxPerName: 2 }),
    waitingRows: async () => undefined,
    // No job changes while a request waits for it.
    waitForJob: async ({ tenant, job }) => await (more.readRecentJob ?? readRecentJob)(tenant, job),
    findArchived: async () => undefined,
    findResults: async (tenant, job) => await more.findArchived?.(tenant, job),
    findErasures: async () => new Map(),
    erase: async () => ({ erasedAtMs: NOW_MS, completedAtMs: undefined }),
    usage: async () => ({ kind: 'usage', groups: [], total: NO_USAGE }),
    transactions: async () => [],
    openHeader: async () => ({ metadata: { team: 'blue' }, webhookUrl: '' }),
    listAttempts: async () => [],
    listEndpointAttempts: async () => [],
    // Tests of webhook endpoints have real ones.
    endpoints: {} as IngestDeps['endpoints'],
    webhookKeys: async () => [`whpk_${Buffer.alloc(32).toString('base64')}`],
    findDelivery: async () => undefined,
    resend: async () => 'queued',
    csvStream: async function * () { yield 'row,input\r\n'; yield '1,+12127365000\r\n' },
    now: () => NOW_MS,
    ...more,
  }
}

export const settings: Settings = {
  ...toSettings(loadConfig(ingestConfig, { ...STAGE_ENVIRONMENT, CACHE_SECRET_ACTIVE: '1' })),
  checks: new Map([
    ['phone-validation', ['syntax', 'vendor']], ['email-validation', ['syntax', 'lists']],
  ]),
  providers: {},
  maxWebhookEndpoints: 2,
  trustedProxies: ['10.0.0.0/8'],
  bodyBudgetBytes: 1_000_000,
}

export const good = { service: 'phone-validation', inputs: ['+12127365000', 'call me'] }

const compiling = await compilingAs(createApp({ deps: doubles(), settings }))

/** The settings of the listener. */
export const createTestApp = (options: Parameters<typeof createApp>[0]): FastifyInstance =>
  compiling(createApp(options))

/** An application of doubles, and the requests that tests make. */
export function application (
  more: Partial<Parameters<typeof createApp>[0]['deps']> = {}, otherSettings: Partial<Settings> = {}
) {
  const deps = doubles(more)
  const app = createTestApp({ deps, settings: { ...settings, ...otherSettings } })
  return { app, deps, calls: deps.calls, ...sender(app) }
}

export type Sent = {
  readonly key?: string
  readonly headers?: Record<string, string>
  readonly remoteAddress?: string
  /** Of a POST; `jobs` if left out. */
  readonly path?: string
}

function sender (app: FastifyInstance) {
  const send = async (
    method: string, path: string,
    { key = 'live', headers = {}, remoteAddress, body }: Sent & { readonly body?: unknown } = {}
  ) => {
    const url = `/api/v1${path}`
    const response = await app.inject({
      method: method as 'GET',
      url,
      headers: {
        authorization: `Bearer ${key}`,
        ...body !== undefined && { 'content-type': 'application/json' },
        ...headers,
      },
      ...body !== undefined && {
        payload: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
      },
      ...remoteAddress !== undefined && { remoteAddress },
    })
    const { statusCode: status } = response
    if (status >= 400 && response.body !== '') {
      const { code } = response.json().error
      requireDocumented(method, url.replace(/\?.*/s, ''), { status, code })
    }
    return response
  }
  return {
    send,
    get: (path: string, sent: Sent = {}) => send('GET', path, sent),
    post: (body: unknown, sent: Sent = {}) =>
      send('POST', `/${sent.path ?? 'jobs'}`, { ...sent, body }),
  }
}

/** Serves an application until the test ends; resolves with its port. */
export async function listen (app: FastifyInstance): Promise<number> {
  onTestFinished(() => app.close())
  return Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
}

/** A connection that has sent a text; `answer` has all that came until it was closed. */
export function talk (
  port: number, text = '', options: { readonly allowHalfOpen?: boolean } = {}
): { readonly socket: Socket, readonly answer: () => Promise<string> } {
  const socket = connect({ port, host: '127.0.0.1', ...options })
  let heard = ''
  socket.on('data', data => { heard += data.toString() })
  socket.on('error', () => {})
  // A connection that is reset is closed as well.
  const closed = new Promise(resolve => socket.once('close', resolve))
  if (text !== '') socket.write(text)
  return { socket, answer: async () => { await closed; return heard } }
}

type RouteSchema = { readonly schema: unknown, readonly httpPart?: string }

/** The same schemas compile to the same functions, in every application. */
function remembered<A extends RouteSchema, F> (compile: (route: A) => F): (route: A) => F {
  const compiled = new Map<string, F>()
  return route => {
    const name = JSON.stringify(route)
    const compiler = compiled.get(name) ?? compile(route)
    compiled.set(name, compiler)
    return compiler
  }
}

/** The framework lowercases the names of headers itself, unless it is given a compiler. */
function withSmallHeaders<A extends RouteSchema> (route: A): A {
  if (route.httpPart !== 'headers') return route
  const { properties = {}, ...schema } = route.schema as { readonly properties?: object }
  const small = Object.entries(properties).map(([name, value]) => [name.toLowerCase(), value])
  return { ...route, schema: { ...schema, properties: Object.fromEntries(small) } }
}

/**
 * Makes applications use the compilers of the first, each schema compiled once for all tests of a
 * process: that takes ten times as long as the rest of an application.
 */
async function compilingAs (
  first: FastifyInstance
): Promise<(app: FastifyInstance) => FastifyInstance> {
  await first.ready()
  const { validatorCompiler, serializerCompiler } = first
  if (validatorCompiler === undefined || serializerCompiler === undefined) {
    throw new Error('the application has no compilers')
  }
  const validate = remembered(validatorCompiler)
  const serialize = remembered(serializerCompiler)
  return app => app.setValidatorCompiler(route => validate(withSmallHeaders(route)))
    .setSerializerCompiler(serialize)
}
