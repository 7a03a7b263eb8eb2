import { createAccessLog } from '../accounts/access-log/access-log.ts'
import { createApiKeys } from '../accounts/api-keys.ts'
import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import type { OrganizationKeys } from '../accounts/organization-keys.ts'
import { ContactLists } from '../accounts/contact-lists.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import {
  connectJobKeys, createNewJobKeys, type JobKeys, type NewJobKeys, sharedKeyCache,
} from '../jobs/job-keys.ts'
import { createErasures, type ErasureRequest, requestErasure } from '../jobs/erasures.ts'
import { JobWaiter, OutcomeWaiter, subscribeToJobs } from '../jobs/job-waiter.ts'
import { ListsFolder } from '../jobs/lists-folder.ts'
import { createMessageCodec } from '../jobs/message-codec.ts'
import { watchReferenceData } from '../jobs/reference-data.ts'
import { createArchive, readUsage } from '../jobs/results/archive.ts'
import { ProvisionalResults } from '../jobs/results/provisional.ts'
import { createResultBlocks } from '../jobs/results/result-blocks.ts'
import { createResults } from '../jobs/results/results.ts'
import {
  createSampleRows, toRateLimits, RequestLimiter, EventStreams, createTenantGate,
} from './limits/limiter.ts'
import { LoadShedding, queuePreflights } from './limits/preflights.ts'
import { createJobStore, type JobStore } from '../jobs/store.ts'
import { createSubmitter, startLiveness } from '../jobs/submit.ts'
import { createJournalCopy } from '../money/journal.ts'
import { createWallet } from '../money/wallet.ts'
import { connectDeps, type Connections, openSubscriber } from '../runtime/engine/connections.ts'
import { createEmitter } from '../runtime/engine/stage.ts'
import { watchJobPartitions } from '../runtime/platform/topics.ts'
import { explainListenError } from '../runtime/platform/http-server.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { createDeliveries, createDeliveryHistory } from '../webhooks/deliveries.ts'
import { createWebhookEndpoints } from '../webhooks/endpoints.ts'
import { activeOrFirst, createWebhookSigningKeys, publicKeyText } from '../webhooks/secrets.ts'
import { countRequests, createApp } from './app.ts'
import { type Config, ingestConfig, toSettings } from './config.ts'
import { findStoredResults, openJobHeader, readOpenJobs } from './find-jobs.ts'
import type { IngestDeps } from './deps.ts'
import { apiDocuments } from './routes.ts'
import { listenTls } from './tls.ts'
import { closedKeys } from '../jobs/wrapped-keys.ts'

/** Connects all dependencies of the interface and listens. */
async function startIngest (
  config: Config, context: ServiceContext, connect = connectDeps
): Promise<Running> {
  const { log, metrics } = context
  // Only the versions are shown here: `verify` reads the lists.
  const folder = await ListsFolder.open(config, context, async () => {})
  const lists = () => folder?.manifest
  watchReferenceData(metrics, lists)
  const shared = await connect(config, context, [
    'bus', 'codec', 'state', 'cache', 'clickhouse', 'recordMac', 'clock',
  ])
  const { state, cache, clock } = shared
  const store = createJobStore(state)
  const keys = connectJobKeys(
    shared, config, { part: 'results', findClosed: closedKeys(shared) })
  const { cachedOrgPolicy } = createOrganizations(state)
  const limits = (org: string) => toRateLimits(config, cachedOrgPolicy(org))
  const limiter = new RequestLimiter({ cache, limits, log, metrics })
  const { waiter, ...submitting } = await connectSubmitter({
    ...shared, store, limiter, keys: { ...keys, ...connectNewJobKeys(shared, config) },
  }, config, context)
  const erasing = { redis: state, producer: shared.bus.producer('ingest.erasures'), clock }
  const eventStreams = new EventStreams({
    capacity: config.MAX_EVENT_STREAMS, maxPerName: config.MAX_EVENT_STREAMS_PER_TENANT,
  })
  metrics.watch('event_streams', {}, () => eventStreams.total)
  const apiKeys = createApiKeys(state)
  const deps = {
    eventStreams,
    findKey: apiKeys.findKey,
    findExistingKeys: apiKeys.findExisting,
    limiter,
    accessLog: createAccessLog(state),
    ...submitting,
    takeSample: createSampleRows(state, {
      maxRows: config.SAMPLE_ROWS_PER_DAY,
      onTaken: rows => metrics.count('sample_rows_total', {}, rows),
    }),
    metrics,
    readRecentJob: store.read,
    waitingRows: store.waitingRows,
    waitForJob: waiter.wait.bind(waiter),
    cancel: store.cancel,
    erase: (request: ErasureRequest) => requestErasure(erasing, request),
    lists,
    contactLists: new ContactLists({
      redis: state, keys: connectOrganizationKeys('results', config, shared),
    }),
    ...connectQueries({ ...shared, store, keys }),
    ...connectWebhooks(shared, connectOrganizationKeys('webhooks', config, shared)),
    now: clock.now,
  }
  await serve(deps, config, context)
  // Answers requests that wait for a job before the listener waits for its requests.
  const stop = async () => {
    eventStreams.stop()
    waiter.stop()
  }
  return { ready: () => state.status === 'ready', stop }
}

export const ingestService = { config: ingestConfig, start: startIngest }

