import swagger from '@fastify/swagger'
import Fastify, { type FastifySchema, type RouteOptions } from 'fastify'
import { DEPRECATIONS } from '../deprecations.ts'
import { API_VERSION } from '../../../schemas/api/root.ts'
import { answersOf } from './answers.ts'
import { withSharedHeaders, type OpenApiDocument } from './document.ts'
import { webhooksOf } from './events.ts'
import { withSamples } from './samples.ts'
import { ERROR_TABLE, INTRODUCTION, TAGS } from './texts.ts'
import { withExamples } from './with-examples.ts'

/**
 * Describes routes as OpenAPI 3.1. Registers them with a separate application that never listens,
 * so that the document always matches the routes.
 */
export async function describeRoutes (
  routes: readonly RouteOptions[], deprecations = DEPRECATIONS
): Promise<OpenApiDocument> {
  const app = Fastify({ exposeHeadRoutes: false })
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Verification Jobs',
        version: API_VERSION,
        description: `${INTRODUCTION}${ERROR_TABLE}`,
      },
      servers: [{ url: '/', description: 'This service.' }],
      tags: [...TAGS],
      components: {
        securitySchemes: {
          apiKey: { type: 'http', scheme: 'bearer', description: 'An API key of the workspace.' },
        },
      },
    },
    transform: ({ schema, url, route }) => ({ schema: describedSchema(schema, route), url }),
  })
  for (const route of routes) {
    const name = `${[route.method].flat()[0]} ${route.url}`
    const deprecated = deprecations[name] === undefined ? {} : { deprecated: true }
    app.route({ ...route, schema: { ...route.schema, ...deprecated } })
  }
  await app.ready()
  const described = { ...app.swagger(), webhooks: webhooksOf() }
  await app.close()
  // Drops the properties of schemas that are not JSON.
  const document = JSON.parse(JSON.stringify(described)) as OpenApiDocument
  return withSamples(withExamples(withSharedHeaders(document)))
}

/** The schema of a route for the generator; its responses follow from the route's config. */
function describedSchema (schema: FastifySchema | undefined, route: RouteOptions): FastifySchema {
  const { scope, headers } = route.config ?? {}
  return {
    ...schema,
    security: scope === undefined ? [] : [{ apiKey: [] }],
    ...(headers === undefined ? {} : { headers }),
    ...(scope === undefined ? {} : { description: withScope(schema?.description, scope) }),
    response: answersOf(route),
  }
}

function withScope (description: string | undefined, scope: string): string {
  return `${description === undefined ? '' : `${description} `}Needs the scope \`${scope}\`.`
}
