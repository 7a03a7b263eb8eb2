import { readFileSync } from 'node:fs'
import type { RouteOptions } from 'fastify'
import { API_VERSION, RootSchema } from '../../../schemas/api/root.ts'
import { preferred } from '../negotiation.ts'
import { documentPage, PAGE_POLICY } from '../openapi/page.ts'
import { openapiText } from '../openapi/describe.ts'
import type { OpenApiDocument } from '../openapi/document.ts'

const CHANGELOG = new URL('../../../schemas/api/CHANGELOG.md', import.meta.url)

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

/** GET /openapi.json, /docs and /changelog: the documents of the REST API, without a key. */
export function docsRoutes (describe: () => Promise<OpenApiDocument>): RouteOptions[] {
  let document: Promise<OpenApiDocument> | undefined
  const getDocument = () => {
    document ??= describe()
    return document
  }
  const changelog = readFileSync(CHANGELOG, 'utf8')
  return [
    {
      method: 'GET',
      url: '/openapi.json',
      config: { produces: 'application/json' },
      schema: {
        operationId: 'getOpenApi', summary: 'This description, as OpenAPI 3.1', tags: ['Documents'],
      },
      handler: async (_request, reply) => reply.type('application/json; charset=utf-8')
        .send(openapiText(await getDocument())),
    },
    {
      method: 'GET',
      url: '/docs',
      config: { produces: 'text/html' },
      schema: {
        operationId: 'getDocs', summary: 'The description as a page', tags: ['Documents'],
      },
      handler: async (_request, reply) => reply
        .header('content-security-policy', PAGE_POLICY)
        .type('text/html; charset=utf-8').send(documentPage(await getDocument())),
    },
    {
      method: 'GET',
      url: '/changelog',
      config: { produces: 'text/markdown' },
      schema: {
        operationId: 'getChangelog', summary: 'What changed, newest first', tags: ['Documents'],
      },
      handler: async (_request, reply) => reply
        .type('text/markdown; charset=utf-8').send(changelog),
    },
  ]
}
