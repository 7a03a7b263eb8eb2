import { feedConfig } from '../../../services/feed/config.ts'
import { feedDeps, type Connected } from '../../../services/feed/main.ts'
import { startPartnerFeeds } from '../../../services/feed/partner-feeds.ts'
import { publishConfig } from '../../../services/publish/config.ts'
import type { Submission, SubmitOutcome } from '../../../services/jobs/submit.ts'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { createLog } from '../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'

type Env = Readonly<Record<string, string>>

export type RunningFeeds = ReturnType<typeof startPartnerFeeds> & {
  /** Every job that the pipeline accepted. */
  readonly requested: readonly Submission[]
  /** The partners whose feed was stopped because they were revoked. */
  readonly revoked: readonly string[]
}

/** The configuration of `feed` and `publish`, with short pauses. */
export function configs (env: Env) {
  const short = {
    FEED_BATCH_AGE_MS: '50',
    PARTNERS_POLL_MS: '50',
    FEED_PAUSE_AFTER_MS: '100',
    FEED_PAUSE_POLL_MS: '50',
  }
  return {
    feed: loadConfig(feedConfig, { ...env, ...short }), publish: loadConfig(publishConfig, env),
  }
}

const accepted = { kind: 'accepted', replayed: false, job: { id: 'job_1' } } as SubmitOutcome

/** The feeds of all partners, with a pipeline that answers at once: by default it accepts all. */
export function runFeeds (
  env: Env, connected: Omit<Connected, 'log' | 'metrics' | 'fatal' | 'submit'>,
  answer: (submission: Submission) => SubmitOutcome = () => accepted
): RunningFeeds {
  const requested: Submission[] = []
  const submit = async (submission: Submission): Promise<SubmitOutcome> => {
    const answered = answer(submission)
    if (answered.kind === 'accepted') requested.push(submission)
    return answered
  }
  const revoked: string[] = []
  const log = createLog('test', { level: 'silent' })
  log.info = ({ partner = '' }: { readonly partner?: string }, message?: string) => {
    if (message === 'partner revoked, feed stopped') revoked.push(partner)
  }
  const deps = feedDeps(configs(env).feed, {
    ...connected,
    log,
    metrics: createMetrics(),
    submit,
    fatal: error => { throw error },
  })
  return { ...startPartnerFeeds(deps), requested, revoked }
}
