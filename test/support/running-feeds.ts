import { feedConfig } from '../../services/feed/config.ts'
import { startFeeds, type Feeds } from '../../services/feed/feeds.ts'
import { feedsParts } from '../../services/feed/parts.ts'
import type { Connected } from '../../services/feed/partner-parts.ts'
import { handbackConfig } from '../../services/handback/config.ts'
import type { Submission, Submitted } from '../../services/jobs/submit.ts'
import { loadConfig } from '../../services/lib/config.ts'
import { createLog } from '../../services/lib/log.ts'
import { createMetrics } from '../../services/lib/metrics.ts'

type Env = Readonly<Record<string, string>>

/** `asked`: every job that the feeds asked for. */
export type RunningFeeds = Feeds & { readonly asked: readonly Submission[] }

/** Both services of feeds as they are configured, with short pauses. */
export function configs (env: Env) {
  const short = { BATCH_AGE_MS: '50', PARTNERS_EVERY_MS: '50' }
  return {
    feed: loadConfig(feedConfig, { ...env, ...short }), handback: loadConfig(handbackConfig, env),
  }
}

/** The feeds of all partners, before a pipeline that takes every contact at once. */
export function runFeeds (
  env: Env, connected: Omit<Connected, 'log' | 'metrics'>
): RunningFeeds {
  const asked: Submission[] = []
  const submitter = {
    submit: async (submission: Submission): Promise<Submitted> => {
      asked.push(submission)
      return { kind: 'accepted', job: undefined as never, replayed: false }
    },
    quote: async () => { throw new Error('nobody asks for a quote') },
  }
  const around = { log: createLog('test', { level: 'silent' }), metrics: createMetrics() }
  const fatal = (error: unknown) => { throw error }
  const parts = feedsParts(configs(env).feed, { ...connected, ...around }, { submitter, fatal })
  return { ...startFeeds(parts), asked }
}
