import type { RouteOptions } from 'fastify'
import type { BodyBudget } from '../body-budget.ts'
import type { Deps } from '../ports.ts'
import type { Settings } from '../settings.ts'
import { cancelJobRoute } from './cancel-job.ts'
import { createJobRoute } from './create-job.ts'
import { getJobRoute } from './get-job.ts'
import { getResultsRoute } from './get-results.ts'
import { listDeliveriesRoute } from './list-deliveries.ts'
import { listJobsRoute } from './list-jobs.ts'
import { resendDeliveryRoute } from './resend-delivery.ts'

/** The routes of jobs, in the order of the description. */
export function jobRoutes (deps: Deps, settings: Settings, budget: BodyBudget): RouteOptions[] {
  return [
    createJobRoute(deps, settings, budget),
    listJobsRoute(deps),
    getJobRoute(deps),
    cancelJobRoute(deps),
    getResultsRoute(deps, settings),
    listDeliveriesRoute(deps),
    resendDeliveryRoute(deps),
  ]
}
