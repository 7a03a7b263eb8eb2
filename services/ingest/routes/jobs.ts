import type { RouteOptions } from 'fastify'
import type { BodyBudget } from '../body-budget.ts'
import type { Deps } from '../ports.ts'
import type { Rules } from '../rules.ts'
import { cancelJobRoute } from './cancel-job.ts'
import { createJobRoute } from './create-job.ts'
import { getJobRoute } from './get-job.ts'
import { getResultsRoute } from './get-results.ts'
import { listDeliveriesRoute } from './list-deliveries.ts'
import { listJobsRoute } from './list-jobs.ts'
import { resendDeliveryRoute } from './resend-delivery.ts'

/** The routes of jobs, in the order a client meets them. */
export function jobRoutes (deps: Deps, rules: Rules, budget: BodyBudget): RouteOptions[] {
  return [
    createJobRoute(deps, rules, budget),
    listJobsRoute(deps),
    getJobRoute(deps),
    cancelJobRoute(deps),
    getResultsRoute(deps, rules),
    listDeliveriesRoute(deps),
    resendDeliveryRoute(deps),
  ]
}
