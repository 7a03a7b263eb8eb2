import { once } from 'node:events'
import { request, type ClientRequest, type IncomingMessage, type RequestOptions } from 'node:http'
import { text } from 'node:stream/consumers'
import { tenantOf, type Mode } from '../../../services/accounts/tenant.ts'
import { SCOPES } from '../../../services/accounts/api-keys.ts'
import { createClient, type Client, type JobRequest } from '../../../services/client/client.ts'
import { openRedis } from '../../support/redis/open-redis.ts'
import { withWorkspace, type WorkspaceDeps } from '../../../services/admin/deps.ts'
import { newOrganization } from '../../support/organizations.ts'
import { startReceiver } from '../../support/webhooks/receiver.ts'
import { batchDescription, startVendor, type Vendor } from '../../support/vendors/vendor.ts'
import { whileStopped } from '../../support/stacks/processes.ts'
import { startAll, type RunningServices } from '../../support/stacks/services.ts'
import {
  ask as askAt, runJob, type Sent, startEnvironment, type Environment,
} from '../../support/stacks/environment.ts'

/** How long a request waits for its preflight at the interface that is impatient. */
export const ACCEPT_WITHIN_MS = 1_000

/** A trusted proxy; the tests themselves connect from another address. */
export const PROXY = '127.0.0.9'

/** Live keys are answered by the sandbox as well, so that every verdict costs money. */
const PROVIDERS = {
  'phone-validation': ['sandbox'],
  'carrier-lookup': ['numbering-plan'],
  'carrier-single': ['sandbox'],
  'email-validation': ['email-domain'],
  whatsapp: ['http:1'],
}

type Running = {
  readonly environment: Environment
  /** A second API process with a short wait for a preflight. */
  readonly impatient: RunningServices
  readonly vendor: Vendor
  readonly redis: ReturnType<typeof openRedis>
}

let running: Running | undefined

/** What all files of this folder share. */
export function shared (): Running {
  if (running === undefined) throw new Error('the services are not started')
  return running
}

/** Starts one environment for all of the folder. */
export async function start (): Promise<void> {
  const vendor = await startVendor()
  const settings = {
    PROVIDERS: JSON.stringify(PROVIDERS),
    HTTP_PROVIDERS: JSON.stringify([batchDescription(vendor.url)]),
    PROVIDER_RETRIES: '0',
    PROVIDER_OPEN_MS: '100',
    RETRY_DELAY_MS: '100',
    RETRY_DEADLINE_MS: '700',
    TRUSTED_PROXIES: JSON.stringify([PROXY]),
    WEBHOOK_WAITS_MS: '[200]',
  }
  const environment = await startEnvironment(settings, {
    stages: ['ingest', 'verify', 'deliver'], apart: ['normalize', 'verify'],
  })
  const impatient = await startAll({
    env: environment.env,
    stages: ['ingest'],
    overrides: { ...settings, ACCEPT_WITHIN_MS: String(ACCEPT_WITHIN_MS) },
  })
  running = {
    environment, impatient, vendor, redis: openRedis(environment.env.REDIS_STATE_URL ?? ''),
  }
}

export async function stop (): Promise<void> {
  running?.redis.disconnect()
  await running?.impatient.stop()
  await running?.environment.stop()
  await running?.vendor.stop()
}

export const receiver = await startReceiver((response, { path }) => {
  response.writeHead(Number(path.split('/')[1])).end()
})

/** Everything the service has said so far: status, headers and body of each answer. */
export const heard: string[] = []

async function recordedFetch (...call: Parameters<typeof fetch>): Promise<Response> {
  const response = await fetch(...call)
  heard.push(`${response.status} ${JSON.stringify([...response.headers])} ` +
    await response.clone().text())
  return response
}

type SentAt = Sent & {
  /** Another address of the interface. */
  readonly baseUrl?: string
}

type Answer = Awaited<ReturnType<typeof askAt>>

/** The address of a path below the version, or of the host itself (`//docs`). */
const urlOf = (path: string, baseUrl = shared().environment.baseUrl) =>
  path.startsWith('//') ? new URL(path.slice(1), baseUrl) : new URL(`${baseUrl}${path}`)

/** One request. */
export async function ask (path: string, { baseUrl, ...sent }: SentAt = {}): Promise<Answer> {
  const answer = await askAt(urlOf(path, baseUrl), sent)
  heard.push(`${answer.status} ${JSON.stringify([...answer.headers])} ${answer.text}`)
  return answer
}

/** A request by hand, for what `fetch` does not let one do; its body is the caller's to send. */
export function openRequest (path: string, options: RequestOptions): ClientRequest {
  const sent = request(urlOf(path), { agent: false, ...options })
  sent.on('error', () => {})
  sent.flushHeaders()
  return sent
}

/** A POST that announces so many bytes, none of which comes yet. */
export const openPost = ({ key }: Account, path: string, bytes: number): ClientRequest =>
  openRequest(path, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`, 'content-type': 'application/json', 'content-length': bytes,
    },
  })

/** What a request by hand is answered. */
export async function answerTo (sent: ClientRequest) {
  const [answer] = await once(sent, 'response') as [IncomingMessage]
  const { statusCode: status, headers } = answer
  const content = await text(answer)
  heard.push(`${status} ${JSON.stringify(answer.rawHeaders)} ${content}`)
  return { status, headers, json: JSON.parse(content) }
}

/** Posts a job and waits for its end and its rows. */
export const ended = ({ client }: Account, wanted: JobRequest) => runJob(client, wanted)

export type Account = {
  readonly key: string
  readonly tenant: string
  /** Takes every refusal as it is. */
  readonly client: Client
  readonly ask: (path: string, sent?: SentAt) => Promise<Answer>
}

export type Customer = Readonly<Record<Mode, Account>> & { readonly orgId: string }

/** The organizations of all customers. */
export const customers: string[] = []

/** A new organization with a key of each mode, and so much live money: 1 USD, unless said. */
export async function newCustomer (micros = 1_000_000): Promise<Customer> {
  const orgId = await newOrganization(shared().environment.env)
  customers.push(orgId)
  return workspace(async ({ apiKeys, wallet }) => {
    await wallet.topUp(tenantOf(orgId, 'live'), {
      id: 'start', amountMicros: micros, reason: 'test',
    })
    const account = async (mode: Mode) =>
      accountOf((await apiKeys.create({ orgId, mode, scopes: SCOPES })).secret, orgId, mode)
    return { orgId, live: await account('live'), test: await account('test') }
  })
}

function accountOf (key: string, orgId: string, mode: Mode): Account {
  const { baseUrl } = shared().environment
  return {
    key,
    tenant: tenantOf(orgId, mode),
    client: createClient({ baseUrl, apiKey: key, retries: 0, fetch: recordedFetch }),
    ask: (path, sent = {}) => ask(path, { key, ...sent }),
  }
}

/** Does something in the workspace, as its command line would. */
export const workspace = <T> (work: (parts: WorkspaceDeps) => Promise<T>): Promise<T> =>
  withWorkspace(shared().environment.env, work)

/** Works while a service is suspended, and always resumes it. */
export const whileHalted = <T> (service: string, work: () => Promise<T>): Promise<T> =>
  whileStopped(shared().environment.services, service, work)

let serial = 0

/** So many numbers that no test has used, each with this last digit. */
export function newNumbers (count: number, lastDigit = 8): readonly string[] {
  return Array.from({ length: count }, () => `+1212${2_010_000 + 10 * ++serial + lastDigit}`)
}

export const service = 'phone-validation'
export const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
