import { PassThrough, pipeline } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { SMALL_BODY_BYTES } from './body-budget.ts'
import { ApiException } from './errors.ts'

/**
 * Makes a request count once its last byte is received, whether or not the client is still there.
 * Node drops what it holds of a body as soon as the connection is reset, so a body is read from the
 * first moment on, up to the size that needs no room, and not only after the key is checked. A
 * client that closes its side of the connection behind a request gets its answer.
 */
export function keepWholeBodies (app: FastifyInstance): void {
  allowHalfOpen(app.server)
  const bodies = new WeakMap<FastifyRequest, PassThrough>()
  app.addHook('onRequest', (request, reply, done) => {
    if (request.method === 'POST') {
      const body = new PassThrough({ highWaterMark: SMALL_BODY_BYTES })
      bodies.set(request, body)
      // A body that breaks off is destroyed, which its reader sees.
      pipeline(request.raw, body, () => {})
      // What a refused request still sends is not left in front of the next one.
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

/** Lets a server answer on a connection of which the client has closed its side. */
export function allowHalfOpen (server: object): void {
  Object.assign(server, { httpAllowHalfOpen: true })
}
