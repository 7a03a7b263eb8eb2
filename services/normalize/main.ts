import { createTokenizer, readSecrets } from '../cache/tokens.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { createJobStore } from '../jobs/store.ts'
import { connectDeps } from '../runtime/engine/connections.ts'
import { runStage } from '../runtime/engine/engine.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { subscriptionsOf } from '../runtime/platform/topics.ts'
import { createJobMessageCodec } from '../jobs/message-codec.ts'
import { normalizeConfig, type NormalizeConfig } from './config.ts'
import { createNormalizeStage } from './stage.ts'

/** Wires the stage and starts it. */
async function startNormalize (
  config: NormalizeConfig, context: ServiceContext
): Promise<Running> {
  const deps = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'clock', 'gate', 'attempts',
  ])
  const stage = createNormalizeStage({
    store: createJobStore(deps.state),
    clock: deps.clock,
    tokenize: createTokenizer(readSecrets(config.CACHE_SECRETS)),
    batch: config.NORMALIZE_BATCH_MESSAGES,
    onExpired: () => context.metrics.count('stage_expired_total', { stage: 'normalize' }),
  })
  const messageCodec = createJobMessageCodec(deps, config)
  const subscriptions = subscriptionsOf('normalize', { lanes: config.LANES })
  const { cachedPolicy } = createOrganizations(deps.state)
  const weightOf = (tenant: string) => cachedPolicy(tenant).weight
  return await runStage(stage, { ...deps, messageCodec, subscriptions, weightOf })
}

export const normalizeService = { config: normalizeConfig, start: startNormalize }

if (import.meta.main) await run('normalize', normalizeConfig, startNormalize)
