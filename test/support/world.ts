import { parse } from 'csv-parse/sync'
import { inject } from 'vitest'
import {
  createClient, type Client, type Created, type JobRequest, type JobStatusResource,
} from '../../services/client/client.ts'
import { MODES, tenantOf } from '../../services/accounts/tenant.ts'
import { startOf } from '../../services/records/cache-names.ts'
import { runAudit } from '../../services/workspace/audit-command.ts'
import type { Breach } from '../../services/workspace/audit-report.ts'
import { createDemo } from '../../services/workspace/demo.ts'
import { startAll, type RunningServices } from './services.ts'

export type World = {
  readonly env: Record<string, string>
  readonly services: RunningServices
  readonly live: Client
  readonly test: Client
  readonly orgId: string
  readonly keys: { readonly live: string, readonly test: string }
  readonly baseUrl: string
  /** A client of further services for the same organization. */
  readonly clientAt: (baseUrl: string, mode: 'live' | 'test') => Client
  /** What the audit finds wrong with the organization, both modes. */
  readonly breaches: () => Promise<readonly Breach[]>
  /** A pattern of the names of its live phone numbers in the cache, by version of their tokens. */
  readonly cacheNames: (version: string) => string
  readonly stop: () => Promise<void>
}

/** All services on the suite's stack, with an organization of its own that has 1,000 USD. */
export async function startWorld (overrides: Record<string, string> = {}): Promise<World> {
  const env = inject('stack')
  const services = await startAll({ env, overrides })
  const { orgId, keys } = await createDemo(env)
  const { baseUrl } = services
  const clientAt: World['clientAt'] = (at, mode) =>
    createClient({ baseUrl: at, apiKey: keys[mode] })
  return {
    env,
    services,
    live: clientAt(baseUrl, 'live'),
    test: clientAt(baseUrl, 'test'),
    orgId,
    keys,
    baseUrl,
    clientAt,
    breaches: async () => await breachesOf(env, orgId),
    cacheNames: version =>
      `${startOf({ tenant: tenantOf(orgId, 'live'), service: 'phone-validation', version })}*`,
    stop: services.stop,
  }
}

/** What the audit finds wrong with some organizations: other tests' jobs may be under way. */
export async function breachesOf (
  env: Record<string, string>, ...orgs: readonly string[]
): Promise<readonly Breach[]> {
  const only = orgs.flatMap(org => MODES.map(mode => tenantOf(org, mode)))
  return (await runAudit(env, { only })).breaches
}

export type Finished = {
  readonly created: Created
  readonly job: JobStatusResource
  readonly rows: readonly Record<string, string>[]
}

/** Posts a job and waits for its end and its results. */
export async function runJob (client: Client, request: JobRequest): Promise<Finished> {
  const created = await client.createJob(request)
  const job = await client.waitForEnd(created.id, { pollEveryMs: 20, timeoutMs: 110_000 })
  return { created, job, rows: parseCsv(await client.results(created.id)) }
}

/** The rows of a result file by column name; the parser is not the one that wrote it. */
export function parseCsv (text: string): readonly Record<string, string>[] {
  return parse(text, { columns: true, relax_column_count: false })
}
