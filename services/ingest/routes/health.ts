import type { RouteOptions } from 'fastify'
import type { Parts } from '../ports.ts'
import { sendFault } from '../reply.ts'

/** GET /healthz: the process answers. GET /readyz: it can take requests. Open to all. */
export function healthRoutes (parts: Pick<Parts, 'ready'>): RouteOptions[] {
  return [
    {
      method: 'GET',
      url: '/healthz',
      schema: { operationId: 'getHealth', summary: 'The process answers', tags: ['Documents'] },
      handler: async (_request, reply) => reply.send({ status: 'ok' }),
    },
    {
      method: 'GET',
      url: '/readyz',
      schema: {
        operationId: 'getReadiness', summary: 'It can take requests', tags: ['Documents'],
      },
      handler: async (_request, reply) => parts.ready()
        ? reply.send({ status: 'ready' })
        : sendFault(reply, { code: 'temporarily_unavailable', message: 'Not ready yet.' }),
    },
  ]
}
