import type { InjectOptions } from 'fastify'
import { onTestFinished } from 'vitest'
import { EXAMPLE_JOBS } from '../../../schemas/api/job.ts'
import type { AccessEvent } from '../../../services/accounts/access-log/access-log.ts'
import { createApiKeys } from '../../../services/accounts/api-keys.ts'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import type { Role } from '../../../services/accounts/people.ts'
import {
  createNonces, createSessions, createSignInCodes, secretDigest, type SignedIn,
} from '../../../services/accounts/sessions.ts'
import type { JobStatusResource } from '../../../services/client/client.ts'
import { createPage } from '../../../services/page/app.ts'
import type { PageDeps } from '../../../services/page/context.ts'
import { createPipelineMonitor } from '../../../services/page/pipeline/figures.ts'
import { createWebhookSecrets } from '../../../services/webhooks/secrets.ts'
import { accountKey } from '../../../services/accounts/records.ts'
import { organizationKeysOf } from '../keys/organization-keys.ts'
import { workerRedis as redis, emptyRedis } from '../redis/worker.ts'
import { peopleOn } from './stored-people.ts'

/** The organization of the visitors. */
export const ORGANIZATION = { id: 'org_1', name: 'Ann & Sons <Ltd>' }
const LIMITS = { idleMs: 3_600_000, maxMs: 43_200_000 }

/** An attempt of a delivery as the REST interface returns it. */
export const attemptLike = (more: object = {}) => ({
  deliveryId: 'evt_1',
  type: 'job.completed',
  jobId: 'job_1',
  endpointId: null,
  attempt: 1,
  attemptedAt: '2026-11-21T12:00:00.000Z',
  outcome: 'failed',
  statusCode: null,
  reason: 'timeout',
  durationMs: 15_000,
  ...more,
})

/** A job that is verified, as the REST interface returns it. */
export const jobLike = (more: Partial<JobStatusResource> = {}): JobStatusResource => ({
  ...EXAMPLE_JOBS.completed,
  id: 'job_1',
  status: 'verifying',
  totalRows: 10,
  cacheHits: 2,
  freshRecords: 3,
  successRecords: 6,
  failedRecords: 1,
  pendingRecords: 3,
  verdicts: { valid: 5, invalid: 1, risky: 1, unknown: 0 },
  reasons: { assigned_range: 5, too_short: 1, unassigned_range: 1 },
  progressPercent: 70,
  metadata: {},
  completedAt: null,
  ...more,
})

/** The changes when that job ends. */
export const ended = { status: 'completed', completedAt: '2026-11-21T12:00:02.000Z' } as const

/** A REST client with these answers, or functions that make them, and the calls of its methods. */
export function recordingClient (answers: Readonly<Record<string, unknown>>) {
  const calls: unknown[][] = []
  const client = Object.fromEntries(Object.entries(answers).map(([name, answer]) =>
    [name, async (...values: readonly unknown[]) => {
      calls.push([name, ...values])
      return typeof answer === 'function' ? answer(...values) as unknown : answer
    }]))
  return { calls, client }
}

/** Leaves two organizations in Redis, before any command that is sent later. */
async function storeOrganizations (): Promise<void> {
  const fields = { revision: '1', name: ORGANIZATION.name }
  await Promise.all([emptyRedis(), ...[ORGANIZATION.id, 'org_2'].map(async id =>
    await redis.hset(accountKey(`org:${id}`), fields))])
}

/** The accounts, sessions and secrets of organizations. */
function createDeps (client: object) {
  const recorded: AccessEvent[] = []
  return {
    recorded,
    sessions: createSessions({ redis, limits: LIMITS }),
    signInCodes: createSignInCodes(redis),
    nonces: createNonces(redis),
    organizations: createOrganizations(redis),
    people: peopleOn(redis),
    apiKeys: createApiKeys(redis),
    webhookSecrets: createWebhookSecrets({ redis, keys: organizationKeysOf(1) }),
    rest: { of: async () => client as never },
    journal: { readNewest: async () => [] },
    accessLog: {
      append: async (event: AccessEvent) => {
        recorded.push(event)
        return event.entryId ?? ''
      },
      withdraw: async (id: string) => {
        recorded.splice(recorded.findIndex(({ entryId }) => entryId === id), 1)
        return true
      },
    },
    accessCopy: { newest: async () => [] },
    pipelineStatus: createPipelineMonitor({ targets: [], targetsFile: '' }),
    supportUrl: '',
  }
}

