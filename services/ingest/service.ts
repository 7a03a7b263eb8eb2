import { createApiKeys } from '../accounts/api-keys.ts'
import { createJobStore } from '../jobs/store.ts'
import { connectParts } from '../lib/connect.ts'
import type { Life, Running } from '../lib/run.ts'
import { closedKeys, connectJobKeys } from '../records/job-wire.ts'
import { connectAdmission } from './admission-parts.ts'
import type { Config } from './config.ts'
import { isUnavailable, requestSecretOf } from './key-ring.ts'
import { limiterOf } from './limits/settings.ts'
import { queuePreflights } from './preflight-queue.ts'
import { createReader } from './reader.ts'
import { serve } from './serve.ts'
import { createSubmission } from './submission.ts'

/** Connects everything the interface stands on and listens. */
export async function startIngest (
  settings: Config, life: Life, connect = connectParts
): Promise<Running> {
  const shared = await connect(settings, life, [
    'bus', 'codec', 'state', 'cache', 'clickhouse', 'recordMac', 'clock',
  ])
  const { state, clock } = shared
  const store = createJobStore(state)
  const keys = connectJobKeys(shared, settings, closedKeys(shared))
  const { admission, rule } = connectAdmission(shared, settings)
  const limiter = limiterOf(shared, settings)
  const reader = createReader({ ...shared, store, keys })
  const { findArchived } = reader
  const submission = await createSubmission({
    ...shared, store, findArchived, keys, settings, life,
  })
  const submitter = queuePreflights(admission.watch(submission), {
    maxPreflights: settings.MAX_PREFLIGHTS,
    maxRows: settings.MAX_PREFLIGHT_ROWS,
    waitMs: settings.ACCEPT_WITHIN_MS,
    limiter,
  })
  const parts = {
    findKey: createApiKeys(state).findKey,
    limiter,
    admission: rule,
    submit: submitter.submit,
    quote: submitter.quote,
    readJob: store.read,
    cancel: store.cancel,
    ...reader,
    isInfrastructure: isUnavailable,
    now: clock.now,
  }
  const requestSecret = await requestSecretOf(state, settings)
  await serve(parts, { ...settings, requestSecret }, life)
  return { ready: () => state.status === 'ready' }
}
