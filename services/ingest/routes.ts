import type { RouteOptions } from 'fastify'
import { createBodyBudget } from './body-budget.ts'
import { describeRoutes } from './openapi/describe.ts'
import type { Deps } from './ports.ts'
import type { Rules } from './rules.ts'
import { createQuoteRoute } from './routes/create-quote.ts'
import { docsRoutes } from './routes/docs.ts'
import { getBalanceRoute } from './routes/get-balance.ts'
import { getServicesRoute } from './routes/get-services.ts'
import { jobRoutes } from './routes/jobs.ts'
import { rootRoute } from './routes/root.ts'

/** All routes of the interface, in the order of its description. */
export function routesOf (deps: Deps, rules: Rules): readonly RouteOptions[] {
  // Bodies of jobs and of quotes share one memory budget.
  const budget = createBodyBudget(rules.bodyBudgetBytes)
  const routes: readonly RouteOptions[] = [
    ...jobRoutes(deps, rules, budget),
    createQuoteRoute(deps, rules, budget),
    getBalanceRoute(deps),
    getServicesRoute(rules),
    rootRoute(),
    ...docsRoutes(() => describeRoutes(routes)),
  ]
  return routes
}
