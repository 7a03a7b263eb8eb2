import Type from 'typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { createHash } from 'node:crypto'
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { AddressInfo, Server } from 'node:net'
import type { Duplex } from 'node:stream'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { FatalError } from './errors.ts'
import { type Bucket, retryAfterSeconds, secondsUntil, TokenBuckets } from './limits.ts'
import {
  clientAddress, clientNetwork, LOOPBACK, type Networks, parseNetworks, plainAddress,
} from './networks.ts'

/**
 * The error of a server that cannot listen, for operators: the port, and what to do. `setting` is
 * the name of what selects the port. Other errors are returned unchanged.
 */
export function explainListenError (error: unknown, setting: string): unknown {
  const { code, address = '', port = 0 } = error as {
    readonly code?: string, readonly address?: string, readonly port?: number
  }
  const place = `port ${port} of ${address}`
  if (code === 'EADDRINUSE') {
    return new FatalError(`port ${port} is in use: another process listens at ${address}. Stop ` +
      `that process, or set ${setting} to another port.`)
  }
  if (code === 'EACCES') {
    return new FatalError(`${place} is reserved for the system. Set ${setting} to a port above ` +
      '1023, or grant the right to use it.')
  }
  return code === 'EADDRNOTAVAIL'
    ? new FatalError(`${place} cannot be used: this machine has no such address. Correct the ` +
      `address beside ${setting}.`)
    : error
}

/** Listens, and rejects with an error that says what to do. */
export async function listenAt (
  server: Server, { host, port }: { readonly host: string, readonly port: number }, setting: string
): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen({ host, port }, resolve)
  }).catch((error: unknown) => { throw explainListenError(error, setting) })
  return (server.address() as AddressInfo).port
}

/** The values of the public interface. */
export const CONNECTION_DEFAULTS = {
  HEADERS_TIMEOUT_MS: 10_000,
  REQUEST_TIMEOUT_MS: 60_000,
  BODY_GRACE_MS: 5_000,
  BODY_BYTES_PER_SECOND: 16_384,
  CONNECTION_TIMEOUT_MS: 120_000,
  KEEP_ALIVE_TIMEOUT_MS: 72_000,
  MAX_CONNECTIONS: 10_000,
  MAX_CONNECTIONS_PER_ADDRESS: 1_000,
  MAX_REQUESTS_PER_CONNECTION: 10_000,
  READ_WITHIN_MS: 30_000,
  READ_BYTES_PER_SECOND: 1_024,
  MAX_UNREAD_BYTES: 134_217_728,
  MAX_UNREAD_BYTES_PER_ADDRESS: 33_554_432,
  LIMIT_PUBLIC: 2_000,
  LIMIT_PUBLIC_ALL: 20_000,
  LIMIT_PUBLIC_SECONDS: 20,
}

export type ConnectionSettings = Readonly<typeof CONNECTION_DEFAULTS>

const whole = (key: keyof ConnectionSettings, description: string) =>
  Type.Integer({ default: CONNECTION_DEFAULTS[key], minimum: 1, description })

