import { Resolver } from 'node:dns/promises'
import { isIP, type LookupFunction, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { performance } from 'node:perf_hooks'
import { unescape } from 'node:querystring'
import { addAbortSignal } from 'node:stream'
import { promisify } from 'node:util'
import ipaddr from 'ipaddr.js'
import { buildConnector, Client, type Dispatcher } from 'undici'
import { parseRetryAfter } from '../../schemas/http/retry-after.ts'
import type { AttemptReason } from '../webhooks/deliveries.ts'
import { isPublicAddress, parseNetworks } from '../runtime/platform/networks.ts'

/** The result of an attempt: an HTTP response, or the reason why there is none. */
export type Answer =
  | {
    readonly kind: 'answered'
    readonly status: number
    readonly retryAfterMs: number | undefined
  }
  | { readonly kind: 'failed', readonly reason: AttemptReason }

export type Sent = { readonly answer: Answer, readonly durationMs: number }

export type Sender = (url: string, request: {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}) => Promise<Sent>

type SenderOptions = AddressRules & {
  /** Maximum duration of name resolution, connection and response together. */
  readonly timeoutMs: number
  /** URL of the proxy for all attempts; none if left out. */
  readonly proxy?: string | undefined
  /** Name servers, `ip` or `ip:port`; those of the system if empty or left out. */
  readonly dnsServers?: readonly string[]
  /** Replaces DNS in tests. */
  readonly resolve?: Resolve
}

const MAX_RESPONSE_BYTES = 16_384

/**
 * Posts to a receiver over a new connection; never rejects. Three checks keep requests out of
 * private networks: of the URL, of all addresses of its name, and of the connected peer. The peer
 * is not checked if it is the proxy, which gets a checked address. Redirects are not followed. At
 * most 16 KiB of the response body are read, and nothing of it is kept.
 */
export function createSender (options: SenderOptions): Sender {
  return async (url, request) => {
    const startedMs = performance.now()
    const answer = await post(url, request, options)
      .catch((error: unknown): Answer => ({ kind: 'failed', reason: toReason(error) }))
    return { answer, durationMs: performance.now() - startedMs }
  }
}

async function post (
  address: string, { headers, body }: Parameters<Sender>[1], options: SenderOptions
): Promise<Answer> {
  const url = new URL(address)
  checkTarget(url, options)
  const signal = AbortSignal.timeout(options.timeoutMs)
  const client = new Client(url.origin, {
    connect: createConnector(options, signal), pipelining: 1, headersTimeout: 0, bodyTimeout: 0,
  })
  try {
    const path = url.pathname + url.search
    const response = await client.request({ method: 'POST', path, headers, body, signal })
    const retryAfter = response.headers['retry-after']
    await discardBody(response.body)
    return {
      kind: 'answered',
      status: response.statusCode,
      retryAfterMs: parseRetryAfter([retryAfter].flat()[0], Date.now()),
    }
  } finally {
    // Not awaited: a receiver may also be slow to close the connection.
    client.destroy().catch(() => {})
  }
}

/** The status alone decides, so neither the content nor an incomplete body matters. */
async function discardBody (body: Dispatcher.ResponseData['body']): Promise<void> {
  let bytes = 0
  try {
    for await (const chunk of body) {
      bytes += (chunk as Buffer).length
      if (bytes >= MAX_RESPONSE_BYTES) return
    }
  } catch {
    // The connection broke or the time was over.
  }
}

function createConnector (options: SenderOptions, signal: AbortSignal): buildConnector.connector {
  const { timeoutMs, proxy, resolve = createResolve(options.dnsServers) } = options
  if (proxy !== undefined) {
    const findAddresses = (hostname: string) => findAllowed(hostname, resolve, options)
    return createTunnelConnector({ proxy, findAddresses, timeoutMs, signal })
  }
  const lookup = createLookup(resolve, options)
  // Asks the lookup for all addresses, and tries one after another.
  const connect = buildConnector({
    timeout: timeoutMs, allowH2: false, lookup, autoSelectFamily: true,
  })
  return (target, callback) => connect(target, (...[error, socket]) => {
    if (error !== null) return callback(error, null)
    const { remoteAddress } = socket
    if (remoteAddress !== undefined && isAllowedAddress(remoteAddress, options)) {
      return callback(null, socket)
    }
    socket.destroy()
    callback(new BlockedAddressError('the connected peer has no public address'), null)
  })
}

/** A code per kind of failure; the message of a system error could describe a private network. */
function toReason (error: unknown): AttemptReason {
  if (error instanceof BlockedAddressError) return 'blocked_address'
  if (error instanceof NameError) return 'dns_error'
  if (error instanceof ProxyError) return 'proxy_error'
  if (!(error instanceof Error)) return 'connection_error'
  const code = 'code' in error ? String(error.code) : ''
  if (error.name === 'TimeoutError' || TIMEOUT_CODES.has(code)) return 'timeout'
  return TLS_CODE.test(code) ? 'tls_error' : 'connection_error'
}

const TIMEOUT_CODES: ReadonlySet<string> = new Set(['UND_ERR_CONNECT_TIMEOUT', 'ETIMEDOUT'])
const TLS_CODE =
  /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|EPROTO)/

