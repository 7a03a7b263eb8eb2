import { feedConfig } from '../../services/feed/config.ts'
import { feedDeps, type Connected } from '../../services/feed/main.ts'
import { startPartnerFeeds, type PartnerFeeds } from '../../services/feed/partner-feeds.ts'
import { publishConfig } from '../../services/publish/config.ts'
import type { Submitted } from '../../services/jobs/submit.ts'
import type { Submission } from '../../services/jobs/send.ts'
import { loadConfig } from '../../services/platform/config.ts'
import { createLog } from '../../services/platform/log.ts'
import { createMetrics } from '../../services/platform/metrics.ts'

type Env = Readonly<Record<string, string>>

/** `requested`: every job that the feeds requested. */
export type RunningFeeds = PartnerFeeds & { readonly requested: readonly Submission[] }

/** The configuration of `feed` and `publish`, with short pauses. */
export function configs (env: Env) {
  const short = { FEED_BATCH_AGE_MS: '50', PARTNERS_POLL_MS: '50' }
  return {
    feed: loadConfig(feedConfig, { ...env, ...short }), publish: loadConfig(publishConfig, env),
  }
}

/** The feeds of all partners, with a pipeline that accepts every job at once. */
export function runFeeds (
  env: Env, connected: Omit<Connected, 'log' | 'metrics' | 'fatal' | 'submitter'>
): RunningFeeds {
  const requested: Submission[] = []
  const submitter = {
    submit: async (submission: Submission): Promise<Submitted> => {
      requested.push(submission)
      return { kind: 'accepted', job: undefined as never, replayed: false }
    },
    quote: async () => { throw new Error('a feed requested a quote') },
  }
  const deps = feedDeps(configs(env).feed, {
    ...connected,
    log: createLog('test', { level: 'silent' }),
    metrics: createMetrics(),
    submitter,
    fatal: error => { throw error },
  })
  return { ...startPartnerFeeds(deps), requested }
}
