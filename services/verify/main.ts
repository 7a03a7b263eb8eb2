import { createOrganizations } from '../accounts/organizations.ts'
import { connectParts } from '../lib/connect.ts'
import { runStage } from '../lib/engine.ts'
import { run } from '../lib/run.ts'
import { subscriptionsOf } from '../lib/topics.ts'
import { createJobWire } from '../records/job-wire.ts'
import { verifyConfig } from './config.ts'
import { verifyParts } from './parts.ts'
import { createVerifyStage } from './stage.ts'

await run('verify', verifyConfig, async (config, life) => {
  const parts = await connectParts(config, life, [
    'bus', 'codec', 'state', 'cache', 'clock', 'gate',
  ])
  const wire = createJobWire(parts, config)
  const subscriptions = subscriptionsOf('verify', {
    lanes: config.LANES, services: config.SERVICES,
  })
  const stage = createVerifyStage(verifyParts(config, parts))
  const { policyNow } = createOrganizations(parts.state)
  const weightOf = (tenant: string) => policyNow(tenant).weight
  return await runStage(stage, { ...parts, wire, subscriptions, weightOf })
})