/** The addresses that may receive events. */
type AddressRules = {
  /** Allows addresses without TLS; for development. */
  readonly allowHttp: boolean
  /** Allows addresses on this machine; for development. */
  readonly allowLoopback: boolean
  /** Public networks that never receive an event, as CIDR. */
  readonly denied?: readonly string[]
}

/** An address that must not receive events. The message omits it: it could describe a network. */
class BlockedAddressError extends Error {
  override readonly name = 'BlockedAddressError'
}

/** A host name without any address. */
class NameError extends Error {
  override readonly name = 'NameError'
}

/** Resolves a host name to all its IPv4 and IPv6 addresses. */
type Resolve = (hostname: string) => Promise<readonly string[]>

const DNS_TIMEOUT_MS = 2_000
const DNS_TRIES = 2

/** Whether an IP address is public, and neither of this machine nor of a denied network. */
function isAllowedAddress (address: string, rules: AddressRules): boolean {
  if (!ipaddr.isValid(address)) return false
  const parsed = ipaddr.parse(address)
  if (parsed.range() === 'loopback') return rules.allowLoopback
  if (!isPublicAddress(address) || parseNetworks(rules.denied ?? []).has(address)) return false
  if (rules.allowLoopback) return true
  // The services of this machine must not be reached from within.
  const addresses = Object.values(networkInterfaces()).flatMap(some => some ?? [])
  return !addresses.some(own => ipaddr.parse(own.address).toString() === parsed.toString())
}

/** Whether a text is a network in CIDR notation. */
export const isNetwork = (text: string): boolean => ipaddr.isValidCIDR(text)

/**
 * Checks scheme, user information and a literal IP address of a URL; throws BlockedAddressError.
 * Names pass: `createLookup` checks their addresses.
 */
function checkTarget (url: URL, rules: AddressRules): void {
  const schemes = rules.allowHttp ? ['https:', 'http:'] : ['https:']
  const plain = schemes.includes(url.protocol) && url.username === '' && url.password === ''
  // The brackets of a version 6 address are part of the host name.
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (!plain || (ipaddr.isValid(host) && !isAllowedAddress(host, rules))) {
    throw new BlockedAddressError('the URL is not public, or has another scheme or a user')
  }
}

/**
 * The lookup function of a socket. It refuses a name if any of its addresses is not allowed, and
 * the socket connects to exactly the checked addresses. Errors: BlockedAddressError, NameError.
 */
function createLookup (resolve: Resolve, rules: AddressRules): LookupFunction {
  return (hostname, _options, callback) => {
    findAllowed(hostname, resolve, rules).then(
      addresses => callback(null, addresses.map(address =>
        ({ address, family: address.includes(':') ? 6 : 4 }))),
      error => callback(error as Error, ''))
  }
}