type Opening = Partial<Omit<Parameters<typeof createPage>[0], 'deps'>> & {
  readonly deps?: Partial<PageDeps>
  /** The REST client, whose interface is another process. */
  readonly client?: object
}
type Form = Readonly<Record<string, string | readonly string[]>>

/** Who opens a page: the holder of a link, an operator, or a person with a role. */
export type Visitor = 'link' | 'operator' | Role

/** A page on an empty Redis and doubles of other services, until the end of the test. */
export function openPage ({ deps: more, client = {}, ...options }: Opening = {}) {
  const deps = { ...createDeps(client), ...more }
  const app = createPage({
    trustedProxies: ['10.0.0.0/8'],
    tls: { TLS_CERT_FILE: '', TLS_KEY_FILE: '', TLS_RELOAD_MS: 10 },
    ...options,
    deps,
  })
  const stored = storeOrganizations()
  app.addHook('onReady', async () => await stored)
  onTestFinished(() => app.close())

  const ask = (url: string, { headers, ...more }: InjectOptions = {}) =>
    app.inject({ method: 'GET', url, ...more, headers: { host: 'h', ...headers } })

  /** Submits a form, or another body, as browsers do. */
  const post = (url: string, form: Form | string, headers: InjectOptions['headers'] = {}) =>
    ask(url, {
      method: 'POST',
      payload: typeof form === 'string' ? form : encode(form),
      headers: {
        origin: 'http://h', 'content-type': 'application/x-www-form-urlencoded', ...headers,
      },
    })

  const subjectFor = async (visitor: Visitor): Promise<SignedIn> => {
    const orgId = ORGANIZATION.id
    if (visitor === 'operator') return { kind: visitor }
    if (visitor === 'link') return { kind: 'customer', orgId }
    const person = await deps.people.add(orgId, {
      email: `${visitor}@example.com`, role: visitor, createdBy: 'operator',
    })
    return { kind: 'customer', orgId, person: { id: person?.id ?? '', generation: 0 } }
  }

  /** A signed-in browser, whose authentication is so old. */
  const signIn = async (visitor: Visitor | SignedIn = 'link', ageMs = 0) => {
    const subject = typeof visitor === 'string' ? await subjectFor(visitor) : visitor
    const { id, session } = await deps.sessions.create(subject, Date.now() - ageMs)
    const cookie = `session=${id}`
    return {
      id,
      session,
      cookie,
      actor: subject.kind === 'customer' && subject.person !== undefined
        ? { kind: 'person', id: subject.person.id }
        : { kind: 'link', id: secretDigest(id).slice(0, 16) },
      get: (url: string) => ask(url, { headers: { cookie } }),
      /** The text of a page, without its tags. */
      read: async (url: string) => textOf((await ask(url, { headers: { cookie } })).body),
      send: (url: string, form: Form | string = {}, headers: InjectOptions['headers'] = {}) =>
        post(url, typeof form === 'string' ? form : { form_token: session.token, ...form }, {
          cookie, ...headers,
        }),
    }
  }
  return { app, deps, ask, post, signIn }
}

export const textOf = (body: string) => body.replace(/<[^>]+>/g, ' ').replace(/\s+/g, ' ')

const encode = (form: Form) => String(new URLSearchParams(Object.entries(form)
  .flatMap(([name, values]) => [values].flat().map((value): [string, string] => [name, value]))))

/** The nonce of a form of a page. */
export const nonceIn = ({ body }: { readonly body: string }) =>
  /name="nonce" value="([\w-]+)"/.exec(body)?.[1] ?? ''
