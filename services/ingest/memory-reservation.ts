import type { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { sendRaw } from './raw-response.ts'
import {
  MAX_BODY_BYTES, SMALL_BODY_BYTES, type BodyBudget, type MemoryReservation,
} from './body-budget.ts'
import { ApiException } from './errors.ts'
import { isTooSlow, type MinimumThroughput } from '../platform/minimum-throughput.ts'

/** Twice a second, or sooner where the grace is short. */
const CHECK_EVERY_MS = 500

/**
 * What a route with large bodies needs. A body of stated length that there is no room for is
 * refused before it is read; one in chunks takes room as it comes. Whoever holds room and is slower
 * than the pace is answered 408 and cut off, and the room is free again at once. A whole body keeps
 * its room until it is answered, even if the client has gone away.
 */
export function reserveMemory (
  budget: BodyBudget, pace: MinimumThroughput
): Required<Pick<RouteOptions, 'onRequest' | 'preParsing' | 'onSend'>> {
  const rooms = new WeakMap<FastifyRequest, MemoryReservation>()
  return {
    onRequest: async request => {
      const reservation = budget.open()
      const stated = contentLength(request) ?? 0
      if (stated > MAX_BODY_BYTES) throw new ApiException({ code: 'body_too_large' })
      if (!reservation.hold(stated)) throw new ApiException({ code: 'temporarily_unavailable' })
      rooms.set(request, reservation)
    },
    // Without a promise, so that no byte passes between here and the reader of the body.
    preParsing: (...[request, reply, payload, done]) => {
      const reservation = rooms.get(request)
      if (reservation !== undefined) {
        watch(reservation, { request, reply, payload: payload as Readable, pace })
      }
      done(null, payload)
    },
    onSend: async request => rooms.get(request)?.giveBack(),
  }
}

type EndCode = 'request_timeout' | 'temporarily_unavailable'

type Exchange = {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  /** The body. */
  readonly payload: Readable
  readonly pace: MinimumThroughput
}

/**
 * Counts what comes of a body that needs room, and cuts it off. Time is counted by checks rather
 * than by a clock: while this process was held up itself, nobody was slow.
 */
function watch (reservation: MemoryReservation, exchange: Exchange): void {
  const { request, payload, pace } = exchange
  const stated = contentLength(request)
  if (stated !== undefined && stated <= SMALL_BODY_BYTES) return
  const checkEveryMs = Math.min(CHECK_EVERY_MS, pace.graceMs)
  let bytes = 0
  let elapsedMs = 0
  const stop = () => {
    clearInterval(timer)
    payload.off('data', count)
    payload.off('close', stop)
  }
  const end = (code: EndCode) => {
    stop()
    reservation.giveBack()
    cutOff(exchange, code)
  }
  const count = (piece: Buffer) => {
    bytes += piece.length
    if (bytes <= Math.max(reservation.heldBytes(), SMALL_BODY_BYTES)) return
    // Twice as much, so that it grows a few times only.
    if (!reservation.hold(Math.min(2 * bytes, MAX_BODY_BYTES))) end('temporarily_unavailable')
  }
  const timer = setInterval(() => {
    elapsedMs += checkEveryMs
    const isSlow = isTooSlow({ bytes, elapsedMs, contentLength: stated }, pace)
    if (reservation.heldBytes() > 0 && isSlow) end('request_timeout')
  }, checkEveryMs).unref()
  payload.on('data', count)
  payload.once('close', stop)
}

/** What still comes is left in the socket, so the body is never whole and nothing comes of it. */
function cutOff ({ request: { raw, id }, reply, payload }: Exchange, code: EndCode): void {
  payload.pause()
  // An answer that has its turn behind others on the connection would be taken for theirs.
  if (reply.raw.socket === null) raw.socket.destroy()
  else sendRaw(raw.socket, code, id)
}

/** Undefined for a body in chunks. */
function contentLength (request: FastifyRequest): number | undefined {
  const length = request.headers['content-length']
  return length === undefined ? undefined : Number(length)
}