/** All addresses of a host, none of which is forbidden; a literal address is its own. */
async function findAllowed (
  hostname: string, resolve: Resolve, rules: AddressRules
): Promise<readonly string[]> {
  const addresses = isIP(hostname) === 0 ? await resolve(hostname) : [hostname]
  if (addresses.length === 0) throw new NameError('the host name has no address')
  if (!addresses.every(address => isAllowedAddress(address, rules))) {
    throw new BlockedAddressError('the host name has an address that is not public')
  }
  return addresses
}

/**
 * Resolves names by these servers, or by those of the system if there are none. It does not use
 * getaddrinfo: that has few threads, which names with unresponsive servers would block for all.
 */
const createResolve = (servers: readonly string[] = []): Resolve => async hostname => {
  const name = hostname.replace(/\.$/, '').toLowerCase()
  if (name === 'localhost' || name.endsWith('.localhost')) return ['127.0.0.1', '::1']
  const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: DNS_TRIES })
  if (servers.length > 0) resolver.setServers(servers)
  const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
  return answers.flatMap(answer => answer.status === 'fulfilled' ? answer.value : [])
}

/** A proxy that is unavailable or refuses a tunnel. The message omits its address. */
class ProxyError extends Error {
  override readonly name = 'ProxyError'
}

type TunnelOptions = {
  /** `http://user:password@host:port`, or https. */
  readonly proxy: string
  /** The allowed addresses of a host; rejects if there are none. */
  readonly findAddresses: (hostname: string) => Promise<readonly string[]>
  /** Of a connection, within `signal`, which ends everything. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** Whether a text is the URL of an HTTP proxy, with or without a user. */
export function isProxyUrl (text: string): boolean {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && url.pathname === '/' &&
    url.search === '' && url.hash === ''
}

/**
 * Connects through a tunnel (HTTP CONNECT). The proxy gets an IP address, so it connects to the
 * one that was checked and resolves no name; TLS inside the tunnel verifies the host name.
 * Errors: ProxyError, and those of `findAddresses` and of TLS.
 */
function createTunnelConnector (options: TunnelOptions): buildConnector.connector {
  const secure = promisify(buildConnector({ timeout: options.timeoutMs, allowH2: false }))
  const connect = async (target: buildConnector.Options): Promise<Socket> => {
    const { hostname, protocol } = target
    const [address = ''] = await options.findAddresses(hostname)
    const port = target.port || (protocol === 'https:' ? '443' : '80')
    const host = address.includes(':') ? `[${address}]` : address
    const httpSocket = await openTunnel(`${host}:${port}`, options)
    return protocol === 'https:' ? (await secure({ ...target, httpSocket }))! : httpSocket
  }
  return (target, callback) => {
    const { signal } = options
    const over = Promise.withResolvers<never>()
    signal.addEventListener('abort', () => over.reject(signal.reason), { once: true })
    Promise.race([connect(target), over.promise])
      .then(socket => callback(null, socket), error => callback(error as Error, null))
  }
}

async function openTunnel (
  path: string, { proxy, timeoutMs, signal }: TunnelOptions
): Promise<Socket> {
  const { origin, username, password } = new URL(proxy)
  const user = Buffer.from(`${unescape(username)}:${unescape(password)}`).toString('base64')
  const headers = {
    host: path,
    ...username !== '' && { 'proxy-authorization': `Basic ${user}` },
  }
  const client = new Client(origin, {
    connect: { timeout: timeoutMs }, allowH2: false, headersTimeout: 0,
  })
  try {
    const { socket, statusCode } = await client.connect({ path, headers, signal })
    // An error of the socket also fails TLS or the request in it.
    socket.on('error', () => {})
    if (statusCode >= 200 && statusCode < 300) return addAbortSignal(signal, socket as Socket)
    socket.destroy()
    throw new ProxyError(`the proxy answered with status ${statusCode}`)
  } catch (error) {
    if (signal.aborted || error instanceof ProxyError) throw error
    throw new ProxyError('the proxy opened no tunnel', { cause: error })
  } finally {
    // An open tunnel no longer belongs to the client.
    client.destroy().catch(() => {})
  }
}
