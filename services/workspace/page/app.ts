import Fastify, {
  LogController, type FastifyBaseLogger, type FastifyError, type FastifyInstance,
  type FastifyReply, type FastifyRequest, type RouteOptions,
} from 'fastify'
import { ulid } from 'ulid'
import {
  capConnections,
  CONNECTION_DEFAULTS, frameworkLimits, nodeLimits, type ConnectionSettings,
} from '../../lib/http-limits.ts'
import { networksOf } from '../../lib/networks.ts'
import { inspectJson } from '../../lib/json-text.ts'
import { assets } from './assets.ts'
import type { PageParts } from './context.ts'
import { guard } from './guard.ts'
import { faultOf, PageFault } from './page-fault.ts'
import { pageRoutes } from './routes.ts'
import { failureView } from './views/failure.ts'

const FORM_BYTES = 65_536
const MAX_PARAMETER_CHARACTERS = 200

type Options = {
  readonly parts: PageParts
  readonly trustedProxies: readonly string[]
  readonly log?: FastifyBaseLogger
  readonly https?: { readonly cert: Buffer, readonly key: Buffer }
  readonly connection?: ConnectionSettings
}

/** The whole page without a socket: tests inject requests, the service listens. */
export function createPage (options: Options): FastifyInstance {
  const { parts, trustedProxies, log, https, connection = CONNECTION_DEFAULTS } = options
  const secure = { ...https, ...nodeLimits(connection), minVersion: 'TLSv1.2' }
  const app = Fastify({
    ...frameworkLimits(connection),
    ...(log === undefined ? {} : { loggerInstance: log }),
    ...(https === undefined ? {} : { https: secure as object }),
    maxRequestsPerSocket: connection.MAX_REQUESTS_PER_CONNECTION,
    // Addresses of requests hold codes to sign in with.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: FORM_BYTES,
    routerOptions: { maxParamLength: MAX_PARAMETER_CHARACTERS },
    requestIdHeader: false,
    genReqId: () => `req_${ulid().toLowerCase()}`,
    forceCloseConnections: true,
  }) as unknown as FastifyInstance
  capConnections(app.server, connection, networksOf(trustedProxies, 'TRUSTED_PROXIES'))
  acceptJudgedJson(app)
  app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' },
    (_request, body, done) => done(null, new URLSearchParams(String(body))))
  guard(app, parts, { trustedProxies })
  const pace = {
    graceMs: connection.BODY_GRACE_MS,
    bytesPerSecond: connection.BODY_BYTES_PER_SECOND,
    wholeWithinMs: connection.REQUEST_TIMEOUT_MS,
  }
  app.setErrorHandler<FastifyError>((error, request, reply) => answerFailure(error, request, reply))
  app.setNotFoundHandler((request, reply) =>
    answerFailure(new PageFault('not_found'), request, reply))
  // Only a plugin's routes have the hooks of plugins that were registered before.
  app.register(async routes => {
    for (const route of [...assetRoutes(), ...pageRoutes(parts, pace)]) routes.route(route)
  })
  return app
}

/** JSON is judged before a parser builds anything of it, as at the REST interface. */
function acceptJudgedJson (app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (inspectJson(String(body)).kind !== 'fine') return done(new PageFault('bad_form'))
    return parse(request, String(body), done)
  })
}

function answerFailure (error: unknown, request: FastifyRequest, reply: FastifyReply) {
  const fault = faultOf(error)
  if (fault.status >= 500) request.log.error({ err: error, request: request.id }, 'no page')
  reply.code(fault.status)
  if (request.routeOptions.config?.forScript === true) return reply.send({ fault })
  if (fault.status === 401) return reply.redirect('/sign-in?notice=signed-out', 303)
  return reply.type('text/html; charset=utf-8').send(
    failureView(fault, { requestId: request.id, visitor: request.visitor }).html)
}

/** Files whose address changes with their content, so that browsers may keep them for good. */
function assetRoutes (): readonly RouteOptions[] {
  return [...assets.values()].map(({ path, type, content }) => ({
    method: 'GET',
    url: path,
    handler: (_request, reply) => reply
      .header('cache-control', 'public, max-age=31536000, immutable').type(type).send(content),
  }))
}
