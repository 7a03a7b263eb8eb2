import type { FastifyInstance } from 'fastify'

type Asked = { readonly schema: unknown, readonly httpPart?: string }

/** The same schemas compile to the same functions, whichever application they are of. */
function remembered<A extends Asked, F> (compile: (asked: A) => F): (asked: A) => F {
  const known = new Map<string, F>()
  return asked => {
    const name = JSON.stringify(asked)
    const found = known.get(name) ?? compile(asked)
    known.set(name, found)
    return found
  }
}

/** The framework writes the names of headers small itself, unless it is given a compiler. */
function withSmallHeaders<A extends Asked> (asked: A): A {
  if (asked.httpPart !== 'headers') return asked
  const { properties = {}, ...schema } = asked.schema as { readonly properties?: object }
  const small = Object.entries(properties).map(([name, value]) => [name.toLowerCase(), value])
  return { ...asked, schema: { ...schema, properties: Object.fromEntries(small) } }
}

/**
 * Has applications use the compilers of a first one, each schema compiled once for all tests of a
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
    .setValidatorCompiler(asked => validate(withSmallHeaders(asked)))
    .setSerializerCompiler(serialize)
}
