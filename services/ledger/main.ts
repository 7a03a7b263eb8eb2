import { randomUUID } from 'node:crypto'
import {
  AccessShipper, createAccessHead, createAccessOutbox,
} from '../accounts/access-log/access-log.ts'
import { createAccessCopy } from '../accounts/access-log/copy.ts'
import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { createSubscriptions } from '../webhooks/endpoints.ts'
import { redisRecordCache } from '../cache/cache.ts'
import { createTokenizer, readSecrets } from '../cache/tokens.ts'
import { connectDeps, openSubscriber } from '../runtime/engine/connections.ts'
import { createEmitter } from '../runtime/engine/stage.ts'
import { runStage } from '../runtime/engine/engine.ts'
import { createJobMessageCodec } from '../jobs/message-codec.ts'
import { createDeliveryHistory } from '../webhooks/deliveries.ts'
import { createErasures, createJobKeyEraser } from '../jobs/erasures.ts'
import { createJobKeyCopy } from '../jobs/wrapped-keys.ts'
import { createAdminClient } from '../runtime/kafka/client.ts'
import { kafkaConnectionOf } from '../runtime/kafka/connection.ts'
import { lagsOf, TOPOLOGY_GROUPS } from '../runtime/kafka/admin.ts'
import { createMessageMac, reportForged } from '../runtime/kafka/message-mac.ts'
import { createTopicReader } from '../runtime/kafka/topic-reader.ts'
import { createHeadsCodec, createJournalCopy } from '../money/journal.ts'
import { createTenants } from '../money/tenants.ts'
import { isInfrastructure } from '../runtime/platform/errors.ts'
import { retry, sleep } from '../runtime/platform/retry.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { subscriptionsOf, topicName } from '../runtime/platform/topics.ts'
import { createRepositories } from '../jobs/results/finish-job.ts'
import { ledgerConfig, type LedgerConfig } from './config.ts'
import { createCachedErasure, startErasing } from './erase-jobs.ts'
import { createHeadTarget, startHeadExport } from './head-export.ts'
import { Leader, type LeaderDeps } from './leader-election.ts'
import {
  countMovements, watchAccessLog, watchGaps, watchLag, watchMoney, watchOutboxes, watchStores,
} from './meters.ts'
import { createBacklog, Owners, Takeover, type TakeoverDeps } from './takeover.ts'
import { createRecoveryStore } from './recovery-store.ts'
import { createLedgerStage, openCopies } from './stage.ts'

/**
 * No client waits for the copy, and each insert has a fixed cost. Messages take many times their
 * compressed bytes.
 */
const FETCH_BYTES = 64 * 1_024
const FETCH_BATCHING = { bytes: FETCH_BYTES, maxPartitionBytes: FETCH_BYTES, maxWaitMs: 1_000 }

/** Starts the stage, and what the leading ledger does beside it. */
async function startLedger (
  config: LedgerConfig, context: ServiceContext
): Promise<Running> {
  const connected = await connect(config, context)
  const { clock } = connected
  watchSystem(config, connected)
  const readOffsets = openOffsets(config, connected)
  const takeover = new Takeover(takeoverDeps(config, connected, readOffsets))
  const leader = new Leader(leaderDeps(config, connected, readOffsets))
  context.onStop(() => leader.stop())
  const isLeader = () => leader.isLeader()
  context.onStop(connectErasing(config, connected, isLeader).stop)
  context.onStop(startExports(config, connected, isLeader))
  const stage = () => createLedgerStage({
    ...openCopies(connected),
    clock,
    batch: config.LEDGER_BATCH_MESSAGES,
    copyAfterMs: config.COPY_AFTER_MS,
  })
  const running = await runStage<'ledger'>(stage, {
    ...connected, subscriptions: subscriptionsOf('ledger'), fetchBatching: () => FETCH_BATCHING,
  })
  takeover.start({ isLeader, fatal: context.fatal, everyMs: config.REAP_EVERY_MS })
  return {
    ready: () => takeover.ready() && running.ready() && leader.ready(),
    stop: async () => {
      await Promise.all([takeover.stop(), running.stop()])
    },
  }
}

/** The connections of the process, and the stores on them. */
async function connect (config: LedgerConfig, context: ServiceContext) {
  const connections = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'cache', 'clickhouse', 'recordMac', 'clock',
  ])
  const { bus, state, clickhouse, recordMac, metrics } = connections
  const messageCodec = createJobMessageCodec(connections, config)
  return {
    ...context,
    ...connections,
    messageCodec,
    ...createRepositories({ ...connections, messageCodec }),
    emitter: createEmitter({ messageCodec, producerOf: bus.producer }),
    tenants: createTenants(state),
    journal: countMovements(createJournalCopy(clickhouse, recordMac), metrics),
    accessCopy: createAccessCopy(clickhouse, recordMac),
    accessHead: createAccessHead(state),
    accessOutbox: createAccessOutbox(state),
    subscriber: openSubscriber(state, context),
  }
}

type Connected = Awaited<ReturnType<typeof connect>>

/** The ledger's groups, limited to the journal topic. */
const LEDGERS = TOPOLOGY_GROUPS.filter(({ stage }) => stage === 'ledger')
  .map(group => ({ ...group, topics: [topicName('wallet.journal')] }))

