import type { FastifyReply, FastifyRequest } from 'fastify'
import { FaultError } from './errors.ts'

/** Room for 100,000 inputs of 320 characters. */
export const MAX_BODY_BYTES = 34 * 1_024 * 1_024

/** Room for bodies in flight, so that many large ones at once cannot exhaust the memory. */
export type BodyBudget = {
  /** Takes room before a body is read; returns how to give it back, or undefined when full. */
  readonly take: (bytes: number) => (() => void) | undefined
}

/** A budget of so many bytes; a body larger than all of it is let in when nothing else is. */
export function createBodyBudget (totalBytes: number): BodyBudget {
  let takenBytes = 0
  const take = (bytes: number) => {
    if (takenBytes > 0 && takenBytes + bytes > totalBytes) return undefined
    takenBytes += bytes
    let isHeld = true
    return () => {
      if (isHeld) takenBytes -= bytes
      isHeld = false
    }
  }
  return { take }
}

/**
 * Refuses a body there is no room for, before it is read. The room is free again when the answer is
 * sent or the connection is gone, which it may be already: of an answer that has its turn behind
 * others on the connection, nobody is told then.
 */
export function takeRoom (budget: BodyBudget, request: FastifyRequest, reply: FastifyReply): void {
  const stated = Number(request.headers['content-length'] ?? MAX_BODY_BYTES)
  if (stated > MAX_BODY_BYTES) throw new FaultError({ code: 'body_too_large' })
  const giveBack = budget.take(stated)
  if (giveBack === undefined) throw new FaultError({ code: 'temporarily_unavailable' })
  const { socket } = request.raw
  const end = () => {
    giveBack()
    reply.raw.off('close', end)
    socket.off('close', end)
  }
  if (socket.destroyed) {
    end()
    throw new FaultError({ code: 'request_timeout' })
  }
  reply.raw.once('close', end)
  socket.once('close', end)
}
