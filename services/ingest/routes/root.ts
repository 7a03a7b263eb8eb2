import type { RouteOptions } from 'fastify'
import { RootSchema } from '../../../schemas/api/root.ts'
import { API_VERSION } from '../guard.ts'
import { preferred } from '../negotiation.ts'

const TYPES = ['application/json', 'text/html'] as const

/** GET /: links to the API and its documents; redirects browsers to /docs. Needs no key. */
export function rootRoute (): RouteOptions {
  return {
    method: 'GET',
    url: '/',
    config: { produces: TYPES },
    schema: {
      operationId: 'getRoot',
      summary: 'Links to the API and its documents',
      description: 'JSON, or a redirect to `/docs` for browsers.',
      tags: ['Documents'],
      response: {
        200: { content: { 'application/json': { schema: RootSchema } } }, 302: { type: 'null' },
      },
    },
    handler: async (request, reply) => {
      reply.header('vary', 'Accept')
      if (preferred(request.headers.accept, TYPES) === 'text/html') return reply.redirect('/docs')
      return reply.send({
        name: 'Verification Jobs',
        version: API_VERSION,
        api: '/api/v1',
        documentation: '/docs',
        openapi: '/openapi.json',
        changelog: '/changelog',
      })
    },
  }
}
