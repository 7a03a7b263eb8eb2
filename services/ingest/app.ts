import Fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import { ulid } from 'ulid'
import { announceDeprecations } from './deprecations.ts'
import { answerBadPath, answerFailures, createSocketFailure } from './failures.ts'
import { guard } from './guard.ts'
import { acceptOnlyJson } from './json-body.ts'
import type { Parts, Rules } from './ports.ts'
import { routesOf } from './routes.ts'

const SMALL_BODY_BYTES = 64 * 1_024
/** Far above a job id; whatever is longer names nothing. */
const MAX_PARAMETER_CHARACTERS = 200

/**
 * The whole HTTP interface without a socket: tests inject requests, `main` listens. The framework's
 * defaults that would change or drop what a client sent are switched off.
 */
export function createApp (
  { parts, rules, log }: { parts: Parts, rules: Rules, log?: FastifyBaseLogger }
): FastifyInstance {
  const app = Fastify({
    ...(log === undefined ? {} : { loggerInstance: log }),
    ...timeouts,
    // Addresses of requests hold job ids at most, but a client may put anything into a query.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: SMALL_BODY_BYTES,
    routerOptions: { maxParamLength: MAX_PARAMETER_CHARACTERS },
    exposeHeadRoutes: false,
    requestIdHeader: false,
    genReqId: newRequestId,
    return503OnClosing: false,
    ajv: {
      customOptions: {
        coerceTypes: false, removeAdditional: false, useDefaults: false, allErrors: false,
      },
    },
    frameworkErrors: answerBadPath,
    clientErrorHandler: createSocketFailure(newRequestId),
  })
  acceptOnlyJson(app)
  answerFailures(app, parts)
  guard(app, parts, rules)
  announceDeprecations(app)
  for (const route of routesOf(parts, rules)) app.route(route)
  return app
}

/** A request has a minute to arrive, its headers ten seconds; an idle connection is closed. */
const timeouts = {
  requestTimeout: 60_000,
  connectionTimeout: 120_000,
  keepAliveTimeout: 72_000,
  http: { headersTimeout: 10_000, connectionsCheckingInterval: 2_000 },
}

/** Names a request in logs and protects nothing; the library's own random numbers cost far more. */
function newRequestId (): string {
  return `req_${ulid(Date.now(), Math.random).toLowerCase()}`
}
