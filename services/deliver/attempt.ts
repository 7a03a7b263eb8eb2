import { performance } from 'node:perf_hooks'
import { buildConnector, Client, type Dispatcher } from 'undici'
import type { AttemptReason } from '../jobs/delivery-history.ts'
import {
  BlockedAddressError, checkTarget, createLookup, createResolve, isAllowedAddress, NameError,
  type AddressRules, type Resolve,
} from './address.ts'
import { retryAfterMsOf } from './schedule.ts'

/** What came of a try: an answer, or the reason why there was none. */
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

export type SenderOptions = AddressRules & {
  /** For everything: name, connection, answer. */
  readonly timeoutMs: number
  readonly resolve?: Resolve
}

const MOST_ANSWER_BYTES = 16_384

/**
 * Posts to a receiver over a connection of its own. Where it leads is judged when the socket
 * connects, by its text, by the addresses of its name, and once more by the socket's peer.
 * Redirects are not followed; of the answer's body at most 16 KiB are read, and none is kept.
 */
export function createSender (options: SenderOptions): Sender {
  return async (url, request) => {
    const startedMs = performance.now()
    const answer = await post(url, request, options).catch(failureOf)
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
    await discard(response.body)
    return {
      kind: 'answered',
      status: response.statusCode,
      retryAfterMs: retryAfterMsOf([retryAfter].flat()[0], Date.now()),
    }
  } finally {
    // Not waited for: a receiver may be slow to close as well.
    client.destroy().catch(() => {})
  }
}

/** Nothing of a body matters, nor whether all of it came: the status has said it all. */
async function discard (body: Dispatcher.ResponseData['body']): Promise<void> {
  let bytes = 0
  try {
    for await (const chunk of body) {
      bytes += (chunk as Buffer).length
      if (bytes >= MOST_ANSWER_BYTES) return
    }
  } catch {
    // It broke off, or took too long.
  }
}

function connectorOf (options: SenderOptions): buildConnector.connector {
  const { timeoutMs, resolve = createResolve() } = options
  const lookup = createLookup(resolve, options)
  const connect = buildConnector({ timeout: timeoutMs, allowH2: false, lookup })
  return (target, callback) => connect(target, (...[error, socket]) => {
    if (error !== null) return callback(error, null)
    const { remoteAddress } = socket
    if (remoteAddress !== undefined && isAllowedAddress(remoteAddress, options)) {
      return callback(null, socket)
    }
    socket.destroy()
    callback(new BlockedAddressError('the peer is not public'), null)
  })
}

/** A code for each kind of failure; what the system said could tell of the network behind. */
function failureOf (error: unknown): Answer {
  return { kind: 'failed', reason: reasonOf(error) }
}

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
