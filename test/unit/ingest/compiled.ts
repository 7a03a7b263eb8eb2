import type { FastifyInstance } from 'fastify'

type RouteSchema = { readonly schema: unknown, readonly httpPart?: string }

/** The same schemas compile to the same functions, in every application. */
function remembered<A extends RouteSchema, F> (compile: (route: A) => F): (route: A) => F {
  const known = new Map<string, F>()
  return route => {
    const name = JSON.stringify(route)
    const found = known.get(name) ?? compile(route)
    known.set(name, found)
    return found
  }
}

/** The framework lowercases the names of headers itself, unless it is given a compiler. */
function withSmallHeaders<A extends RouteSchema> (route: A): A {
  if (route.httpPart !== 'headers') return route
  const { properties = {}, ...schema } = route.schema as { readonly properties?: object }
  const small = Object.entries(properties).map(([name, value]) => [name.toLowerCase(), value])
  return { ...route, schema: { ...schema, properties: Object.fromEntries(small) } }
}

/**
 * Makes applications use the compilers of the first, each schema compiled once for all tests of a
 * process: that takes ten times as long as the rest of an application.
 */
export async function compilingAs (
  first: FastifyInstance
): Promise<(app: FastifyInstance) => FastifyInstance> {
  await first.ready()
  const { validatorCompiler, serializerCompiler } = first
  if (validatorCompiler === undefined || serializerCompiler === undefined) {
    throw new Error('the application has no compilers')
  }
  const validate = remembered(validatorCompiler)
  const serialize = remembered(serializerCompiler)
  return app => app
    .setValidatorCompiler(route => validate(withSmallHeaders(route)))
    .setSerializerCompiler(serialize)
}
