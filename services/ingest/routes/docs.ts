import { readFileSync } from 'node:fs'
import type { RouteOptions } from 'fastify'
import { documentPage, PAGE_POLICY } from '../openapi/page.ts'
import type { OpenApiDocument } from '../openapi/document.ts'

const CHANGELOG = new URL('../../../schemas/api/CHANGELOG.md', import.meta.url)

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
      handler: async (_request, reply) => reply
        .type('application/json; charset=utf-8').send(JSON.stringify(await getDocument())),
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
