import { connectParts } from '../lib/connect.ts'
import { run } from '../lib/run.ts'
import { feedConfig } from './config.ts'
import { startFeeds } from './feeds.ts'
import { feedsParts } from './parts.ts'
import { connectSubmitter } from './submitter.ts'

await run('feed', feedConfig, async (config, life) => {
  const connected = await connectParts(config, life, ['bus', 'codec', 'state', 'clock', 'gate'])
  const submitter = await connectSubmitter(config, connected, life)
  const parts = feedsParts(config, connected, { submitter, fatal: life.fatal })
  const feeds = startFeeds(parts)
  life.metrics.watch('stage_held_messages', { stage: 'feed', group: 'feed' }, parts.held.taken)
  for (const state of ['running', 'paused', 'failing'] as const) {
    life.metrics.watch('feed_partners', { state }, () => feeds.count(state))
  }
  return feeds
})