/** Settings of connections. The defaults stop slow and idle clients from using all of them. */
export const connectionFields = {
  HEADERS_TIMEOUT_MS: whole('HEADERS_TIMEOUT_MS',
    'Maximum time until the headers of a request have arrived.'),
  REQUEST_TIMEOUT_MS: whole('REQUEST_TIMEOUT_MS', 'Maximum time until a request has arrived.'),
  BODY_GRACE_MS: whole('BODY_GRACE_MS',
    'Time after the headers in which a body has no minimum throughput.'),
  BODY_BYTES_PER_SECOND: whole('BODY_BYTES_PER_SECOND',
    'Minimum average throughput of a body over 64 KiB after BODY_GRACE_MS. A body that is too ' +
    'slow, or too slow to end within REQUEST_TIMEOUT_MS, is answered 408.'),
  CONNECTION_TIMEOUT_MS: whole('CONNECTION_TIMEOUT_MS',
    'A connection without any byte for this time is closed.'),
  KEEP_ALIVE_TIMEOUT_MS: whole('KEEP_ALIVE_TIMEOUT_MS',
    'How long an idle connection stays open between two requests.'),
  MAX_CONNECTIONS: whole('MAX_CONNECTIONS', 'Maximum number of open connections.'),
  MAX_CONNECTIONS_PER_ADDRESS: whole('MAX_CONNECTIONS_PER_ADDRESS',
    'Maximum number of open connections per IPv4 address or IPv6 /64 network; no limit for ' +
    'TRUSTED_PROXIES.'),
  MAX_REQUESTS_PER_CONNECTION: whole('MAX_REQUESTS_PER_CONNECTION',
    'A connection is closed after so many requests, which rebalances clients over instances.'),
  READ_WITHIN_MS: whole('READ_WITHIN_MS',
    'A client that reads less than READ_BYTES_PER_SECOND of a waiting answer in this time is ' +
    'disconnected.'),
  READ_BYTES_PER_SECOND: whole('READ_BYTES_PER_SECOND',
    'Minimum average throughput of a client that reads an answer, in any READ_WITHIN_MS.'),
  MAX_UNREAD_BYTES: whole('MAX_UNREAD_BYTES',
    'Maximum memory for answers that clients have not read yet, in bytes; above it the ' +
    'connections with most are closed.'),
  MAX_UNREAD_BYTES_PER_ADDRESS: whole('MAX_UNREAD_BYTES_PER_ADDRESS',
    'The same for one IPv4 address or IPv6 /64 network; no limit for TRUSTED_PROXIES.'),
  LIMIT_PUBLIC: whole('LIMIT_PUBLIC',
    'Burst of requests without a valid key or session per IPv4 address or IPv6 /64 network. An ' +
    'answer counts once more for each 64 KiB.'),
  LIMIT_PUBLIC_ALL: whole('LIMIT_PUBLIC_ALL',
    'Burst of these requests of all addresses together; each has a twentieth of LIMIT_PUBLIC in ' +
    'any case.'),
  LIMIT_PUBLIC_SECONDS: whole('LIMIT_PUBLIC_SECONDS', 'Seconds to refill these bursts.'),
}

/** How often connections are checked. */
export const CHECK_EVERY_MS = 500

/** The options of a `node:http` or `node:https` server. */
export function nodeLimits (settings: ConnectionSettings) {
  return {
    headersTimeout: settings.HEADERS_TIMEOUT_MS,
    requestTimeout: settings.REQUEST_TIMEOUT_MS,
    keepAliveTimeout: settings.KEEP_ALIVE_TIMEOUT_MS,
    connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, settings.HEADERS_TIMEOUT_MS),
    // Node's own 400 has no body; `ingest` checks the header itself.
    requireHostHeader: false,
  }
}

/** Headers of every response that is not a public document. */
export const PROTECTIVE_HEADERS = {
  'cache-control': 'no-store', 'x-content-type-options': 'nosniff',
} as const

type RawResponse = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/**
 * Time for the client to read the response; afterwards the connection is closed even if it still
 * sends.
 */
const LINGER_MS = 2_000

/** Writes a response directly to a socket, where there is no request yet, and closes it. */
export function sendRawResponse (
  socket: Duplex, { status, headers, body }: RawResponse
): void {
  const all = {
    ...headers,
    'content-length': String(Buffer.byteLength(body)),
    ...PROTECTIVE_HEADERS,
    connection: 'close',
  }
  socket.on('error', () => {})
  socket.end([
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
    ...Object.entries(all).map(([name, value]) => `${name}: ${value}`),
    '',
    body,
  ].join('\r\n'))
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
}

/** The same limits as options of Fastify. */
export function frameworkLimits (settings: ConnectionSettings) {
  const { requestTimeout, keepAliveTimeout, ...http } = nodeLimits(settings)
  return {
    requestTimeout,
    keepAliveTimeout,
    connectionTimeout: settings.CONNECTION_TIMEOUT_MS,
    http,
  }
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The address of the client, behind trusted proxies that of X-Forwarded-For. */
    readonly clientAddress: string
  }
}

