import type { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { endWith } from './bare-answer.ts'
import {
  MAX_BODY_BYTES, SMALL_BODY_BYTES, type BodyBudget, type Room,
} from './body-budget.ts'
import { FaultError } from './errors.ts'
import { isTooSlow, type Pace } from '../lib/body-pace.ts'

/** Twice a second, or sooner where the grace is short. */
const CHECK_EVERY_MS = 500

/**
 * What a route with large bodies needs. A body of stated length that there is no room for is
 * refused before it is read; one in chunks takes room as it comes. Whoever holds room and is slower
 * than the pace is answered 408 and cut off, and the room is free again at once. A whole body keeps
 * its room until it is answered, even if the client has gone away.
 */
export function takeRoom (
  budget: BodyBudget, pace: Pace
): Required<Pick<RouteOptions, 'onRequest' | 'preParsing' | 'onSend'>> {
  const rooms = new WeakMap<FastifyRequest, Room>()
  return {
    onRequest: async request => {
      const room = budget.open()
      const stated = statedBytes(request) ?? 0
      if (stated > MAX_BODY_BYTES) throw new FaultError({ code: 'body_too_large' })
      if (!room.hold(stated)) throw new FaultError({ code: 'temporarily_unavailable' })
      rooms.set(request, room)
    },
    // Without a promise, so that no byte passes between here and the reader of the body.
    preParsing: (...[request, reply, payload, done]) => {
      const room = rooms.get(request)
      if (room !== undefined) watch(room, { request, reply, payload: payload as Readable, pace })
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
  readonly pace: Pace
}

/**
 * Counts what comes of a body that needs room, and cuts it off. Time is counted by checks rather
 * than by a clock: while this process was held up itself, nobody was slow.
 */
function watch (room: Room, exchange: Exchange): void {
  const { request, payload, pace } = exchange
  const stated = statedBytes(request)
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
    room.giveBack()
    cutOff(exchange, code)
  }
  const count = (piece: Buffer) => {
    bytes += piece.length
    if (bytes <= Math.max(room.heldBytes(), SMALL_BODY_BYTES)) return
    // Twice as much, so that it grows a few times only.
    if (!room.hold(Math.min(2 * bytes, MAX_BODY_BYTES))) end('temporarily_unavailable')
  }
  const timer = setInterval(() => {
    elapsedMs += checkEveryMs
    const isSlow = isTooSlow({ bytes, elapsedMs, statedBytes: stated }, pace)
    if (room.heldBytes() > 0 && isSlow) end('request_timeout')
  }, checkEveryMs).unref()
  payload.on('data', count)
  payload.once('close', stop)
}

/** What still comes is left in the socket, so the body is never whole and nothing comes of it. */
function cutOff ({ request: { raw, id }, reply, payload }: Exchange, code: EndCode): void {
  payload.pause()
  // An answer that has its turn behind others on the connection would be taken for theirs.
  if (reply.raw.socket === null) raw.socket.destroy()
  else endWith(raw.socket, code, id)
}

/** Undefined for a body in chunks. */
function statedBytes (request: FastifyRequest): number | undefined {
  const length = request.headers['content-length']
  return length === undefined ? undefined : Number(length)
}
