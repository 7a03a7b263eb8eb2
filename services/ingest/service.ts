import { createAccessLog } from '../accounts/access-log/access-log.ts'
import { createApiKeys } from '../accounts/api-keys.ts'
import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { type ErasureRequest, requestErasure } from '../jobs/erasures.ts'
import { ListsFolder } from '../jobs/lists-folder.ts'
import { watchReferenceData } from '../jobs/reference-data.ts'
import { createJobStore } from '../jobs/store.ts'
import { connectDeps } from '../runtime/engine/connections.ts'
import type { Running, ServiceContext } from '../runtime/platform/run.ts'
import { closedKeys, connectJobKeys, connectNewJobKeys } from '../jobs/connect-keys.ts'
import { connectLoadShedding } from './load-shedding.ts'
import type { Config } from './config.ts'
import { limiterOf } from './limits/limiter.ts'
import { queuePreflights } from './preflight-queue.ts'
import { createQueries } from './queries.ts'
import { isRecoverable, serve } from './serve.ts'
import { connectSubmitter } from './connect-submitter.ts'

/** Connects all dependencies of the interface and listens. */
export async function startIngest (
  settings: Config, context: ServiceContext, connect = connectDeps
): Promise<Running> {
  // Only the versions are shown here: `verify` reads the lists.
  const folder = await ListsFolder.open(settings, context, async () => {})
  const lists = () => folder?.manifest
  watchReferenceData(context.metrics, lists)
  const shared = await connect(settings, context, [
    'bus', 'codec', 'state', 'cache', 'clickhouse', 'recordMac', 'clock',
  ])
  const { state, clock } = shared
  const store = createJobStore(state)
  const keys = connectJobKeys(
    shared, settings, { part: 'results', findClosed: closedKeys(shared) })
  const { admission, rule } = connectLoadShedding(shared, settings)
  const limiter = limiterOf(shared, settings)
  const webhookKeys = connectOrganizationKeys('webhooks', settings, shared)
  const queries = createQueries({ ...shared, store, keys, webhookKeys })
  const { findArchived } = queries
  const { submission, waiter, attachedTo } = await connectSubmitter({
    ...shared,
    store,
    findArchived,
    keys: { ...keys, ...connectNewJobKeys(shared, settings) },
    settings,
    context,
  })
  const submitter = queuePreflights(admission.watch(submission), {
    maxPreflights: settings.MAX_PREFLIGHTS,
    maxRows: settings.MAX_PREFLIGHT_ROWS,
    waitMs: settings.ACCEPT_WITHIN_MS,
    limiter,
  })
  const erasing = { redis: state, producer: shared.bus.producer('ingest.erasures'), clock }
  const deps = {
    findKey: createApiKeys(state).findKey,
    limiter,
    accessLog: createAccessLog(state),
    admission: rule,
    submit: submitter.submit,
    quote: submitter.quote,
    readJob: store.read,
    waitForJob: waiter.wait,
    attachedTo,
    cancel: store.cancel,
    erase: (request: ErasureRequest) => requestErasure(erasing, request),
    lists,
    ...queries,
    isInfrastructure: isRecoverable,
    now: clock.now,
  }
  await serve(deps, settings, context)
  // Answers requests that wait for a job before the listener waits for its requests.
  return { ready: () => state.status === 'ready', stop: async () => waiter.stop() }
}