/** Reports metrics of the whole system: outboxes, sums of wallets, lag of groups, stores. */
function watchSystem (config: LedgerConfig, connected: Connected): void {
  const { state: redis, accessOutbox, accessHead, accessCopy } = connected
  watchOutboxes({ ...connected, redis })
  watchMoney({ ...connected, redis })
  const adminClient =
    createAdminClient(kafkaConnectionOf(config), `ledger.${config.INSTANCE}.lag`)
  connected.onStop(adminClient.close)
  watchLag({ ...connected, adminClient })
  watchStores({ ...connected, adminClient, durability: config.STATE_DURABILITY })
  const lags = () => adminClient.use(admin => lagsOf(admin, LEDGERS))
  watchGaps({ ...connected, redis, lags })
  watchAccessLog({ ...connected, outbox: accessOutbox, head: accessHead, copy: accessCopy })
}

/** A coordinator that has just moved answers late. */
const OFFSET_TRIES = 10

/** Reads the committed offsets and lags of consumer groups by their names. */
function openOffsets (config: LedgerConfig, { onStop }: Connected) {
  const admin = createAdminClient(kafkaConnectionOf(config), `ledger.${config.INSTANCE}.owners`)
  onStop(admin.close)
  return (groups: readonly string[]) => admin.use(client =>
    lagsOf(client, TOPOLOGY_GROUPS.filter(({ group }) => groups.includes(group))))
}

type ReadOffsets = ReturnType<typeof openOffsets>

function takeoverDeps (
  config: LedgerConfig, connected: Connected, readOffsets: ReadOffsets
): TakeoverDeps {
  const connection = kafkaConnectionOf(config)
  return {
    ...connected,
    redis: connected.state,
    backlog: createBacklog({
      connection, clientId: `ledger.${config.INSTANCE}`, clock: connected.clock,
    }),
    owners: new Owners({
      readOffsets: groups => retry(OFFSET_TRIES, () => readOffsets(groups),
        { when: isInfrastructure, maxMs: 1_000 }),
      now: () => performance.now(),
    }),
    orphanAgeMs: config.ORPHAN_AGE_MS,
    stalledAfterMs: config.STALLED_AFTER_MS,
  }
}

const DELIVER_GROUPS =
  TOPOLOGY_GROUPS.filter(({ stage }) => stage === 'deliver').map(({ group }) => group)

function leaderDeps (
  config: LedgerConfig, connected: Connected, readOffsets: ReadOffsets
): LeaderDeps {
  const { bus, state: redis, clickhouse, recordMac } = connected
  const name = `ledger.${config.INSTANCE}`
  const recoveryStore = createRecoveryStore(redis)
  return {
    ...connected,
    redis,
    sleep,
    accountsProducer: bus.producer('accounts'),
    recoveryStore,
    servers: recoveryStore.servers,
    reader: createTopicReader({
      ...kafkaConnectionOf(config),
      clientId: `${name}.recovery`,
      mac: createMessageMac(config, reportForged(connected)),
    }),
    history: createDeliveryHistory(clickhouse, recordMac),
    subscriptions: createSubscriptions(redis),
    // Without retries: the leader asks again at its next check.
    deliverLags: () => readOffsets(DELIVER_GROUPS),
    // Unique per process, as two processes may be configured with the same name.
    name: `${name}.${randomUUID()}`,
    graceMs: config.LEADER_GRACE_MS,
    leaseMs: config.LEADER_LEASE_MS,
    pollMs: config.LEADER_POLL_MS,
    checkEveryMs: config.CHECK_EVERY_MS,
    snapshotEveryMs: config.SNAPSHOT_EVERY_MS,
    snapshotBehindMs: config.SNAPSHOT_BEHIND_MS,
  }
}

/** Starts to erase requested jobs. */
function connectErasing (config: LedgerConfig, connected: Connected, isLeader: () => boolean) {
  const { bus, state: redis, cache, clickhouse, recordMac, codec, clock } = connected
  const keyCopy = createJobKeyCopy(clickhouse, recordMac)
  const { read } = createTopicReader({
    ...kafkaConnectionOf(config),
    clientId: `ledger.${config.INSTANCE}.erasures`,
    mac: createMessageMac(config),
  })
  const keys = createJobKeyEraser({
    redis, keyCopy, codec, read, producer: bus.producer('ledger.erasures'), now: clock.now,
  })
  const eraseCached = createCachedErasure({
    ...connected,
    keyCopy,
    keys,
    organizationKeys: connectOrganizationKeys('results', config, { state: redis }),
    tokenize: createTokenizer(readSecrets(config.CACHE_SECRETS)),
    cache: redisRecordCache(cache),
  })
  return startErasing({
    ...connected,
    isLeader,
    erasures: createErasures(redis),
    keys,
    eraseCached,
    everyMs: config.ERASE_EVERY_MS,
  })
}

/** Ships the access log, and exports journal heads if they have a target. Returns the stop. */
function startExports (
  config: LedgerConfig, connected: Connected, isLeader: () => boolean
): () => Promise<void> {
  const { state: redis, bus, accessOutbox } = connected
  const shipping = new AccessShipper({
    ...connected, outbox: accessOutbox, producer: bus.producer('access-log'),
  }).start(isLeader)
  const exporting = config.JOURNAL_HEAD_TARGET === undefined
    ? undefined
    : startHeadExport({
      ...connected,
      isLeader,
      redis,
      codec: createHeadsCodec(config),
      target: createHeadTarget(config.JOURNAL_HEAD_TARGET),
      everyMs: config.JOURNAL_HEAD_EVERY_MS,
    })
  return async () => {
    await Promise.all([shipping.stop(), exporting?.stop()])
  }
}

export const ledgerService = { config: ledgerConfig, start: startLedger }

if (import.meta.main) await run('ledger', ledgerConfig, startLedger)
