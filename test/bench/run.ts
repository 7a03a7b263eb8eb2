import type { BenchContext } from './context.ts'
import { measureCore } from './core.ts'
import type { BenchOptions, Scenario } from './options.ts'
import type { Report } from './report.ts'
import { measureCrowd } from './scenarios/crowd.ts'
import { measureEmail } from './scenarios/email.ts'
import { measureFairness } from './scenarios/fairness.ts'
import { measureGrowth } from './scenarios/growth.ts'
import { measurePartners } from './scenarios/partners.ts'
import { measurePeers } from './scenarios/peers.ts'
import { measureRecovery } from './scenarios/recovery.ts'
import { measureScaling } from './scenarios/scaling.ts'
import { measureSmallJobs } from './scenarios/small.ts'
import { measureSoak } from './scenarios/soak.ts'
import { measureState } from './scenarios/state.ts'
import { measureVerifications } from './scenarios/verifications.ts'
import { measureWebhooks } from './scenarios/webhooks.ts'
import { findRepeats } from '../support/recovery/repeats.ts'
import { createFundedKey, DEFAULT_LIMITS, withServices, type BenchStack } from './services.ts'

export type RunOptions =
  Pick<BenchOptions, 'rows' | 'scale' | 'processes' | 'scenarios' | 'soakMinutes' |
    'recoveryEntries' | 'recoveryJobs' | 'smallSeconds' | 'partnerCounts'> &
  Pick<BenchContext, 'bareLoopMs' | 'log'> & {
    /** Additional environment of every service. */
    readonly overrides: Readonly<Record<string, string>>
  }

type Measurement = { readonly scenario: Scenario, readonly measure: () => Promise<unknown> }

/**
 * Measures the core figures, then the selected scenarios. Those that need a configuration or a
 * memory of their own run on separate services: small jobs and the soak start with new processes.
 * The peers run last, because no service consumes the rows that they produce, and the state Redis
 * alone, whose jobs are in no topic.
 */
export async function runBenchmark (stack: BenchStack, options: RunOptions): Promise<Report> {
  const { rows, soakMinutes, bareLoopMs, log, overrides, processes } = options
  const scale = { normalize: options.scale, verify: options.scale }
  const common = { rows, bareLoopMs, log }
  const onServices = <T>(measure: (context: BenchContext) => Promise<T>): Promise<T> =>
    withServices(stack, { scale, overrides, processes },
      running => measure({ ...running, ...common }))
  const report = await onServices(async context => ({
    ...await withoutRepeats(stack, log, () => measureCore(context)),
    ...await runScenarios(options, sharedScenarios(context)),
  }))
  const separate = await runScenarios(options, [
    {
      scenario: 'fairness',
      measure: () => withServices(
        stack, { scale, processes, overrides: { ...overrides, ...DEFAULT_LIMITS } },
        running => measureFairness({ ...running, ...common, env: stack.env })),
    },
    {
      scenario: 'recovery',
      measure: () => measureRecovery(stack, {
        overrides, log, entries: options.recoveryEntries, maxJobs: options.recoveryJobs,
      }),
    },
    {
      scenario: 'small',
      measure: async () => {
        const apiKey = await createFundedKey(stack.env)
        return await onServices(context => withoutRepeats(stack, log, () =>
          measureSmallJobs(context, { apiKey, seconds: options.smallSeconds })))
      },
    },
    {
      scenario: 'partners',
      measure: () => withoutRepeats(stack, log, () =>
        measurePartners(stack, { counts: options.partnerCounts, overrides, log })),
    },
    { scenario: 'soak', measure: () => onServices(context => measureSoak(context, soakMinutes)) },
    { scenario: 'peers', measure: () => measurePeers({ env: stack.env, overrides, ...common }) },
    { scenario: 'state', measure: () => measureState(stack, log) },
  ])
  return { ...report, ...separate }
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
function sharedScenarios (context: BenchContext): readonly Measurement[] {
  return [
    { scenario: 'growth', measure: () => measureGrowth(context) },
    { scenario: 'crowd', measure: () => measureCrowd(context) },
    { scenario: 'scaling', measure: () => measureScaling(context) },
    { scenario: 'webhooks', measure: () => measureWebhooks(context) },
    { scenario: 'email', measure: () => measureEmail(context) },
    { scenario: 'verifications', measure: () => measureVerifications(context) },
  ]
}

/** Runs the selected scenarios. A failed one is reported and does not discard the others. */
async function runScenarios (
  { scenarios, log }: RunOptions, all: readonly Measurement[]
): Promise<Partial<Pick<Report, Scenario>>> {
  const figures: Partial<Record<Scenario, unknown>> = {}
  for (const { scenario, measure } of all) {
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
