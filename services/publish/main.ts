import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { createPartners } from '../accounts/partners.ts'
import { connectJobKeys, type JobKeys } from '../jobs/job-keys.ts'
import { createJobStore } from '../jobs/store.ts'
import { createMessageCodec } from '../jobs/message-codec.ts'
import { connectDeps, type Connections } from '../runtime/engine/connections.ts'
import { runStage } from '../runtime/engine/engine.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { subscriptionsOf, topicName } from '../runtime/platform/topics.ts'
import { createArchive } from '../jobs/results/archive.ts'
import { connectPartnerResults } from '../jobs/results/partner-results.ts'
import { createResultBlocks } from '../jobs/results/result-blocks.ts'
import { createResults } from '../jobs/results/results.ts'
import { publishConfig, type PublishConfig } from './config.ts'
import { createPublishProgress, createPublishStage, type PublishDeps } from './stage.ts'
import { closedKeys } from '../jobs/wrapped-keys.ts'

const TOPIC_CHECK_MS = 5_000
const STALLED_AFTER_MS = 2_000

type Connected = Pick<Connections, 'bus' | 'codec' | 'state' | 'clickhouse' | 'recordMac'> &
  Partial<Pick<Connections, 'gate'> & Pick<ServiceContext, 'metrics'>> &
  Pick<ServiceContext, 'log'> & { readonly keys: Pick<JobKeys, 'get'> }

/** The dependencies of the stage, from its configuration and open connections. */
export function publishDeps (config: PublishConfig, connected: Connected): PublishDeps {
  const { bus, codec, state, clickhouse, recordMac, keys, log, gate } = connected
  const store = createJobStore(state)
  const archive = createArchive(clickhouse, recordMac)
  const partners = createPartners({
    redis: state, keys: connectOrganizationKeys('partners', config, connected),
  })
  // A missing topic of an active partner may be an operator's mistake, so `publish` waits for it.
  const isDeleted = async (partner: string) => {
    const registered = await partners.find(partner)
    if (registered === undefined || registered.revokedAtMs === 0) return false
    return !(await bus.topicNames()).has(topicName('feeds.finished', { partner }))
  }
  return {
    partners,
    isDeleted,
    findJob: async (tenant, job) =>
      await store.read(tenant, job) ?? (await archive.find(tenant, job))?.job,
    findArchived: archive.find,
    results: createResults({ blocks: createResultBlocks(clickhouse), codec, keys }),
    progress: createPublishProgress(state),
    partnerResults: connectPartnerResults({ bus, codec }, 'publish'),
    topicCheckMs: TOPIC_CHECK_MS,
    batch: config.PUBLISH_BATCH_MESSAGES,
    gate,
    stalledAfterMs: STALLED_AFTER_MS,
    onRetry: (error, job) =>
      log.warn({ err: error, ...job }, 'publishing the results of a job failed, retrying'),
  }
}

/** Wires the stage and starts it. */
async function startPublish (
  config: PublishConfig, context: ServiceContext
): Promise<Running> {
  const connected = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'clickhouse', 'recordMac', 'gate', 'attempts',
  ])
  const keys = connectJobKeys(
    connected, config, { part: 'results', findClosed: closedKeys(connected) })
  const stage = createPublishStage(publishDeps(config, { ...connected, keys }))
  const messageCodec = createMessageCodec({ codec: connected.codec, keys })
  return await runStage(stage, {
    ...connected, messageCodec, subscriptions: subscriptionsOf('publish'),
  })
}

export const publishService = { config: publishConfig, start: startPublish }

if (import.meta.main) await run('publish', publishConfig, startPublish)
