import type { Deps } from '../ports.ts'
import type { Rules } from '../rules.ts'
import { routesOf } from '../routes.ts'
import { describeRoutes } from './describe.ts'

/**
 * The text of `schemas/api/openapi.json`; a test compares it with the file. No route is ever called
 * here, so none needs the parts it would stand on.
 */
export async function openapiSource (): Promise<string> {
  const routes = routesOf({} as Deps, { bodyBudgetBytes: 1 } as Rules)
  return `${JSON.stringify(await describeRoutes(routes), null, 2)}\n`
}