/** Adds `clientAddress` to the requests of an application, which Fastify cannot read safely. */
export function readClientAddresses (app: FastifyInstance, proxies: Networks): void {
  app.decorateRequest('clientAddress', {
    getter () { return clientAddress(this.raw, proxies) },
  })
}

/** An answer counts as one more request for each. */
const PUBLIC_BYTES = 65_536
/** The part of its limit that a client has while the limit of all is reached. */
const GUARANTEED_PART = 0.05
/** About 10 MB. */
const MAX_PUBLIC_CLIENTS = 50_000
const ALL = 'all'

/**
 * Limits requests without a valid key or session, for each client and for all together. While the
 * limit of all is reached, only clients that have hardly sent any are served.
 */
export class PublicLimit {
  readonly #client: readonly Bucket[]
  readonly #clients: TokenBuckets
  readonly #shared: readonly Bucket[]
  readonly #all: TokenBuckets
  /** A client with more tokens than these is served in any case. */
  readonly #reserved: number

  constructor (
    { LIMIT_PUBLIC, LIMIT_PUBLIC_ALL, LIMIT_PUBLIC_SECONDS: seconds }: ConnectionSettings,
    now: () => number = () => performance.now()
  ) {
    this.#client = [{ capacity: LIMIT_PUBLIC, seconds }]
    this.#clients = new TokenBuckets(now, MAX_PUBLIC_CLIENTS)
    this.#shared = [{ capacity: LIMIT_PUBLIC_ALL, seconds }]
    this.#all = new TokenBuckets(now, 1)
    this.#reserved = LIMIT_PUBLIC * (1 - GUARANTEED_PART)
  }

  /** Counts a request; returns the seconds to wait if the client may send none now, or 0. */
  take (address: string): number {
    const seconds = this.waitSeconds(address)
    if (seconds === 0) this.#count(address, 1)
    return seconds
  }

