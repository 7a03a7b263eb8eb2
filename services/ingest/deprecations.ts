import type { FastifyInstance } from 'fastify'

/** An operation that will be removed, with the dates for clients. */
export type Deprecation = {
  /** When it is deprecated. */
  readonly since: Date
  /** When it stops working: at least twelve months later. */
  readonly until: Date
  /** Its replacement, relative to the host. */
  readonly guide: string
}

/** Deprecated operations, by method and path as in the routes: `GET /api/v1/jobs/:id`. */
export const DEPRECATIONS: Readonly<Record<string, Deprecation>> = {}

/**
 * Adds the deprecation headers to every response of a deprecated operation (RFC 9745 and RFC 8594).
 * @throws RangeError if clients have less than twelve months.
 */
export function announceDeprecations (app: FastifyInstance, table = DEPRECATIONS): void {
  const headers = new Map(Object.entries(table).map(([operation, deprecation]) =>
    [operation, deprecationHeaders(deprecation)]))
  app.addHook('onRequest', async (request, reply) => {
    const method = request.method === 'HEAD' ? 'GET' : request.method
    reply.headers(headers.get(`${method} ${request.routeOptions.url ?? ''}`) ?? {})
  })
}

/** The headers of a response. */
function deprecationHeaders ({ since, until, guide }: Deprecation): Record<string, string> {
  const earliest = new Date(since)
  earliest.setUTCFullYear(earliest.getUTCFullYear() + 1)
  if (until < earliest) {
    throw new RangeError(`sunset ${until.toISOString()} is less than twelve months after the ` +
      `deprecation ${since.toISOString()}; set a later date`)
  }
  return {
    deprecation: `@${Math.floor(since.getTime() / 1_000)}`,
    sunset: until.toUTCString(),
    link: `<${guide}>; rel="deprecation", <${guide}>; rel="sunset"`,
  }
}
