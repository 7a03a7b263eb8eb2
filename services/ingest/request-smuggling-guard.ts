import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { ApiException, type ApiError } from './errors.ts'
import { setCommonHeaders } from './guard.ts'

/** Far above what clients and proxies send. */
const MAX_HEADERS = 200

/** A path, or an absolute URL, of which only the path is used. */
const ADDRESS = /^(\/|https?:\/\/)/i

/**
 * Rejects requests that two servers in a row could parse differently, and requests that Node would
 * reject without a body, before all other checks. Closes a connection after its maximum number of
 * requests; pipelined requests beyond it are not executed.
 */
export function checkRequestSmuggling (app: FastifyInstance, mostRequests: number): void {
  const requests = new WeakMap<Socket, number>()
  app.addHook('onRequest', async ({ raw }, reply) => {
    const count = (requests.get(raw.socket) ?? 0) + 1
    requests.set(raw.socket, count)
    if (count >= mostRequests) reply.header('connection', 'close')
    const fault = smugglingFault(raw) ??
      (count > mostRequests ? { code: 'temporarily_unavailable' } : undefined)
    if (fault === undefined) return
    setCommonHeaders(reply)
    throw new ApiException(fault)
  })
}

function smugglingFault (raw: IncomingMessage): ApiError | undefined {
  const names = raw.rawHeaders.filter((_text, index) => index % 2 === 0)
  if (names.length > MAX_HEADERS) {
    const message = `The request has more than ${MAX_HEADERS} headers. Send fewer.`
    return { code: 'headers_too_large', message }
  }
  const hosts = names.filter(name => name.toLowerCase() === 'host').length
  // HTTP/1.0 has no such header.
  if (hosts > 1 || (hosts === 0 && raw.httpVersion === '1.1')) {
    return { code: 'invalid_request', param: 'Host', message: 'Send exactly one Host header.' }
  }
  if (!ADDRESS.test(raw.url ?? '')) return { code: 'not_found' }
  const coding = raw.headers['transfer-encoding']
  if (coding === undefined) return undefined
  if (raw.httpVersion === '1.1' && coding.trim().toLowerCase() === 'chunked') return undefined
  return {
    code: 'invalid_request',
    param: 'Transfer-Encoding',
    message: 'Transfer-Encoding can only be chunked, over HTTP/1.1.',
  }
}
