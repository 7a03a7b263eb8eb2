import type { FastifyInstance } from 'fastify'

/** An operation that will go, with what a client has to know in time. */
export type Deprecation = {
  /** From when on it should not be used any more. */
  readonly since: Date
  /** When it stops to work: at least twelve months later. */
  readonly until: Date
  /** What to use instead, relative to the host. */
  readonly guide: string
}

/** Operations that will go, by method and path as the routes write them: `GET /api/v1/jobs/:id`. */
export const DEPRECATIONS: Readonly<Record<string, Deprecation>> = {}

/** Makes every answer of a deprecated operation say so (RFC 9745 and RFC 8594). */
export function announceDeprecations (app: FastifyInstance, table = DEPRECATIONS): void {
  app.addHook('onRequest', async (request, reply) => {
    const method = request.method === 'HEAD' ? 'GET' : request.method
    const found = table[`${method} ${request.routeOptions.url ?? ''}`]
    if (found !== undefined) reply.headers(deprecationHeaders(found))
  })
}

/** The headers of an answer. Throws RangeError when clients have less than twelve months. */
export function deprecationHeaders ({ since, until, guide }: Deprecation): Record<string, string> {
  const earliest = new Date(since)
  earliest.setUTCFullYear(earliest.getUTCFullYear() + 1)
  if (until < earliest) throw new RangeError('an operation works for twelve months at least')
  return {
    deprecation: `@${Math.floor(since.getTime() / 1_000)}`,
    sunset: until.toUTCString(),
    link: `<${guide}>; rel="deprecation", <${guide}>; rel="sunset"`,
  }
}
