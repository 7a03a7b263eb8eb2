import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { API_VERSION } from './guard.ts'
import { errorBody, statusOf, type ErrorCode } from './errors.ts'
import { RETRY_AFTER_SECONDS } from './reply.ts'

/** Long enough for an answer to be read; whoever goes on sending is not listened to for longer. */
const LINGER_MS = 2_000

/** Answers on a bare socket, past the web framework, and closes it. */
export function sendRaw (socket: Duplex, code: ErrorCode, requestId: string): void {
  socket.on('error', () => {})
  socket.end(bareAnswer(code, requestId))
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
}

function bareAnswer (code: ErrorCode, requestId: string): string {
  const status = statusOf(code)
  const body = JSON.stringify(errorBody({ code }, requestId))
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-Id: ${requestId}`,
    `API-Version: ${API_VERSION}`,
    // Whatever the path: a broken request has none that can be read.
    ...(status === 405 ? ['Allow: GET, HEAD, POST, OPTIONS'] : []),
    ...(status === 503 ? [`Retry-After: ${RETRY_AFTER_SECONDS}`] : []),
    'Connection: close',
    '',
    body,
  ].join('\r\n')
}
