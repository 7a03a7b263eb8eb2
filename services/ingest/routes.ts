import type { RouteOptions } from 'fastify'
import { createBodyBudget } from './body-budget.ts'
import { describeRoutes } from './openapi/describe.ts'
import type { Deps } from './ports.ts'
import type { Settings } from './settings.ts'
import { createQuoteRoute } from './routes/create-quote.ts'
import { docsRoutes } from './routes/docs.ts'
import { getBalanceRoute } from './routes/get-balance.ts'
import { getServicesRoute } from './routes/get-services.ts'
import { jobRoutes } from './routes/jobs.ts'
import { rootRoute } from './routes/root.ts'

/** All routes of the REST API, in the order of its description. */
export function routesOf (deps: Deps, settings: Settings): readonly RouteOptions[] {
  // Jobs and quotes share one memory budget for request bodies.
  const budget = createBodyBudget(settings.bodyBudgetBytes)
  const routes: readonly RouteOptions[] = [
    ...jobRoutes(deps, settings, budget),
    createQuoteRoute(deps, settings, budget),
    getBalanceRoute(deps),
    getServicesRoute(settings),
    rootRoute(),
    ...docsRoutes(() => describeRoutes(routes)),
  ]
  return routes
}
