import { connect } from 'node:net'
import { createClient, type Client } from '../../../services/client/client.ts'
import { startReceiver, type Receiver } from '../../support/webhooks/receiver.ts'
import { startDnsServer, type DnsServer } from '../../support/mail/dns-server.ts'
import { createOrganizationWith } from '../../support/organizations.ts'
import { ZONES } from '../../support/data/webhook-addresses.ts'
import { startAll, type RunningServices } from '../../support/stacks/services.ts'
import {
  ask as askAt, type Sent, startEnvironment, type Environment,
} from '../../support/stacks/environment.ts'

type Running = {
  readonly environment: Environment
  /** A second API process whose timeouts are short enough for tests. */
  readonly strict: RunningServices
  readonly dns: DnsServer
  readonly canary: Receiver
}

const STRICT = {
  headersTimeoutMs: 700,
  requestTimeoutMs: 1_500,
  bodyGraceMs: 300,
}

let running: Running | undefined

/** What all files of this folder share. */
export function shared (): Running {
  if (running === undefined) throw new Error('the services are not started')
  return running
}

/** Starts one environment for all of the folder. */
export async function start (): Promise<void> {
  const canary = await startReceiver(response => response.end(), '0.0.0.0')
  const dns = await startDnsServer(ZONES)
  const settings = {
    PROVIDERS: JSON.stringify({
      'phone-validation': ['sandbox'],
      'email-validation': ['email-domain'],
    }),
    // What is refused here is refused for what it is.
    LIMIT_POST_BURST: '100000',
    LIMIT_POST_SUSTAINED: '100000',
    LIMIT_GET: '100000',
    WEBHOOK_ALLOW_HTTP: 'false',
    WEBHOOK_ALLOW_LOOPBACK: 'false',
    WEBHOOK_DNS_SERVERS: JSON.stringify([dns.address]),
    WEBHOOK_WAITS_MS: '[500]',
    WEBHOOK_TIMEOUT_MS: '2000',
  }
  const environment = await startEnvironment(settings, {
    stages: ['ingest', 'lookup', 'verify', 'deliver'],
  })
  const strict = await startAll({
    env: environment.env,
    stages: ['ingest'],
    overrides: {
      ...settings,
      HEADERS_TIMEOUT_MS: String(STRICT.headersTimeoutMs),
      REQUEST_TIMEOUT_MS: String(STRICT.requestTimeoutMs),
      BODY_GRACE_MS: String(STRICT.bodyGraceMs),
    },
  })
  running = { environment, strict, dns, canary }
}

export async function stop (): Promise<void> {
  await running?.strict.stop()
  await running?.environment.stop()
  await running?.dns.stop()
}

/** Status and, for 503, whether it says when to come again, of every answer so far. */
export const heard: { readonly status: number, readonly retryAfter: boolean }[] = []

/** Every answer with 5xx that is none of the documented ones. */
export const undocumented = () =>
  heard.filter(({ status, retryAfter }) => status >= 500 && !(status === 503 && retryAfter))

/** One request, of a path below the version; with a live key, unless another is given. */
export async function ask (path: string, { key, ...sent }: Sent = {}) {
  const { baseUrl, keys } = shared().environment
  const answer = await askAt(`${baseUrl}${path}`, { key: key ?? keys.live, ...sent })
  const { status, headers } = answer
  heard.push({ status, retryAfter: Number(headers.get('retry-after')) >= 1 })
  return answer
}

/** Status and code of what a body is answered, and the field that is named. */
export async function refusal (body: unknown, more: Sent = {}) {
  const { status, code, json } = await ask('/jobs', { body, ...more })
  return [status, code, json.error?.param]
}

/** A new organization with so much money: 1 USD, unless said. */
export async function newCustomer (availableMicros = 1_000_000) {
  const { environment } = shared()
  const { keys, orgId, balance } =
    await createOrganizationWith(environment.env, { availableMicros })
  const client: Client = createClient({
    baseUrl: environment.baseUrl, apiKey: keys.live, retries: 0,
  })
  return { key: keys.live, tenant: `${orgId}.live`, balance, client }
}

export type RawOptions = {
  readonly baseUrl?: string
  /** Ends this side as well once all is written; else the other side has to. */
  readonly end?: boolean
  /** What is dripped, a byte every 20 ms, after all else. */
  readonly drip?: boolean
}
export type RawAnswer = { readonly text: string, readonly status: number, readonly code?: string }

/** Sends bytes as they are; resolves with what came back when the other side ends. */
export async function raw (
  pieces: readonly (string | Buffer)[],
  { baseUrl, end = false, drip = false }: RawOptions = {}
): Promise<RawAnswer> {
  const { hostname, port } = new URL(baseUrl ?? shared().environment.baseUrl)
  const socket = connect(Number(port), hostname)
  let text = ''
  socket.on('data', data => { text += data.toString('latin1') })
  socket.on('error', () => {})
  const closed = new Promise(resolve => socket.on('close', resolve))
  for (const piece of pieces) socket.write(piece)
  const timer = drip ? setInterval(() => socket.write('x'), 20) : undefined
  if (end) socket.end()
  await closed
  clearInterval(timer)
  const answers = [...text.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map(([, status]) => Number(status))
  const retryAfter = /^retry-after: [1-9]/im.test(text)
  for (const status of answers) heard.push({ status, retryAfter })
  const code = /"code":"(\w+)"/.exec(text)?.[1]
  return { text, status: answers[0] ?? 0, ...(code === undefined ? {} : { code }) }
}

/** The head of a request by hand, which closes the connection after it. */
export const head = (line: string, ...headers: readonly string[]) =>
  [line, 'host: x', `authorization: Bearer ${shared().environment.keys.live}`, 'connection: close',
    ...headers, '', ''].join('\r\n')

export const postHead = (...headers: readonly string[]) =>
  head('POST /api/v1/jobs HTTP/1.1', 'content-type: application/json', ...headers)

let serial = 0

/** So many numbers that no test has used, which the sandbox finds valid. */
export function newNumbers (count: number): readonly string[] {
  return Array.from({ length: count }, () => `+1212${200_000 + ++serial}8`)
}

export const service = 'phone-validation'
export const good = { service, inputs: ['+12127365000'] }
export const free = { service, inputs: ['call me'] }
