import type { RouteOptions } from 'fastify'
import type { Scope } from '../accounts/api-keys.ts'
import { createBodyBudget, reserveMemory } from './body.ts'
import type { Settings } from './config.ts'
import type { IngestDeps } from './deps.ts'
import type { ErrorCode } from './errors.ts'
import {
  type AnswerHeader, describeRoutes, type OpenApiDocument, openapiText, type CallSample,
} from './openapi.ts'
import type { Deprecation } from './response.ts'
import {
  getBalanceRoute, getServicesRoute, listTransactionsRoute, getUsageRoute,
} from './routes/account.ts'
import {
  changeListsFromFileRoute, changeListsRoute, getListsRoute, lookUpRoute,
} from './routes/contact-lists.ts'
import {
  cancelJobRoute, eraseJobRoute, getJobRoute, getResultsRoute, jobEventsRoute, listJobsRoute,
} from './routes/jobs.ts'
import { createJobRoute, createQuoteRoute, createVerificationRoute } from './routes/create-job.ts'
import { type ApiDocuments, createApiDocuments, docsRoutes, rootRoute } from './routes/docs.ts'
import { createFilePreviewRoute } from './routes/file-previews.ts'
import {
  createEndpointRoute, deleteEndpointRoute, getEndpointRoute, listDeliveriesRoute,
  listEndpointDeliveriesRoute, listEndpointsRoute, listWebhookKeysRoute, resendDeliveryRoute,
  rotateEndpointSecretRoute, updateEndpointRoute,
} from './routes/webhooks.ts'

declare module 'fastify' {
  /** What the document of the API says of an operation, beside its parameters, body and answers. */
  interface FastifySchema {
    readonly operationId?: string
    readonly summary?: string
    readonly description?: string
    readonly tags?: readonly string[]
  }

  /** What a route says of itself, beside `records` of the access log. */
  interface FastifyContextConfig {
    /** The required scope, or several; a route without one is public. */
    readonly scope?: Scope | readonly [Scope, ...Scope[]]
    /**
     * The request starts a preflight; `keyed` if a retry with the same Idempotency-Key does not.
     */
    readonly preflight?: 'keyed' | 'keyless'
    /** The body may be a file as well, is one of entries of contact lists, or one to look at. */
    readonly takesFile?: 'contacts' | 'entries' | 'preview'
    /** Schema of the request headers that the handler reads. */
    readonly headers?: object
    /** Media types of the response, JSON if left out; the handler chooses between several. */
    readonly produces?: string | readonly string[]
    /** Headers of successful answers beside those of every answer, by status. */
    readonly sends?: Readonly<Record<number, readonly AnswerHeader[]>>
    /** Error codes of this operation; common codes are added. */
    readonly errors?: readonly ErrorCode[]
    /**
     * Where its successful answer has an id that other operations take: the JSON pointer of the
     * id, by the path that ends in it.
     */
    readonly yields?: Readonly<Record<string, string>>
    readonly sample?: CallSample
    /** Of an operation that will be removed. */
    readonly deprecation?: Deprecation
  }
}

/** All routes of the REST API, in the order of its description. */
export function createRoutes (deps: IngestDeps, settings: Settings): readonly RouteOptions[] {
  const largeBody = reserveMemory(
    createBodyBudget(settings.bodyBudgetBytes), settings.bodyThroughput)
  return [
    createJobRoute(deps, settings, largeBody),
    createVerificationRoute(deps, settings),
    listJobsRoute(deps),
    getJobRoute(deps),
    cancelJobRoute(deps),
    eraseJobRoute(deps),
    getResultsRoute(deps, settings),
    jobEventsRoute(deps),
    listDeliveriesRoute(deps),
    resendDeliveryRoute(deps),
    createQuoteRoute(deps, settings, largeBody),
    createFilePreviewRoute(settings, largeBody),
    changeListsRoute(deps, largeBody),
    changeListsFromFileRoute(deps, largeBody),
    getListsRoute(deps),
    lookUpRoute(deps, largeBody),
    createEndpointRoute(deps, settings),
    listEndpointsRoute(deps),
    getEndpointRoute(deps),
    updateEndpointRoute(deps, settings),
    deleteEndpointRoute(deps),
    rotateEndpointSecretRoute(deps),
    listEndpointDeliveriesRoute(deps),
    listWebhookKeysRoute(deps),
    getBalanceRoute(deps),
    listTransactionsRoute(deps),
    getUsageRoute(deps),
    getServicesRoute(deps, settings),
    rootRoute(),
    ...docsRoutes(apiDocuments),
  ]
}

let documents: Promise<ApiDocuments> | undefined

/** The documents of the REST API, made once: they depend on the routes alone. */
export function apiDocuments (): Promise<ApiDocuments> {
  documents ??= createApiDocuments(describeApi())
  return documents
}

/** The text of `schemas/api/openapi.json`; a test compares it with the file. */
export function openapiSource (): string {
  return openapiText(describeApi(), 2)
}

/** No route is called here, so the routes need no dependencies. */
function describeApi (): OpenApiDocument {
  return describeRoutes(createRoutes({} as IngestDeps, { bodyBudgetBytes: 1 } as Settings))
}