  /** The seconds to wait if the client may send no request now, or 0. */
  waitSeconds (address: string): number {
    const levels = this.#clients.levels(clientNetwork(address), this.#client)
    if (levels.some(({ tokens }) => tokens < 1)) return retryAfterSeconds(levels)
    const allLevels = this.#all.levels(ALL, this.#shared)
    if (allLevels.every(({ tokens }) => tokens >= 1)) return 0
    if (levels.every(({ tokens }) => tokens > this.#reserved)) return 0
    return Math.max(1, Math.ceil(Math.min(retryAfterSeconds(allLevels),
      ...levels.map(level => secondsUntil(level, this.#reserved + 1)))))
  }

  /** Counts the bytes of an answer. */
  addBytes (address: string, bytes: number): void {
    this.#count(address, Math.floor(bytes / PUBLIC_BYTES))
  }

  #count (address: string, requests: number): void {
    if (requests === 0) return
    this.#clients.add(clientNetwork(address), this.#client, -requests)
    this.#all.add(ALL, this.#shared, -requests)
  }
}

/** How a request arrived at this process. */
type Transport = 'https' | 'loopback' | 'refused'

/**
 * Decides whether a request counts as HTTPS: TLS, or a trusted proxy that forwards `https`. Plain
 * HTTP is accepted from loopback only, and not from a local proxy that forwards `http`.
 * @throws TypeError for a proxy that is not an address or network.
 */
export function createHttpsRule (trustedProxies: readonly string[]) {
  const proxies = parseNetworks(trustedProxies, 'TRUSTED_PROXIES')

  return function arrivalOf ({ socket, headers }: IncomingMessage): Transport {
    if ('encrypted' in socket && socket.encrypted === true) return 'https'
    const peer = plainAddress(socket.remoteAddress)
    const outer = headers['x-forwarded-proto']
    if (proxies.has(peer)) return outer === 'https' ? 'https' : 'refused'
    const isLocal = LOOPBACK.has(peer) && (outer === undefined || outer === 'https')
    return isLocal ? 'loopback' : 'refused'
  }
}

const CODINGS = ['br', 'gzip'] as const

type Coding = typeof CODINGS[number]

/** A text that never changes, in all codings, each with its entity tag. */
export type ConstantDocument = {
  readonly type: string
  readonly whole: Variant
  readonly coded: Readonly<Record<Coding, Variant>>
}

type Variant = { readonly etag: string, readonly bytes: Buffer }

/** Within some percent of the best, in a tenth of its time. */
const BROTLI_QUALITY = 9

const compress = { br: promisify(brotliCompress), gzip: promisify(gzip) }

/** Makes a document once, so that a request for it costs hardly anything. `type`: media type. */
export async function createDocument (
  type: string, content: string | Buffer
): Promise<ConstantDocument> {
  const bytes = Buffer.from(content)
  const digest = createHash('sha256').update(bytes).digest('hex').slice(0, 32)
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  }
  const [br, gzipped] = await Promise.all([
    compress.br(bytes, { params }), compress.gzip(bytes, { level: constants.Z_BEST_COMPRESSION }),
  ])
  return {
    type,
    whole: { etag: `"${digest}"`, bytes },
    coded: {
      br: { etag: `"${digest}-br"`, bytes: br },
      gzip: { etag: `"${digest}-gzip"`, bytes: gzipped },
    },
  }
}

/**
 * Sends a document in the best coding that the client accepts, or 304 if it has it. All responses
 * share its bytes.
 * @param cacheControl the header Cache-Control
 */
export function sendDocument (
  request: FastifyRequest, reply: FastifyReply,
  { document, cacheControl }: {
    readonly document: ConstantDocument, readonly cacheControl: string
  }
): FastifyReply {
  const accepted = request.headers['accept-encoding']
  const coding = highestWeighted(CODINGS, name =>
    weightOfCoding(accepted, name, name === 'gzip'))
  const { etag, bytes } = coding === undefined ? document.whole : document.coded[coding]
  reply.headers({ etag, vary: 'Accept-Encoding', 'cache-control': cacheControl })
  if (listsTag(request.headers['if-none-match'], etag)) return reply.code(304).send()
  if (coding !== undefined) reply.header('content-encoding', coding)
  return reply.type(document.type).send(bytes)
}

/** The name with the highest weight, the first of equals; undefined if all weights are 0. */
export function highestWeighted<T extends string> (
  names: readonly T[], weigh: (name: T) => number
): T | undefined {
  const weights = names.map(weigh)
  const highest = Math.max(...weights)
  return highest > 0 ? names[weights.indexOf(highest)] : undefined
}

/**
 * The weight of a coding in an Accept-Encoding header, 0 if it is not allowed or there is no
 * header. `unnamed`: whether `*` includes a coding that is not listed.
 */
export function weightOfCoding (
  header: string | undefined, coding: string, unnamed: boolean
): number {
  // A recipient considers x-gzip equivalent to gzip (RFC 9110, 8.4.1.3).
  const names = coding === 'gzip' ? ['gzip', 'x-gzip'] : [coding]
  return mostSpecificWeight(header ?? '', unnamed ? [...names, '*'] : names)
}

/** The weight of the most specific name that a header lists, 0 if it lists none. */
export function mostSpecificWeight (header: string, names: readonly string[]): number {
  const weights = new Map(header.split(',').map(item => {
    const [name = '', ...parameters] = item.split(';').map(part => part.trim().toLowerCase())
    const weight = parameters.find(parameter => parameter.startsWith('q='))?.slice(2)
    return [name, weight === undefined ? 1 : Number(weight) || 0] as const
  }))
  const listed = names.find(name => weights.has(name))
  return listed === undefined ? 0 : weights.get(listed) ?? 0
}

/** Whether an If-None-Match header lists an entity tag. */
export function listsTag (header: string | undefined, tag: string): boolean {
  const tags = (header ?? '').split(',').map(text => text.trim().replace(/^W\//, ''))
  return tags.includes('*') || tags.includes(tag)
}