/** Data keys of new jobs, which those who seal their rows find in the cache. */
function connectNewJobKeys (
  shared: Omit<IngestConnections, 'store'>, config: Config
): NewJobKeys {
  return createNewJobKeys({
    results: connectOrganizationKeys('results', config, shared),
    webhooks: connectOrganizationKeys('webhooks', config, shared),
  }, sharedKeyCache(shared.state))
}

/**
 * The connection to the pipeline: producers by lane, and one subscriber for the outcomes of
 * requests and the changes of jobs. A job waits its turn, is watched by load shedding, and is then
 * submitted.
 */
async function connectSubmitter (
  { bus, codec, state, clickhouse, recordMac, clock, store, keys, limiter }: IngestConnections & {
    readonly keys: JobKeys & NewJobKeys
    readonly limiter: RequestLimiter
  },
  config: Config, context: ServiceContext
) {
  const notifications = await subscribeToJobs(openSubscriber(state, context))
  const findArchived = createArchive(clickhouse, recordMac).find
  const outcomes = new OutcomeWaiter({ store, findArchived, notifications, clock })
  context.onStop(() => outcomes.stop())
  const liveness = await startLiveness(state)
  context.onStop(() => liveness.stop())
  const messageCodec = createMessageCodec({ codec, keys })
  const submitter = createSubmitter({
    store,
    keys,
    emitter: createEmitter({ messageCodec, producerOf: bus.producer }),
    outcomes,
    clock,
    liveness,
    tokenVersion: config.CACHE_SECRET_ACTIVE,
    acceptWithinMs: config.ACCEPT_WITHIN_MS,
    partitionsOf: watchJobPartitions(bus),
  })
  const loadShedding = new LoadShedding({
    state, metrics: context.metrics, overloadedAfterMs: config.SHED_LOAD_AFTER_MS,
  })
  const submit = queuePreflights(loadShedding.watch(submitter), {
    maxPreflights: config.MAX_PREFLIGHTS,
    maxRows: config.MAX_PREFLIGHT_ROWS,
    waitMs: config.ACCEPT_WITHIN_MS,
    limiter,
  })
  const { MAX_WAITS: maxWaits, MAX_WAITS_PER_TENANT: maxWaitsPerTenant } = config
  const waiter = new JobWaiter({ store, notifications, maxWaits, maxWaitsPerTenant })
  context.metrics.watch('requests_waiting', {}, () => waiter.waits)
  context.metrics.watch('requests_waiting_limit', {}, () => maxWaits)
  const { inlineResultsOf } = notifications
  return { submit, loadShedding, waiter, inlineResultsOf }
}

/** The queries of the routes: jobs, results, balance and usage. */
function connectQueries (
  { clickhouse, recordMac, codec, keys, state, store }: IngestConnections & {
    readonly keys: JobKeys
  }
) {
  const archive = createArchive(clickhouse, recordMac)
  const gate = createTenantGate()
  const reading = { blocks: createResultBlocks(clickhouse), codec, keys }
  const results = createResults(reading)
  const provisional = new ProvisionalResults(reading)
  return {
    findArchived: archive.find,
    findResults: (tenant, job) => findStoredResults({ store, archive }, tenant, job),
    findErasures: createErasures(state).find,
    listArchived: archive.list,
    openJobs: tenant => readOpenJobs(store, tenant),
    openHeader: job => openJobHeader(keys, job),
    balance: createWallet(state).balance,
    usage: (tenant, options) => gate(tenant, () => readUsage(archive, tenant, options)),
    transactions: createJournalCopy(clickhouse, recordMac).readNewest,
    readWithManifest: store.readWithManifest,
    provisionalRows: (position, options) => provisional.open(position, options),
    rows: results.rows,
    csvStream: results.csvStream,
  } satisfies Partial<IngestDeps>
}

/** The webhook endpoints of organizations, and the deliveries to them and of jobs. */
function connectWebhooks (
  { clickhouse, recordMac, state, clock }: Omit<IngestConnections, 'store'>,
  organizationKeys: OrganizationKeys
) {
  const deliveries = createDeliveries(state)
  const history = createDeliveryHistory(clickhouse, recordMac)
  const secured = { redis: state, keys: organizationKeys, now: clock.now }
  const signingKeys = createWebhookSigningKeys(secured)
  return {
    endpoints: createWebhookEndpoints(secured),
    webhookKeys: async orgId => (await activeOrFirst(signingKeys, orgId)).map(publicKeyText),
    listAttempts: history.list,
    listEndpointAttempts: history.listOfEndpoint,
    findDelivery: deliveries.find,
    resend: deliveries.resend,
  } satisfies Partial<IngestDeps>
}

type IngestConnections = Omit<Connections, 'cache' | 'gate' | 'attempts'> & {
  readonly store: JobStore
}

/** Listens on the plain port and, with a certificate, on the TLS port, until the process stops. */
async function serve (
  deps: IngestDeps, config: Config, { log, metrics, onStop }: ServiceContext
): Promise<void> {
  const app = createApp({ deps, settings: toSettings(config), log, connection: config })
  countRequests(app, metrics)
  await apiDocuments()
  const stops: (() => Promise<void>)[] = [() => app.close()]
  // Each waits for its pending requests, so they stop concurrently.
  onStop(() => Promise.all(stops.map(stop => stop())))
  await app.listen({ host: config.HOST, port: config.PORT_HTTP }).catch((error: unknown) => {
    throw explainListenError(error, 'PORT_HTTP')
  })
  const tls = await listenTls(app, { settings: config, log })
  if (tls !== undefined) stops.push(tls.stop)
}

if (import.meta.main) await run('ingest', ingestConfig, startIngest)
