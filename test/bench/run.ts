import { measureCore, type CoreFigures } from './core.ts'
import type { BenchOptions, Scenario } from './options.ts'
import { measureCrowd } from './scenarios/crowd.ts'
import { measureEmail } from './scenarios/email.ts'
import { measureFairness } from './scenarios/fairness.ts'
import { measureGrowth } from './scenarios/growth.ts'
import { measureLists } from './scenarios/lists.ts'
import { measureMailboxes } from './scenarios/mailboxes.ts'
import { measurePartners } from './scenarios/partners.ts'
import { measurePeers } from './scenarios/peers.ts'
import { measureProvisional } from './scenarios/provisional.ts'
import { measureRecovery } from './scenarios/recovery.ts'
import { measureSmallJobs } from './scenarios/small.ts'
import { measureSoak } from './scenarios/soak.ts'
import { measureVerifications } from './scenarios/verifications.ts'
import { measureWebhooks } from './scenarios/webhooks.ts'
import { measureWorkbooks } from './scenarios/workbooks.ts'
import { findRepeats } from '../support/recovery/repeats.ts'
import { createFundedKey, DEFAULT_LIMITS, withServices, type BenchStack } from './services.ts'
import type { Scale } from '../../deploy/local/launcher/scale.ts'
import type { Client } from '../../services/client/client.ts'

export type RunOptions =
  Pick<BenchOptions, 'rows' | 'scale' | 'processes' | 'scenarios' | 'soakMinutes' |
    'recoveryEntries' | 'recoveryJobs' | 'smallSeconds' | 'partnerCounts'> &
  Pick<BenchContext, 'bareLoopMs' | 'log'> & {
    /** Additional environment of every service. */
    readonly overrides: Readonly<Record<string, string>>
  }

/**
 * Measures the core figures, then the selected scenarios. Those that need a configuration or a
 * memory of their own run on separate services: small jobs and the soak start with new processes.
 * The peers run last, because no service consumes the rows that they produce.
 */
export async function runBenchmark (stack: BenchStack, options: RunOptions): Promise<Report> {
  const { rows, bareLoopMs, log, overrides, processes } = options
  const scale = { normalize: options.scale, verify: options.scale }
  const common = { rows, bareLoopMs, log }
  const onServices = <T>(measure: (context: BenchContext) => Promise<T>): Promise<T> =>
    withServices(stack, { scale, overrides, processes },
      running => measure({ ...running, ...common }))
  const report = await onServices(async context => ({
    ...await withoutRepeats(stack, log, () => measureCore(context)),
    ...await runScenarios(options, sharedScenarios(context)),
  }))
  const separate = separateScenarios(stack, options, onServices)
  return { ...report, ...await runScenarios(options, separate) }
}

type OnServices = <T>(measure: (context: BenchContext) => Promise<T>) => Promise<T>

/** The scenarios on services of their own, or on none. */
function separateScenarios (stack: BenchStack, options: RunOptions, onServices: OnServices) {
  const { rows, bareLoopMs, log, overrides, processes, scale: instances } = options
  const { env } = stack
  const common = { rows, bareLoopMs, log }
  const scale = { normalize: instances, verify: instances }
  return {
    fairness: () => withServices(
      stack, { scale, processes, overrides: { ...overrides, ...DEFAULT_LIMITS } },
      running => measureFairness({ ...running, ...common, env })),
    recovery: () => measureRecovery(stack, {
      overrides, log, entries: options.recoveryEntries, maxJobs: options.recoveryJobs,
    }),
    small: async () => {
      const apiKey = await createFundedKey(env)
      return await onServices(context => withoutRepeats(stack, log, () =>
        measureSmallJobs(context, { apiKey, seconds: options.smallSeconds })))
    },
    partners: () => withoutRepeats(stack, log, () =>
      measurePartners(stack, { counts: options.partnerCounts, overrides, log })),
    lists: async () => {
      const apiKey = await createFundedKey(env)
      const { REDIS_STATE_URL: redisUrl = '' } = env
      return await onServices(context => measureLists(context, { apiKey, redisUrl }))
    },
    soak: () => onServices(context => measureSoak(context, options.soakMinutes)),
    peers: () => measurePeers({ env, overrides, ...common }),
    mailboxes: () => measureMailboxes(stack, { rows: Math.ceil(rows / 2), log, overrides }),
  }
}

/** Reports messages that a measurement without faults has sent twice. */
async function withoutRepeats<T> (
  { env }: BenchStack, log: RunOptions['log'], measure: () => Promise<T>
): Promise<T> {
  const sinceMs = Date.now()
  const figures = await measure()
  for (const line of await findRepeats(env, { sinceMs })) {
    log(`!! ${line}, without any fault`)
    process.exitCode = 1
  }
  return figures
}

/** The scenarios that run on the same services as the core figures. */
const sharedScenarios = (context: BenchContext) => ({
  growth: () => measureGrowth(context),
  crowd: () => measureCrowd(context),
  webhooks: () => measureWebhooks(context),
  email: () => measureEmail(context),
  verifications: () => measureVerifications(context),
  provisional: () => measureProvisional(context),
  workbooks: () => measureWorkbooks(context),
})

/** Runs the selected scenarios. A failed one is reported and does not discard the others. */
async function runScenarios (
  { scenarios, log }: RunOptions, all: Readonly<Partial<Record<Scenario, () => Promise<unknown>>>>
): Promise<Partial<Pick<Report, Scenario>>> {
  const figures: Partial<Record<Scenario, unknown>> = {}
  for (const [name, measure] of Object.entries(all)) {
    const scenario = name as Scenario
    if (!scenarios.has(scenario)) continue
    try {
      figures[scenario] = await measure()
    } catch (error) {
      log(`!! ${scenario} could not be measured: ${String(error)}`)
      process.exitCode = 1
    }
  }
  return figures as Partial<Pick<Report, Scenario>>
}

type Measures = ReturnType<typeof sharedScenarios> & ReturnType<typeof separateScenarios>

/** The figures of one run; those of scenarios that did not run are missing. */
export type Report = CoreFigures & {
  readonly [S in Scenario]?: Awaited<ReturnType<Measures[S]>>
}

export type Process = { readonly name: string, readonly pid: number | undefined }

/** The base URL of the API and the key of an organization. */
export type ApiAccess = { readonly baseUrl: string, readonly apiKey: string }

/** What every scenario gets: running services, clients of them, and the size of the load. */
export type BenchContext = {
  readonly client: Client
  /** Access of the organization of `client`, for a client on another thread. */
  readonly access: ApiAccess
  /** A client of another organization. */
  readonly otherClient: Client
  readonly services: {
    readonly list: () => readonly Process[]
    /** Resolves when all instances are ready. */
    readonly setScale: (scale: Scale) => Promise<void>
  }
  /** Brokers and stores; empty when they are external. */
  readonly infrastructure: readonly Process[]
  /** Instances of the stages that have more than one. */
  readonly scale: Scale
  /** Rows of a large job. */
  readonly rows: number
  /** Runs the bare loop over the same number of rows. */
  readonly bareLoopMs: () => number
  readonly log: (line: string) => void
}
