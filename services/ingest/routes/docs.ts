import { readFileSync } from 'node:fs'
import type { RouteOptions } from 'fastify'
import { ROOT, RootSchema } from '../../../schemas/api/root.ts'
import {
  type ConstantDocument, createDocument, sendDocument,
} from '../../runtime/platform/documents.ts'
import { preferred } from '../response.ts'
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
    config: { produces: TYPES, sends: { 302: ['Location'] } },
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
      return reply.send(ROOT)
    },
  }
}

/** The documents of the REST API. */
export type ApiDocuments = {
  readonly openapi: ConstantDocument
  readonly page: ConstantDocument
  readonly changelog: ConstantDocument
}

/** Makes the documents of a description, which takes a tenth of a second of CPU time. */
export async function createApiDocuments (description: OpenApiDocument): Promise<ApiDocuments> {
  const [openapi, page, changelog] = await Promise.all([
    createDocument('application/json; charset=utf-8', openapiText(description)),
    createDocument('text/html; charset=utf-8', documentPage(description)),
    createDocument('text/markdown; charset=utf-8', readFileSync(CHANGELOG)),
  ])
  return { openapi, page, changelog }
}

/** GET /openapi.json, /docs and /changelog: the documents of the REST API, without a key. */
export function docsRoutes (documents: () => Promise<ApiDocuments>): RouteOptions[] {
  const send = (name: keyof ApiDocuments): RouteOptions['handler'] => async (request, reply) =>
    sendDocument(request, reply, {
      document: (await documents())[name], cacheControl: 'public, no-cache',
    })
  return [
    {
      method: 'GET',
      url: '/openapi.json',
      schema: {
        operationId: 'getOpenApi', summary: 'This description, as OpenAPI 3.1', tags: ['Documents'],
      },
      handler: send('openapi'),
    },
    {
      method: 'GET',
      url: '/docs',
      config: { produces: 'text/html' },
      schema: {
        operationId: 'getDocs', summary: 'The description as a page', tags: ['Documents'],
      },
      onRequest: async (_request, reply) => {
        reply.header('content-security-policy', PAGE_POLICY)
      },
      handler: send('page'),
    },
    {
      method: 'GET',
      url: '/changelog',
      config: { produces: 'text/markdown' },
      schema: {
        operationId: 'getChangelog', summary: 'What changed, newest first', tags: ['Documents'],
      },
      handler: send('changelog'),
    },
  ]
}
