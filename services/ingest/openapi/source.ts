import type { Deps } from '../ports.ts'
import type { Settings } from '../settings.ts'
import { routesOf } from '../routes.ts'
import { describeRoutes } from './describe.ts'

/**
 * The text of `schemas/api/openapi.json`; a test compares it with the file. No route is called
 * here, so the routes need no dependencies.
 */
export async function openapiSource (): Promise<string> {
  const routes = routesOf({} as Deps, { bodyBudgetBytes: 1 } as Settings)
  return `${JSON.stringify(await describeRoutes(routes), null, 2)}\n`
}
