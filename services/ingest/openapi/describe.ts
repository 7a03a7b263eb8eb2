import swagger from '@fastify/swagger'
import Fastify, { type FastifySchema, type RouteOptions } from 'fastify'
import { DEPRECATIONS } from '../deprecations.ts'
import { API_VERSION } from '../guard.ts'
import { answersOf } from './answers.ts'
import { withSharedHeaders, type OpenApiDocument } from './document.ts'
import { webhooksOf } from './events.ts'
import { withSamples } from './samples.ts'
import { ERROR_TABLE, INTRODUCTION, TAGS } from './texts.ts'
import { withExamples } from './with-examples.ts'

/**
 * The description of these routes as OpenAPI 3.1. They are registered with an application of its
 * own that never listens, so that nothing is described but what is served.
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
  // Schemas know more of themselves than JSON can say.
  const document = JSON.parse(JSON.stringify(described)) as OpenApiDocument
  return withSamples(withExamples(withSharedHeaders(document)))
}

/** What the generator reads of a route; what an operation answers is told by its configuration. */
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
