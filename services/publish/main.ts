import type { JobKeys } from '../jobs/job-keys.ts'
import { createJobStore } from '../jobs/store.ts'
import { createWire } from '../jobs/wire.ts'
import { connectParts, type Parts } from '../lib/connect.ts'
import { runStage } from '../lib/engine.ts'
import { run } from '../lib/run.ts'
import { subscriptionsOf } from '../lib/topics.ts'
import { createArchive } from '../records/archive.ts'
import { closedKeys, connectJobKeys } from '../records/job-wire.ts'
import { connectPartnerResults } from '../records/partner-results.ts'
import { createResultBlocks } from '../records/result-blocks.ts'
import { createResults } from '../records/results.ts'
import { publishConfig, type PublishConfig } from './config.ts'
import { connectPartners } from './partners.ts'
import { createPublishStage, type PublishDeps } from './stage.ts'

const TOPIC_CHECK_MS = 5_000

type Connected = Pick<Parts, 'bus' | 'codec' | 'state' | 'clickhouse' | 'recordMac'> &
  { readonly keys: Pick<JobKeys, 'get'> }

/** The dependencies of the stage, from its configuration and open connections. */
export function publishDeps (config: PublishConfig, connected: Connected): PublishDeps {
  const { bus, codec, state, clickhouse, recordMac, keys } = connected
  const store = createJobStore(state)
  const archive = createArchive(clickhouse, recordMac)
  return {
    ...connectPartners(config, state),
    findJob: async (tenant, job) =>
      await store.read(tenant, job) ?? (await archive.find(tenant, job))?.job,
    findArchived: archive.find,
    results: createResults({ blocks: createResultBlocks(clickhouse), codec, keys }),
    partnerResults: connectPartnerResults({ bus, codec }, 'publish'),
    topicCheckMs: TOPIC_CHECK_MS,
    batch: config.BATCH_MESSAGES,
  }
}

if (import.meta.main) {
  await run('publish', publishConfig, async (config, context) => {
    const connected = await connectParts(config, context, [
      'bus', 'codec', 'state', 'clickhouse', 'recordMac', 'gate',
    ])
    const keys = connectJobKeys(connected, config, closedKeys(connected))
    const stage = createPublishStage(publishDeps(config, { ...connected, keys }))
    const wire = createWire({ codec: connected.codec, keys })
    return await runStage(stage, { ...connected, wire, subscriptions: subscriptionsOf('publish') })
  })
}
