import { createOrganizations } from '../accounts/organizations.ts'
import { createJobStore } from '../jobs/store.ts'
import { connectParts } from '../lib/connect.ts'
import { runStage } from '../lib/engine.ts'
import { run } from '../lib/run.ts'
import { subscriptionsOf } from '../lib/topics.ts'
import { createJobWire } from '../records/job-wire.ts'
import { normalizeConfig } from './config.ts'
import { createNormalizeStage } from './stage.ts'
import { createTokenizer, readSecrets } from './token.ts'

await run('normalize', normalizeConfig, async (config, life) => {
  const parts = await connectParts(config, life, ['bus', 'codec', 'state', 'clock', 'gate'])
  const stage = createNormalizeStage({
    store: createJobStore(parts.state),
    clock: parts.clock,
    tokenize: createTokenizer(readSecrets(config.CACHE_SECRETS)),
    batch: config.BATCH_MESSAGES,
    onExpired: () => life.metrics.count('stage_expired_total', { stage: 'normalize' }),
  })
  const wire = createJobWire(parts, config)
  const subscriptions = subscriptionsOf('normalize', { lanes: config.LANES })
  const { policyNow } = createOrganizations(parts.state)
  const weightOf = (tenant: string) => policyNow(tenant).weight
  return await runStage(stage, { ...parts, wire, subscriptions, weightOf })
})
