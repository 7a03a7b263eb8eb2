import type { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { sendRaw } from './response.ts'
import {
  MAX_BODY_BYTES, SMALL_BODY_BYTES, type BodyBudget, type MemoryReservation,
} from './body-budget.ts'
import { bodyCodingOf, decodedBody } from './body-encoding.ts'
import { ApiException } from './errors.ts'
import { isTooSlow, type MinimumThroughput } from '../platform/http-server.ts'

/** Twice a second, or more often for a short grace period. */
const CHECK_EVERY_MS = 500

/**
 * Hooks of a route with large bodies. A body whose Content-Length exceeds the available memory is
 * rejected before it is read; a chunked or compressed body reserves memory as it arrives, for its
 * decompressed bytes. The parsers get the decompressed body. A client with a reservation that is
 * slower than the minimum throughput gets 408 and is disconnected, which releases its memory at
 * once. A complete body keeps its reservation until the response, even if the client has
 * disconnected.
 */
export function reserveMemory (
  budget: BodyBudget, minimum: MinimumThroughput
): Required<Pick<RouteOptions, 'onRequest' | 'preParsing' | 'onSend'>> {
  const reservations = new WeakMap<FastifyRequest, MemoryReservation>()
  return {
    onRequest: async request => {
      const reservation = budget.open()
      const length = contentLengthOf(request) ?? 0
      if (length > MAX_BODY_BYTES) throw new ApiException({ code: 'body_too_large' })
      if (!reservation.reserve(length)) throw new ApiException({ code: 'temporarily_unavailable' })
      reservations.set(request, reservation)
    },
    // Without a promise, so that no byte arrives between this hook and the reader of the body.
    preParsing: (...[request, reply, payload, done]) => {
      const reservation = reservations.get(request)
      const exchange = { request, reply, payload: payload as Readable, minimum }
      const body = decoded(exchange)
      if (reservation !== undefined) watch(reservation, exchange, body)
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
 * Counts the bytes of a body with a reservation, and ends it if it is too slow or too large. Time
 * is counted by timer ticks instead of a clock, so that a blocked event loop makes no client slow.
 * `body` is the decompressed payload, which may grow beyond it.
 */
function watch (reservation: MemoryReservation, exchange: Exchange, body: Readable): void {
  const { request, payload, minimum } = exchange
  const length = contentLengthOf(request)
  if (body === payload && length !== undefined && length <= SMALL_BODY_BYTES) return
  const checkEveryMs = Math.min(CHECK_EVERY_MS, minimum.graceMs)
  let bytes = 0
  let bodyBytes = 0
  let elapsedMs = 0
  const stop = () => {
    clearInterval(timer)
    payload.off('data', count)
    body.off('data', reserve)
    body.off('close', stop)
  }
  const abort = (code: EndCode) => {
    stop()
    reservation.release()
    endRequest(exchange, code)
  }
  const count = (piece: Buffer) => { bytes += piece.length }
  const reserve = (piece: Buffer) => {
    bodyBytes += piece.length
    if (bodyBytes <= Math.max(reservation.reservedBytes(), SMALL_BODY_BYTES)) return
    // Doubles the reservation, so that it grows only a few times.
    const wanted = Math.min(2 * bodyBytes, MAX_BODY_BYTES)
    if (!reservation.reserve(wanted)) abort('temporarily_unavailable')
  }
  const timer = setInterval(() => {
    elapsedMs += checkEveryMs
    const isSlow = isTooSlow({ bytes, elapsedMs, contentLength: length }, minimum)
    if (reservation.reservedBytes() > 0 && isSlow) abort('request_timeout')
  }, checkEveryMs).unref()
  payload.on('data', count)
  body.on('data', reserve)
  body.once('close', stop)
}

/** Ends the request. The rest of the body stays in the socket, so the body is never complete. */
function endRequest ({ request: { raw, id }, reply, payload }: Exchange, code: EndCode): void {
  payload.pause()
  // A response before those of earlier pipelined requests would be taken for theirs.
  if (reply.raw.socket === null) raw.socket.destroy()
  else sendRaw(raw.socket, code, id)
}

/** Undefined for a chunked body. */
function contentLengthOf (request: FastifyRequest): number | undefined {
  const length = request.headers['content-length']
  return length === undefined ? undefined : Number(length)
}
