import { connectDeps, openSubscriber } from '../engine/connections.ts'
import { runStage } from '../engine/engine.ts'
import { run, type Running, type ServiceContext } from '../platform/run.ts'
import { subscriptionsOf } from '../platform/topics.ts'
import { createJobMessageCodec } from '../jobs/connect-keys.ts'
import { ledgerConfig, type LedgerConfig } from './config.ts'
import { copyDeps } from './copy-deps.ts'
import { connectErasing } from './erase-deps.ts'
import { startLeader } from './leader-election.ts'
import { leaderDeps } from './leader-deps.ts'
import { startLeaderTasks } from './leader-tasks.ts'
import { meteredJournal, watchSystem } from './meters.ts'
import { reapDeps } from './deps.ts'
import { createLedgerStage } from './stage.ts'
import { startReaper } from './reaper.ts'

/**
 * No client waits for the copy, and each insert has a fixed cost. Messages take many times their
 * compressed bytes.
 */
const FETCH_BYTES = 64 * 1_024
const FETCH_BATCHING = { bytes: FETCH_BYTES, maxPartitionBytes: FETCH_BYTES, maxWaitMs: 1_000 }

/** Wires the stage and starts it. */
async function startLedger (
  config: LedgerConfig, context: ServiceContext
): Promise<Running> {
  const connected = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'cache', 'clickhouse', 'recordMac', 'clock',
  ])
  const deps = { ...connected, messageCodec: createJobMessageCodec(connected, config) }
  const journal = meteredJournal(deps)
  watchSystem(config, { ...context, ...deps, journal })
  const reaperDeps = reapDeps(config, { ...deps, ...context })
  const subscriber = openSubscriber(deps.state, context)
  const leader = startLeader({ ...leaderDeps(config, deps, reaperDeps), subscriber })
  context.onStop(() => leader.stop())
  const erasing = connectErasing(config, {
    ...reaperDeps, ...deps, isLeader: leader.isLeader,
  })
  context.onStop(erasing.stop)
  context.onStop(startLeaderTasks(config, { ...deps, journal, isLeader: leader.isLeader }))
  const stage = () => createLedgerStage(copyDeps(config, { ...deps, journal }))
  const subscriptions = subscriptionsOf('ledger')
  const running = await runStage<'ledger'>(stage, {
    ...deps, subscriptions, fetchBatching: () => FETCH_BATCHING,
  })
  const { ready, stop } = startReaper(
    running, { ...reaperDeps, isLeader: leader.isLeader }, config.REAP_EVERY_MS)
  return { ready: () => ready() && leader.ready(), stop }
}

export const ledgerService = { config: ledgerConfig, start: startLedger }

if (import.meta.main) await run('ledger', ledgerConfig, startLedger)
