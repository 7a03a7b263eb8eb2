import { connectDeps } from '../runtime/engine/connections.ts'
import { runStage } from '../runtime/engine/engine.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { subscriptionsOf } from '../runtime/platform/topics.ts'
import { createJobMessageCodec } from '../jobs/message-codec.ts'
import { createRepositories } from '../jobs/results/finish-job.ts'
import { settleConfig, type SettleConfig } from './config.ts'
import { SettleStage, FLUSH_EVERY_MS } from './stage.ts'

/** Wires the stage and starts it. */
async function startSettle (
  config: SettleConfig, context: ServiceContext
): Promise<Running> {
  const connected = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'clickhouse', 'recordMac', 'clock', 'gate', 'attempts',
  ])
  const messageCodec = createJobMessageCodec(connected, config)
  const repositories = createRepositories({ ...connected, messageCodec })
  const stage = () => new SettleStage({
    ...repositories,
    messageCodec,
    codec: connected.codec,
    clock: connected.clock,
    batch: config.SETTLE_BATCH_MESSAGES,
    batchBytes: config.INSERT_BATCH_BYTES,
  })
  const subscriptions = subscriptionsOf('settle', { lanes: config.LANES })
  return await runStage<'settle'>(stage, {
    ...connected, messageCodec, subscriptions, flushHeldMs: FLUSH_EVERY_MS, flushOnStop: true,
  })
}

export const settleService = { config: settleConfig, start: startSettle }

if (import.meta.main) await run('settle', settleConfig, startSettle)
