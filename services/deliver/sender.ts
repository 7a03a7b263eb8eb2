import { performance } from 'node:perf_hooks'
import { buildConnector, Client, type Dispatcher } from 'undici'
import type { AttemptReason } from '../jobs/delivery-history.ts'
import {
  BlockedAddressError, checkTarget, createLookup, createResolve, isAllowedAddress, NameError,
  type AddressRules, type Resolve,
} from './address.ts'

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
  /** Name servers, `ip` or `ip:port`; those of the system if empty or left out. */
  readonly dnsServers?: readonly string[]
  /** Replaces DNS in tests. */
  readonly resolve?: Resolve
}

const MAX_RESPONSE_BYTES = 16_384

/**
 * Posts to a receiver over a new connection; never rejects. Three checks keep requests out of
 * private networks: of the URL, of all addresses of its name, and of the connected peer. Redirects
 * are not followed. At most 16 KiB of the response body are read, and nothing of it is kept.
 */
export function createSender (options: SenderOptions): Sender {
  return async (url, request) => {
    const startedMs = performance.now()
    const answer = await post(url, request, options)
      .catch((error: unknown): Answer => ({ kind: 'failed', reason: reasonOf(error) }))
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
    connect: connectorOf(options), pipelining: 1, headersTimeout: 0, bodyTimeout: 0,
  })
  try {
    const path = url.pathname + url.search
    const response = await client.request({ method: 'POST', path, headers, body, signal })
    const retryAfter = response.headers['retry-after']
    await discardBody(response.body)
    return {
      kind: 'answered',
      status: response.statusCode,
      retryAfterMs: retryAfterMsOf([retryAfter].flat()[0], Date.now()),
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

/** The wait that a Retry-After header asks for, in ms: seconds or a date; undefined otherwise. */
export function retryAfterMsOf (header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined
  const text = header.trim()
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1_000
  const atMs = /^[A-Z][a-z]{2}, /.test(text) ? Date.parse(text) : NaN
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs)
}

function connectorOf (options: SenderOptions): buildConnector.connector {
  const { timeoutMs, resolve = createResolve(options.dnsServers) } = options
  const lookup = createLookup(resolve, options)
  const connect = buildConnector({ timeout: timeoutMs, allowH2: false, lookup })
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
function reasonOf (error: unknown): AttemptReason {
  if (error instanceof BlockedAddressError) return 'blocked_address'
  if (error instanceof NameError) return 'dns_error'
  if (!(error instanceof Error)) return 'connection_error'
  const code = 'code' in error ? String(error.code) : ''
  if (error.name === 'TimeoutError' || TIMEOUT_CODES.has(code)) return 'timeout'
  return TLS_CODE.test(code) ? 'tls_error' : 'connection_error'
}

const TIMEOUT_CODES: ReadonlySet<string> = new Set(['UND_ERR_CONNECT_TIMEOUT', 'ETIMEDOUT'])
const TLS_CODE =
  /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|EPROTO)/
