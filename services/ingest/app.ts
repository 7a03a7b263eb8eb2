import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify'
import { SMALL_BODY_BYTES } from '../runtime/platform/body-guard.ts'
import {
  CONNECTION_DEFAULTS, type ConnectionSettings, createPublicLimit, frameworkLimits,
  readClientAddresses,
} from '../runtime/platform/http-server.ts'
import { guardConnections } from '../runtime/platform/guard-connections.ts'
import { newId } from '../runtime/platform/ids.ts'
import { networksOf } from '../runtime/platform/networks.ts'
import { type AdmittingDeps, shedLoad } from './load-shedding.ts'
import { acceptCompleteBodies, acceptJson } from './body.ts'
import type { Settings } from './config.ts'
import {
  answerFailures, answerUnhandled, createBadPathAnswer, createSocketFailure,
} from './failures.ts'
import { acceptFiles } from './file/read-form.ts'
import { checkRequestSmuggling, guardRoutes } from './guard.ts'
import { recordApiRequests, traceRequests } from './records.ts'
import { readQueryFields } from './request.ts'
import { announceDeprecations } from './response.ts'
import { routesOf } from './routes.ts'

const newRequestId = () => newId('req', Date.now())

/** Far above the length of a job id. */
const MAX_PARAMETER_CHARACTERS = 200

type Options = {
  readonly deps: AdmittingDeps
  readonly settings: Settings
  readonly log?: FastifyBaseLogger
  readonly connection?: ConnectionSettings
}

/**
 * The HTTP application without a socket: tests inject requests, `main` listens. Disables defaults
 * of Fastify that would change or drop parts of a request.
 */
export function createApp (
  { deps, settings, log, connection = CONNECTION_DEFAULTS }: Options
): FastifyInstance {
  const proxies = networksOf(settings.trustedProxies, 'TRUSTED_PROXIES')
  const limit = createPublicLimit(connection)
  const app = Fastify({
    ...(log === undefined ? {} : { loggerInstance: log }),
    ...frameworkLimits(connection),
    // Not logged: a client may put anything into a query.
    logController: new LogController({
      disableRequestLogging: true, requestIdLogLabel: 'requestId',
    }),
    bodyLimit: SMALL_BODY_BYTES,
    routerOptions: { maxParamLength: MAX_PARAMETER_CHARACTERS, ignoreTrailingSlash: true },
    exposeHeadRoutes: true,
    requestIdHeader: false,
    genReqId: newRequestId,
    return503OnClosing: false,
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        allErrors: false,
        // The error messages use the schema that was violated.
        verbose: true,
      },
    },
    frameworkErrors: createBadPathAnswer(limit, proxies),
    clientErrorHandler: createSocketFailure(newRequestId),
  })
  guardConnections(app.server, connection, proxies)
  readClientAddresses(app, proxies)
  answerUnhandled(app, newRequestId)
  acceptCompleteBodies(app)
  acceptJson(app)
  acceptFiles(app)
  answerFailures(app, deps)
  checkRequestSmuggling(app, connection.MAX_REQUESTS_PER_CONNECTION)
  traceRequests(app)
  guardRoutes(app, deps, { ...settings, limit })
  recordApiRequests(app, deps.accessLog)
  if (deps.loadShedding !== undefined) shedLoad(app, deps.loadShedding)
  announceDeprecations(app)
  readQueryFields(app)
  // The framework closes only connections that are idle when the server stops: others would delay
  // the stop until they time out.
  let isStopping = false
  app.addHook('preClose', async () => { isStopping = true })
  app.addHook('onSend', async (_request, reply) => {
    if (isStopping) reply.header('connection', 'close')
  })
  for (const route of routesOf(deps, settings)) app.route(route)
  return app
}
