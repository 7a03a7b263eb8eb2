import type { RouteOptions } from 'fastify'
import { createBodyBudget } from './body.ts'
import { describeRoutes, type OpenApiDocument, openapiText } from './openapi.ts'
import type { IngestDeps } from './deps.ts'
import type { Settings } from './config.ts'
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

/** All routes of the REST API, in the order of its description. */
export function createRoutes (deps: IngestDeps, settings: Settings): readonly RouteOptions[] {
  // Jobs and quotes share one memory budget for request bodies.
  const budget = createBodyBudget(settings.bodyBudgetBytes)
  return [
    createJobRoute(deps, settings, budget),
    createVerificationRoute(deps, settings),
    listJobsRoute(deps),
    getJobRoute(deps),
    cancelJobRoute(deps),
    eraseJobRoute(deps),
    getResultsRoute(deps, settings),
    jobEventsRoute(deps),
    listDeliveriesRoute(deps),
    resendDeliveryRoute(deps),
    createQuoteRoute(deps, settings, budget),
    createFilePreviewRoute(settings, budget),
    changeListsRoute(deps, settings, budget),
    changeListsFromFileRoute(deps, settings, budget),
    getListsRoute(deps),
    lookUpRoute(deps, settings, budget),
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
  documents ??= describeApi().then(createApiDocuments)
  return documents
}

/** The text of `schemas/api/openapi.json`; a test compares it with the file. */
export async function openapiSource (): Promise<string> {
  return openapiText(await describeApi(), 2)
}

/** No route is called here, so the routes need no dependencies. */
async function describeApi (): Promise<OpenApiDocument> {
  return await describeRoutes(createRoutes({} as IngestDeps, { bodyBudgetBytes: 1 } as Settings))
}
