import Fastify, {
  LogController, type FastifyBaseLogger, type FastifyError, type FastifyInstance, type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import {
  CONNECTION_DEFAULTS, createPublicLimit, frameworkLimits, nodeLimits, readClientAddresses,
  type ConnectionSettings,
} from '../runtime/platform/http-server.ts'
import { guardConnections } from '../runtime/platform/guard-connections.ts'
import { newId } from '../runtime/platform/ids.ts'
import { networksOf } from '../runtime/platform/networks.ts'
import { recordPageRequests } from './access.ts'
import type { PageDeps } from './context.ts'
import { guardPages } from './guard.ts'
import { errorPage } from './layout.ts'
import { errorContentOf, PageError } from './page-error.ts'
import { assetRoutes, pageRoutes } from './routes.ts'

const MAX_FORM_BYTES = 65_536
const MAX_PARAMETER_CHARACTERS = 200

type Options = {
  readonly deps: PageDeps
  readonly trustedProxies: readonly string[]
  readonly log?: FastifyBaseLogger
  readonly https?: { readonly cert: Buffer, readonly key: Buffer }
  readonly connection?: ConnectionSettings
}

/** Creates the HTTP server of the page without listening; tests inject requests. */
export function createPage (options: Options): FastifyInstance {
  const { deps, trustedProxies, log, https, connection = CONNECTION_DEFAULTS } = options
  const proxies = networksOf(trustedProxies, 'TRUSTED_PROXIES')
  const secure = { ...https, ...nodeLimits(connection), minVersion: 'TLSv1.2' }
  const app = Fastify({
    ...frameworkLimits(connection),
    ...(log === undefined ? {} : { loggerInstance: log }),
    ...(https === undefined ? {} : { https: secure as object }),
    maxRequestsPerSocket: connection.MAX_REQUESTS_PER_CONNECTION,
    // The log must not contain the data that URLs carry.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: MAX_FORM_BYTES,
    routerOptions: { maxParamLength: MAX_PARAMETER_CHARACTERS },
    requestIdHeader: false,
    genReqId: () => newId('req', Date.now()),
    forceCloseConnections: true,
  }) as unknown as FastifyInstance
  guardConnections(app.server, connection, proxies)
  readClientAddresses(app, proxies)
  addBodyParsers(app)
  guardPages(app, deps, { trustedProxies, limit: createPublicLimit(connection) })
  recordPageRequests(app, deps.accessLog)
  const pace = {
    graceMs: connection.BODY_GRACE_MS,
    bytesPerSecond: connection.BODY_BYTES_PER_SECOND,
    completeWithinMs: connection.REQUEST_TIMEOUT_MS,
  }
  app.setErrorHandler<FastifyError>((error, request, reply) => sendError(error, request, reply))
  app.setNotFoundHandler((request, reply) =>
    sendError(new PageError('not_found'), request, reply))
  // Routes of a plugin, because the hooks of plugins that were registered before apply to these.
  app.register(async routes => {
    for (const route of [...assetRoutes(), ...pageRoutes(deps, pace)]) routes.route(route)
  })
  return app
}

/** Accepts forms, and files, which the REST interface reads. */
function addBodyParsers (app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('text/csv', { parseAs: 'buffer' },
    (_request, body, done) => done(null, body))
  app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' },
    (_request, body, done) => done(null, new URLSearchParams(String(body))))
}

function sendError (error: unknown, request: FastifyRequest, reply: FastifyReply) {
  const content = errorContentOf(error)
  if (content.status >= 500) {
    request.log.error({ err: error, request: request.id, status: content.status }, 'request failed')
  }
  reply.code(content.status)
  if (request.routeOptions.config?.forScript === true) return reply.send({ error: content })
  if (content.status === 401) return reply.redirect('/sign-in?notice=signed-out', 303)
  return reply.type('text/html; charset=utf-8').send(
    errorPage(content, { requestId: request.id, isSignedIn: request.visitor !== undefined }).html)
}
