import { connectDeps } from '../engine/connections.ts'
import { runStage } from '../engine/engine.ts'
import { run, type Running, type ServiceContext } from '../platform/run.ts'
import { subscriptionsOf, type Subscription } from '../platform/topics.ts'
import { createJobMessageCodec } from '../jobs/connect-keys.ts'
import { createRepositories } from '../results/repositories.ts'
import { settleConfig, type SettleConfig } from './config.ts'
import {
  createRemainingRows, createSettleStage, MAX_BATCH_WAIT_MS, STORE_EVERY_MS,
} from './stage.ts'

/** Wires the stage and starts it. */
export async function startSettle (
  config: SettleConfig, context: ServiceContext
): Promise<Running> {
  const connected = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'clickhouse', 'recordMac', 'clock', 'gate',
  ])
  const messageCodec = createJobMessageCodec(connected, config)
  const { update, mayEndJob } = createRemainingRows()
  const stage = createSettleStage({
    ...createRepositories({ ...connected, messageCodec }),
    clock: connected.clock,
    onCounted: update,
    batch: config.SETTLE_BATCH_MESSAGES,
  })
  const subscriptions = subscriptionsOf('settle', { lanes: config.LANES })
  const fetchBatching = ({ lane = 'small' }: Subscription) => ({
    bytes: config.INSERT_BATCH_BYTES, maxWaitMs: MAX_BATCH_WAIT_MS[lane], isEnough: mayEndJob,
  })
  return await runStage(stage, {
    ...connected, messageCodec, subscriptions, fetchBatching, flushHeldMs: STORE_EVERY_MS,
  })
}

export const settleService = { config: settleConfig, start: startSettle }

if (import.meta.main) await run('settle', settleConfig, startSettle)
