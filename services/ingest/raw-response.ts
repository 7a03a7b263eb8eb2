import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { API_VERSION } from '../../schemas/api/root.ts'
import { errorBody, statusOf, type ErrorCode } from './errors.ts'
import { RETRY_AFTER_SECONDS } from './reply.ts'

/**
 * Time for the client to read the response; afterwards the connection is closed even if it still
 * sends.
 */
const LINGER_MS = 2_000

/** Writes a response directly to a socket, without Fastify, and closes it. */
export function sendRaw (socket: Duplex, code: ErrorCode, requestId: string): void {
  socket.on('error', () => {})
  socket.end(rawResponse(code, requestId))
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
}

function rawResponse (code: ErrorCode, requestId: string): string {
  const status = statusOf(code)
  const body = JSON.stringify(errorBody({ code }, requestId))
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-Id: ${requestId}`,
    `API-Version: ${API_VERSION}`,
    // For any path: an invalid request has none.
    ...(status === 405 ? ['Allow: GET, HEAD, POST, OPTIONS'] : []),
    ...(status === 503 ? [`Retry-After: ${RETRY_AFTER_SECONDS}`] : []),
    'Connection: close',
    '',
    body,
  ].join('\r\n')
}
