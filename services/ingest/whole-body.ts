import { PassThrough, pipeline } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { SMALL_BODY_BYTES } from './body-budget.ts'
import { ApiException } from './errors.ts'

/**
 * Processes a request once its last byte is received, even if the client has disconnected. Node
 * drops the buffered body when a connection is reset, so a body is read from the start, up to the
 * size that needs no reservation, and not only after the key is checked. A client that half-closes
 * its connection after the request gets its response.
 */
export function acceptCompleteBodies (app: FastifyInstance): void {
  allowHalfOpen(app.server)
  const bodies = new WeakMap<FastifyRequest, PassThrough>()
  app.addHook('onRequest', (request, reply, done) => {
    if (request.method === 'POST') {
      const body = new PassThrough({ highWaterMark: SMALL_BODY_BYTES })
      bodies.set(request, body)
      // A truncated body is destroyed, which its reader sees.
      pipeline(request.raw, body, () => {})
      // Drains the rest of a rejected request, so that it is not parsed as the next one.
      reply.raw.once('finish', () => body.resume())
    }
    done()
  })
  app.addHook('preParsing', (...[request, , payload, done]) => {
    const body = bodies.get(request) ?? payload
    if (body.destroyed) done(new ApiException({ code: 'request_timeout' }))
    else done(null, body)
  })
}

/** Lets a server respond on a connection that the client has half-closed. */
export function allowHalfOpen (server: object): void {
  Object.assign(server, { httpAllowHalfOpen: true })
}
