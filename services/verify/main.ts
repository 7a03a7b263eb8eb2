import { createOrganizations } from '../accounts/organizations.ts'
import { ListsFolder } from '../jobs/lists-folder.ts'
import { createJobStore } from '../jobs/store.ts'
import { connectDeps, type Connections } from '../runtime/engine/connections.ts'
import { runStage } from '../runtime/engine/engine.ts'
import { sleep } from '../runtime/platform/retry.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { subscriptionsOf } from '../runtime/platform/topics.ts'
import { createJobMessageCodec } from '../jobs/connect-keys.ts'
import { redisRecordCache } from '../cache/cache.ts'
import { createChecker } from './checker.ts'
import { verifyConfig, type VerifyConfig } from './config.ts'
import { builtInLists, type CurrentLists, readEmailLists } from './providers/email-lists.ts'
import { factoriesOf, logDns, mailDomainsOf } from './provider-factories.ts'
import { createVerifyStage, type VerifyDeps } from './stage.ts'
import { createTasksInFlight, redisSubmissions, watchTasks } from './submissions.ts'

type Connected = Pick<Connections, 'state' | 'cache' | 'clock'> &
  Pick<ServiceContext, 'log' | 'metrics'>

/** What checks of e-mail addresses share; from the configuration if left out. */
type Shared = {
  readonly domains?: ReturnType<typeof mailDomainsOf>
  readonly lists?: CurrentLists
}

/**
 * The dependencies of the stage, from the configuration and open connections. Throws RangeError for
 * a provider that is not configured completely.
 */
export function verifyDeps (
  config: VerifyConfig, connected: Connected, { domains, lists }: Shared = {}
): VerifyDeps {
  const { state, cache, clock, log, metrics } = connected
  const tasks = createTasksInFlight()
  watchTasks(metrics, tasks, clock.now)
  return {
    store: createJobStore(state),
    submissionsOf: redisSubmissions(state, { ...config, clock }),
    tasks,
    cache: redisRecordCache(cache, { onFault: logCacheFault(log) }),
    check: createChecker({
      lists: config.PROVIDERS,
      secondLists: config.SECOND_OPINIONS,
      limits: limitsOf(config),
      metrics,
      factories: factoriesOf(config, domains, lists),
    }),
    clock,
    sleep,
    metrics,
    leaseMs: config.CHECK_LEASE_MS,
    leasePollMs: config.CHECK_LEASE_POLL_MS,
    concurrencyOf: service =>
      config.VERIFY_CONCURRENCY_BY_SERVICE[service] ?? config.VERIFY_CONCURRENCY,
    batch: config.VERIFY_BATCH_MESSAGES,
    retryDelayMs: config.RETRY_DELAY_MS,
    retryForMs: config.RETRY_DEADLINE_MS,
  }
}

function logCacheFault (log: Connected['log']): (error: unknown) => void {
  return (error) => {
    log.warn({ err: error }, 'cache Redis unavailable, contacts and domains count as not cached')
  }
}

function limitsOf (config: VerifyConfig) {
  const calls = config.PROVIDER_CALLS_PER_SECOND
  return {
    timeoutMs: config.PROVIDER_TIMEOUT_MS,
    attemptTimeoutMs: config.PROVIDER_ATTEMPT_TIMEOUT_MS,
    concurrency: config.PROVIDER_CONCURRENCY,
    retries: config.PROVIDER_RETRIES,
    breaker: {
      failingShare: config.PROVIDER_OPEN_PERCENT / 100,
      sampledMs: config.PROVIDER_SAMPLED_MS,
      openMs: config.PROVIDER_OPEN_MS,
    },
    ...(calls === 0 ? {} : { rate: { calls, perMs: 1_000 } }),
  }
}

/** Wires the stage and starts it. */
async function startVerify (
  config: VerifyConfig, context: ServiceContext
): Promise<Running> {
  const folder = await ListsFolder.open(config, context, readEmailLists)
  const lists = () => folder?.value ?? builtInLists
  const connected = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'cache', 'clock', 'gate', 'attempts',
  ])
  const messageCodec = createJobMessageCodec(connected, config)
  const subscriptions = subscriptionsOf('verify', {
    lanes: config.LANES, services: config.SERVICES,
  })
  const onFault = logCacheFault(context.log)
  const domains = mailDomainsOf(config, { redis: connected.cache, onFault, lists })
  logDns(domains, context.log).catch(context.fatal)
  const stage = createVerifyStage(verifyDeps(config, connected, { domains, lists }))
  const { cachedPolicy } = createOrganizations(connected.state)
  const weightOf = (tenant: string) => cachedPolicy(tenant).weight
  return await runStage(stage, { ...connected, messageCodec, subscriptions, weightOf })
}

export const verifyService = { config: verifyConfig, start: startVerify }

if (import.meta.main) await run('verify', verifyConfig, startVerify)
