import { measureCore, type CoreFigures } from './core.ts'
import type { BenchOptions, Scenario } from './options.ts'
import { measureCrowd, type CrowdFigures } from './scenarios/crowd.ts'
import { measureEmail, type EmailFigures } from './scenarios/email.ts'
import { measureFairness, type FairnessFigures } from './scenarios/fairness.ts'
import { measureGrowth, type GrowthFigures } from './scenarios/growth.ts'
import { measureLists, type ListsFigures } from './scenarios/lists.ts'
import { measureMailboxes, type MailboxFigures } from './scenarios/mailboxes.ts'
import { measurePartners, type PartnersFigures } from './scenarios/partners.ts'
import { measurePeers, type PeersFigures } from './scenarios/peers.ts'
import { measureProvisional, type ProvisionalFigures } from './scenarios/provisional.ts'
import { measureRecovery, type RecoveryFigures } from './scenarios/recovery.ts'
import { measureScaling, type ScalingFigures } from './scenarios/scaling.ts'
import { measureSmallJobs, type SmallFigures } from './scenarios/small.ts'
import { measureSoak, type SoakFigures } from './scenarios/soak.ts'
import { measureState, type StateFigures } from './scenarios/state.ts'
import { measureVerifications, type VerificationFigures } from './scenarios/verifications.ts'
import { measureWebhooks, type WebhookFigures } from './scenarios/webhooks.ts'
import { measureWorkbooks, type WorkbookFigures } from './scenarios/workbooks.ts'
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
    {
      scenario: 'lists',
      measure: async () => {
        const apiKey = await createFundedKey(stack.env)
        const { REDIS_STATE_URL: redisUrl = '' } = stack.env
        return await onServices(context => measureLists(context, { apiKey, redisUrl }))
      },
    },
    { scenario: 'soak', measure: () => onServices(context => measureSoak(context, soakMinutes)) },
    { scenario: 'peers', measure: () => measurePeers({ env: stack.env, overrides, ...common }) },
    { scenario: 'state', measure: () => measureState(stack, log) },
    {
      scenario: 'mailboxes',
      measure: () => measureMailboxes(
        stack, { rows: Math.ceil(rows / 2), log, overrides }),
    },
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
    { scenario: 'provisional', measure: () => measureProvisional(context) },
    { scenario: 'workbooks', measure: () => measureWorkbooks(context) },
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

/** The figures of one run; those of scenarios that did not run are missing. */
export type Report = CoreFigures & {
  readonly growth?: GrowthFigures
  readonly crowd?: CrowdFigures
  readonly scaling?: ScalingFigures
  readonly webhooks?: WebhookFigures
  readonly email?: EmailFigures
  readonly verifications?: VerificationFigures
  readonly provisional?: ProvisionalFigures
  readonly fairness?: FairnessFigures
  readonly recovery?: RecoveryFigures
  readonly small?: SmallFigures
  readonly partners?: PartnersFigures
  readonly soak?: SoakFigures
  readonly peers?: PeersFigures
  readonly state?: StateFigures
  readonly mailboxes?: MailboxFigures
  readonly lists?: ListsFigures
  readonly workbooks?: WorkbookFigures
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
  /** A client of the first organization that does not retry. */
  readonly clientWithoutRetries: Client
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
