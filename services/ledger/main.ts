import { connectParts } from '../lib/connect.ts'
import { runStage } from '../lib/engine.ts'
import { run } from '../lib/run.ts'
import { subscriptionsOf } from '../lib/topics.ts'
import { createJobKeyCopy } from '../records/job-key-copy.ts'
import { createJobWire } from '../records/job-wire.ts'
import { ledgerConfig } from './config.ts'
import { startExporting } from './head-export.ts'
import { startLeading } from './leading.ts'
import { leadingParts } from './leading-parts.ts'
import { meteredJournal, watchSystem } from './meters.ts'
import { exportParts, sweepParts } from './parts.ts'
import { createLedgerStage } from './stage.ts'
import { startSweeping } from './sweeping.ts'

/** Nobody waits for the copy, and each insert has its price. */
const GATHER = { bytes: 64 * 1_024, withinMs: 1_000 }

await run('ledger', ledgerConfig, async (config, life) => {
  const parts = await connectParts(config, life, [
    'bus', 'codec', 'state', 'clickhouse', 'recordMac', 'clock',
  ])
  const wire = createJobWire(parts, config)
  const journal = meteredJournal(parts)
  watchSystem(config, { ...life, ...parts, journal })
  const sweep = sweepParts(config, { ...parts, wire, fatal: life.fatal })
  const subscriber = parts.state.duplicate({ autoResubscribe: true })
  subscriber.on('error', () => {})
  life.onStop(() => subscriber.disconnect())
  const leading = startLeading({ ...leadingParts(config, { ...parts, wire }, sweep), subscriber })
  life.onStop(() => leading.stop())
  const { JOURNAL_HEAD_TARGET: target } = config
  if (target !== undefined) {
    const exported = { ...parts, journal, leads: leading.leads }
    const exporting = startExporting(exportParts({ ...config, target }, exported))
    life.onStop(exporting.stop)
  }
  const keys = createJobKeyCopy(parts.clickhouse, parts.recordMac)
  const stage = () => createLedgerStage({ journal, keys, batch: config.BATCH_MESSAGES })
  const subscriptions = subscriptionsOf('ledger')
  const running = await runStage<'ledger'>(stage, {
    ...parts, wire, subscriptions, gather: () => GATHER,
  })
  const { ready, stop } = startSweeping(running, sweep, config.SWEEP_EVERY_MS)
  return { ready: () => ready() && leading.ready(), stop }
})
