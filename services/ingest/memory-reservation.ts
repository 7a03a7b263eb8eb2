import type { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { sendRaw } from './response.ts'
import { MAX_BODY_BYTES, SMALL_BODY_BYTES } from './body-budget.ts'
import { bodyCodingOf, decodedBody } from './body-encoding.ts'
import { ApiException } from './errors.ts'
import { callerOf } from './guard.ts'
import type { FairPool, PoolReservation } from '../runtime/platform/limits.ts'
import { isTooSlow, type MinimumThroughput } from '../runtime/platform/http-server.ts'

/** Twice a second, or more often for a short grace period. */
const CHECK_EVERY_MS = 500

/** Memory is reserved in such steps, ahead of what has arrived. */
const STEP_BYTES = 256 * 1_024

/**
 * Hooks of a route with large bodies. Memory is reserved as the bytes of a body arrive, after it is
 * decompressed, so what only announces a body has none. A body for which there is no memory gets
 * 503: before it is read if its Content-Length says so, or as it grows. The parsers get the
 * decompressed body. A client that is slower than the minimum throughput gets 408 and is
 * disconnected. A complete body keeps its memory until the response, even if the client has
 * disconnected; one that still arrives may lose it to an organization that has less.
 */
export function reserveMemory (
  budget: FairPool, minimum: MinimumThroughput
): Required<Pick<RouteOptions, 'onRequest' | 'preParsing' | 'onSend'>> {
  const reservations = new WeakMap<FastifyRequest, PoolReservation>()
  return {
    onRequest: async request => {
      const length = contentLengthOf(request) ?? 0
      if (length > MAX_BODY_BYTES) throw new ApiException({ code: 'body_too_large' })
      if (length > SMALL_BODY_BYTES && !budget.open(callerOf(request).org).canGrow(length)) {
        throw new ApiException({ code: 'temporarily_unavailable' })
      }
    },
    // Without a promise, so that no byte arrives between this hook and the reader of the body.
    preParsing: (...[request, reply, payload, done]) => {
      const exchange = { request, reply, payload: payload as Readable, minimum }
      const body = decoded(exchange)
      reservations.set(request, watch(budget, exchange, body))
      done(null, body)
    },
    onSend: async request => reservations.get(request)?.release(),
  }
}

type EndCode = 'request_timeout' | 'temporarily_unavailable'

type Exchange = {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  /** The body. */
  readonly payload: Readable
  readonly minimum: MinimumThroughput
}

/** The decompressed body of a request. */
function decoded ({ request, reply, payload }: Exchange): Readable {
  const coding = bodyCodingOf(request.headers['content-encoding'])
  if (coding === undefined || coding === 'identity') return payload
  const body = decodedBody(payload, coding)
  reply.raw.once('close', () => body.destroy())
  return body
}

/**
 * Reserves memory for a body as it arrives, and ends it if it is too slow or there is none. Time is
 * counted by timer ticks instead of a clock, so that a blocked event loop makes no client slow.
 * `body` is the decompressed payload, which may grow beyond it.
 */
function watch (budget: FairPool, exchange: Exchange, body: Readable): PoolReservation {
  const { request, payload, minimum } = exchange
  const length = contentLengthOf(request)
  const abort = (code: EndCode) => {
    stop()
    reservation.release()
    endRequest(exchange, code)
  }
  const reservation =
    budget.open(callerOf(request).org, () => abort('temporarily_unavailable'))
  if (body === payload && length !== undefined && length <= SMALL_BODY_BYTES) return reservation
  const maxBytes = body === payload ? length ?? MAX_BODY_BYTES : MAX_BODY_BYTES
  const checkEveryMs = Math.min(CHECK_EVERY_MS, minimum.graceMs)
  let bytes = 0
  let bodyBytes = 0
  let elapsedMs = 0
  function stop () {
    clearInterval(timer)
    payload.off('data', count)
    body.off('data', reserve)
    body.off('close', complete)
  }
  const complete = () => {
    stop()
    reservation.keep()
  }
  const count = (piece: Buffer) => { bytes += piece.length }
  const reserve = (piece: Buffer) => {
    bodyBytes += piece.length
    if (bodyBytes <= Math.max(reservation.amount, SMALL_BODY_BYTES)) return
    const ahead = Math.min(bodyBytes + STEP_BYTES, maxBytes)
    if (!reservation.grow(ahead) && !reservation.grow(bodyBytes)) abort('temporarily_unavailable')
  }
  const timer = setInterval(() => {
    elapsedMs += checkEveryMs
    const isLarge = Math.max(reservation.amount, length ?? 0) > SMALL_BODY_BYTES
    const isSlow = isTooSlow({ bytes, elapsedMs, contentLength: length }, minimum)
    if (isLarge && isSlow) abort('request_timeout')
  }, checkEveryMs).unref()
  payload.on('data', count)
  body.on('data', reserve)
  body.once('close', complete)
  return reservation
}

/** Ends the request. The rest of the body stays in the socket, so the body is never complete. */
function endRequest ({ request: { raw, id }, payload }: Exchange, code: EndCode): void {
  payload.pause()
  sendRaw(raw.socket, code, id)
}

/** Undefined for a chunked body. */
function contentLengthOf (request: FastifyRequest): number | undefined {
  const length = request.headers['content-length']
  return length === undefined ? undefined : Number(length)
}
