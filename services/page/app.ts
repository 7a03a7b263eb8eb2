import type { Server } from 'node:https'
import Fastify, {
  LogController, type FastifyBaseLogger, type FastifyError, type FastifyInstance, type FastifyReply,
  type FastifyRequest, type RouteOptions,
} from 'fastify'
import { guardConnections, type MinimumThroughput } from '../runtime/platform/peer-guards.ts'
import {
  type CertificateSettings, readCertificate, renewCertificate,
} from '../runtime/platform/certificate.ts'
import {
  CONNECTION_DEFAULTS, type ConnectionSettings, createDocument, frameworkLimits, nodeLimits,
  PublicLimit, readClientAddresses, sendDocument,
} from '../runtime/platform/http-server.ts'
import { newId } from '../runtime/platform/ids.ts'
import { parseNetworks } from '../runtime/platform/networks.ts'
import { accessLogRoutes } from './access-log.ts'
import { balanceRoutes } from './balance.ts'
import { listSections, type PageDeps } from './context.ts'
import { answerBadData, guardBadPath, guardPages, recordPageRequests } from './guard.ts'
import { jobPageRoutes } from './jobs.ts'
import { keyRoutes, settingsRoutes } from './settings.ts'
import { assets, errorPage, sendHtml } from './layout.ts'
import { listRoutes } from './lists.ts'
import { mailServerRoute } from './mail-servers.ts'
import { overviewRoutes } from './overview.ts'
import { explainError, PageError } from './page-error.ts'
import { peopleRoutes } from './people.ts'
import { pipelineRoute } from './pipeline/page.ts'
import { signInRoutes } from './sign-in.ts'
import { uploadRoutes } from './upload.ts'
import { usageRoutes } from './usage.ts'
import { webhookRoutes } from './webhooks.ts'

const MAX_FORM_BYTES = 65_536
const MAX_PARAMETER_CHARACTERS = 200

type Options = {
  readonly deps: PageDeps
  readonly trustedProxies: readonly string[]
  readonly log?: FastifyBaseLogger
  readonly tls: CertificateSettings
  readonly connection?: ConnectionSettings
}

/**
 * Creates the HTTP server of the page without listening; tests inject requests.
 * @throws TypeError for a certificate that cannot be used.
 */
export function createPage (options: Options): FastifyInstance {
  const { deps, trustedProxies, log, tls, connection = CONNECTION_DEFAULTS } = options
  const certificate = readCertificate(tls)
  const proxies = parseNetworks(trustedProxies, 'TRUSTED_PROXIES')
  const rules = { trustedProxies, limit: new PublicLimit(connection) }
  const secure = { ...certificate, ...nodeLimits(connection), minVersion: 'TLSv1.2' }
  const app = Fastify({
    ...frameworkLimits(connection),
    ...(log === undefined ? {} : { loggerInstance: log }),
    ...(certificate === undefined ? {} : { https: secure as object }),
    maxRequestsPerSocket: connection.MAX_REQUESTS_PER_CONNECTION,
    // The log must not contain the data that URLs carry.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: MAX_FORM_BYTES,
    routerOptions: { maxParamLength: MAX_PARAMETER_CHARACTERS },
    requestIdHeader: false,
    genReqId: () => newId('req', Date.now()),
    forceCloseConnections: true,
    frameworkErrors: (_error, request, reply) => {
      sendError(guardBadPath(request, reply, rules), request, reply)
    },
    clientErrorHandler: answerBadData,
  }) as unknown as FastifyInstance
  if (certificate !== undefined) {
    renewCertificate(app.server as Server, certificate, { settings: tls, log: app.log })
  }
  guardConnections(app.server, connection, proxies)
  readClientAddresses(app, proxies)
  // Forms, and files, which the REST interface reads.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('text/csv', { parseAs: 'buffer' },
    (_request, body, done) => done(null, body))
  app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' },
    (_request, body, done) => done(null, new URLSearchParams(String(body))))
  guardPages(app, deps, rules)
  recordPageRequests(app, deps.accessLog)
  const routes = pageRoutes(deps, {
    graceMs: connection.BODY_GRACE_MS,
    bytesPerSecond: connection.BODY_BYTES_PER_SECOND,
    completeWithinMs: connection.REQUEST_TIMEOUT_MS,
  })
  app.decorate('sections', listSections(routes))
  app.setErrorHandler<FastifyError>((error, request, reply) => sendError(error, request, reply))
  app.setNotFoundHandler((request, reply) =>
    sendError(new PageError('not_found'), request, reply))
  // Routes of a plugin, because the hooks of plugins that were registered before apply to these.
  app.register(async inner => {
    for (const route of [...assetRoutes, ...routes]) inner.route(route)
  })
  return app
}

/**
 * Every page and every form, in the order of the navigation. `pace` is the minimum throughput of
 * uploads.
 */
function pageRoutes (deps: PageDeps, pace: MinimumThroughput): readonly RouteOptions[] {
  return [
    ...signInRoutes(deps),
    ...overviewRoutes(deps),
    ...jobPageRoutes(deps),
    ...uploadRoutes(deps, pace),
    ...listRoutes(deps, pace),
    ...balanceRoutes(deps),
    ...usageRoutes(deps),
    ...keyRoutes(deps),
    ...webhookRoutes(deps),
    ...accessLogRoutes(deps),
    ...settingsRoutes(deps),
    ...peopleRoutes(deps),
    pipelineRoute(deps),
    mailServerRoute(deps),
  ]
}

/** The name, access and log entry of every route, for the documentation. Runs no handler. */
export function pageDefinitions () {
  // Routes use what they are given only when they handle a request.
  return pageRoutes({} as PageDeps, { graceMs: 0, bytesPerSecond: 1, completeWithinMs: 1 })
    .map(({ method, url, config: { access, records } = {} }) => {
      if (access === undefined) throw new Error(`route ${url} has no access in its config`)
      return { name: `${String(method)} ${url}`, access, records }
    })
}

/** Files with a content hash in their path, so that browsers may cache them forever. */
const assetRoutes: readonly RouteOptions[] = [...assets.values()].map(
  ({ path, type, content }) => {
    const document = createDocument(type, content)
    return {
      method: 'GET',
      url: path,
      config: { access: 'everybody' },
      handler: async (request, reply) => sendDocument(request, reply, {
        document: await document, cacheControl: 'public, max-age=31536000, immutable',
      }),
    }
  })

function sendError (error: unknown, request: FastifyRequest, reply: FastifyReply) {
  const content = explainError(error)
  if (content.status >= 500) {
    request.log.error({ err: error, request: request.id, status: content.status }, 'request failed')
  }
  reply.code(content.status)
  if (request.routeOptions.config?.forScript === true) return reply.send({ error: content })
  if (content.status === 401) return reply.redirect('/sign-in?notice=signed-out', 303)
  return sendHtml(reply, errorPage(content, {
    requestId: request.id, isSignedIn: request.visitor !== undefined,
  }))
}
