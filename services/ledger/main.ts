import { randomUUID } from 'node:crypto'
import type { EventType } from '../../schemas/api/webhooks.ts'
import type { Journal } from '../../schemas/types.ts'
import {
  AccessShipper, createAccessHead, createAccessOutbox, type NumberedEntry,
} from '../accounts/access-log/access-log.ts'
import { createAccessCopy } from '../accounts/access-log/copy.ts'
import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { redisRecordCache } from '../cache/cache.ts'
import { createTokenizer, readSecrets } from '../cache/tokens.ts'
import { createErasures, createJobKeyEraser } from '../jobs/erasures.ts'
import { checkLowBalance } from '../jobs/job.ts'
import { createJobMessageCodec } from '../jobs/message-codec.ts'
import { createRepositories } from '../jobs/results/finish-job.ts'
import { type CopiedKey, createJobKeyCopy } from '../jobs/wrapped-keys.ts'
import { readReserveTerms } from '../money/entry-reason.ts'
import { createHeadsCodec, createJournalCopy } from '../money/journal.ts'
import { createTenants } from '../money/wallet.ts'
import { connectDeps, type Connections, openSubscriber } from '../runtime/engine/connections.ts'
import { runStage } from '../runtime/engine/engine.ts'
import {
  createEmitter, type Decision, type Emission, HeldMessages, type Incoming, type Stage,
} from '../runtime/engine/stage.ts'
import { fetchLags, TOPOLOGY_GROUPS } from '../runtime/kafka/admin.ts'
import type { RawMessage } from '../runtime/kafka/bus.ts'
import { createAdminClient } from '../runtime/kafka/client.ts'
import { toKafkaConnection } from '../runtime/kafka/connection.ts'
import { createMessageMac, reportForged } from '../runtime/crypto/mac.ts'
import { createTopicReader } from '../runtime/kafka/topic-reader.ts'
import { batchWrites } from '../runtime/platform/batch-writes.ts'
import { FatalError, InfrastructureError, isInfrastructure } from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import { type Clock, retry, sleep } from '../runtime/platform/retry.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { listSubscriptions, topicName } from '../runtime/platform/topics.ts'
import { type Lane, type ReadsOf, topology } from '../topology.ts'
import { createDeliveryHistory } from '../webhooks/deliveries.ts'
import { ledgerConfig, type LedgerConfig } from './config.ts'
import { createCachedErasure, startErasing } from './erase-jobs.ts'
import { createHeadTarget, startHeadExport } from './head-export.ts'
import { Leader, type LeaderDeps } from './leader-election.ts'
import {
  countMovements, watchAccessLog, watchGaps, watchLag, watchMoney, watchOutboxes, watchStores,
} from './meters.ts'
import { createRecoveryStore } from './recovery-store.ts'
import { createBacklog, Owners, Takeover, type TakeoverDeps } from './takeover.ts'
import { createOrganizations } from '../accounts/organizations.ts'

type Append<T> = { readonly append: (items: readonly T[]) => Promise<unknown> }

type LedgerDeps = {
  readonly journal: Append<Journal>
  readonly keys: Append<CopiedKey>
  readonly access: Append<NumberedEntry>
  /** Redis time. */
  readonly clock: Clock
  /** Messages per call of `decide`, and those of a partition that are copied without delay. */
  readonly batch: number
  /** How long messages are collected for one insert. */
  readonly copyAfterMs: number
}

/**
 * Copies the journal, the wrapped data keys of jobs and the access log to ClickHouse. Entries
 * arrive more than once and out of order. Each is signed with its seq, so that readers can order
 * them and detect missing ones, and no entry waits for another. The same holds for keys. No client
 * waits for the copy, and each insert has a fixed cost: so messages are held, and their offsets are
 * committed once they are stored. Emits the events of accepted jobs to `jobs.events` at once.
 */
export function createLedgerStage (deps: LedgerDeps): Stage<'ledger'> {
  const { clock, batch, copyAfterMs } = deps
  const held = new HeldMessages<Incoming<Read>>()
  const copy = async (partition: Partition): Promise<Decision<'ledger'>> => {
    const messages = held.of(partition)
    await append(deps, messages)
    failpoint('ledger.appended')
    held.remove(messages.map(({ raw }) => raw))
    return { completes: messages, emits: [] }
  }
  return {
    name: 'ledger',
    batch,
    decide: async messages => {
      const nowMs = clock.now()
      for (const message of messages) held.add(message, nowMs)
      const emits = messages.filter(isFrom('wallet.journal'))
        .flatMap(({ value }) => eventsOfEntry(value, nowMs))
      const [first] = messages
      if (first === undefined || held.of(first.raw).length < batch) {
        return [{ completes: [], emits }]
      }
      return [{ ...await copy(first.raw), emits }]
    },
    // All partitions are due together, so that they can share an insert.
    flushHeld: async partition =>
      held.of(partition).length > 0 && clock.now() - held.sinceMs() >= copyAfterMs
        ? [await copy(partition)]
        : [],
    resolveDead: async ({ tenant = 'unknown' }, { topic, partition, offset, reason }) => {
      // Readers find a key that is not copied in its topic.
      if (topic === topicName('job.keys')) return []
      throw new FatalError(`cannot decode ${topic}[${partition}] at offset ${offset} (tenant ` +
        `${tenant}, ${reason}): ledger stops, because a skipped entry would be missing in ` +
        'ClickHouse; see RestartLoop in the runbook')
    },
    forget: () => held.clear(),
  }
}

async function append (
  { journal, keys, access }: LedgerDeps, messages: readonly Incoming<Read>[]
): Promise<void> {
  const entries = messages.filter(isFrom('wallet.journal')).map(({ value }) => value)
  const jobKeys = messages.filter(isFrom('job.keys')).map(({ value, raw }) =>
    ({ ...value, createdMs: raw.timestampMs }))
  if (entries.length > 0) {
    await inserting(`${entries.length} journal entries`, () => journal.append(entries))
  }
  if (jobKeys.length > 0) {
    await inserting(`${jobKeys.length} job keys`, () => keys.append(jobKeys))
  }
  const actions = messages.filter(isFrom('access.log')).map(({ value, raw }) =>
    ({ ...value, seq: Number(raw.offset) + 1 }))
  if (actions.length > 0) {
    await inserting(`${actions.length} entries of the access log`, () => access.append(actions))
  }
}

/** Retried without end, as a dropped entry would be missing in the copy for ever. */
async function inserting (what: string, insert: () => Promise<unknown>): Promise<void> {
  try {
    await insert()
  } catch (cause) {
    throw new InfrastructureError(`insert of ${what} into ClickHouse failed`, { cause })
  }
}

type Partition = Pick<RawMessage, 'topic' | 'partition'>

type Read = ReadsOf<'ledger'>

const isFrom = <T extends Read>(topic: T) =>
  (message: Incoming<Read>): message is Incoming<T> => message.topic === topic

/** An older entry is read again, long after its events were sent. */
const MAX_AGE_MS = topology.topics['jobs.events'].keepHours * 3_600_000

/**
 * The events that the reservation of a job causes: `job.accepted` if an endpoint was subscribed to
 * it, and `balance.low` if it took the available balance below the threshold. Both follow from the
 * entry alone, which the script that moved the money wrote and which reaches the journal whatever
 * crashes; so an event is never lost, and a repeated entry repeats the same event.
 */
function eventsOfEntry (
  entry: Journal, nowMs: number
): readonly Emission<'jobs.events'>[] {
  const terms = readReserveTerms(entry)
  if (terms === undefined || entry.at < nowMs - MAX_AGE_MS) return []
  const { lane, events = '', lowBalanceMicros } = terms
  const low = lowBalanceMicros === undefined
    ? undefined
    : checkLowBalance({
      thresholdMicros: Number(lowBalanceMicros),
      reservedMicros: entry.amountMicros,
      availableMicros: entry.availableMicros,
    })
  const types: EventType[] = [
    ...events.split(' ').includes('job.accepted') ? ['job.accepted'] as const : [],
    ...low === undefined ? [] : ['balance.low'] as const,
  ]
  const { tenant, job, at } = entry
  return types.map(type => ({
    topic: 'jobs.events',
    lane: lane as Lane,
    value: { tenant, job, type, tenth: 0, at },
    rows: undefined,
  }))
}

/** The tables that the stage copies to; the partitions of a topic share an insert. */
export function openCopies (
  { journal, accessCopy, accessHead, clickhouse, recordMac }:
  Pick<Connections, 'clickhouse' | 'recordMac'> & {
    readonly journal: Append<Journal>
    readonly accessCopy: Append<NumberedEntry>
    readonly accessHead: { readonly advance: (seq: number) => Promise<unknown> }
  }
): Pick<LedgerDeps, 'journal' | 'keys' | 'access'> {
  return {
    journal: { append: batchWrites(journal.append) },
    keys: { append: batchWrites(createJobKeyCopy(clickhouse, recordMac).append) },
    access: {
      append: async entries => {
        await accessCopy.append(entries)
        await accessHead.advance(Math.max(...entries.map(({ seq }) => seq)))
      },
    },
  }
}

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
    ...connected, subscriptions: listSubscriptions('ledger'), fetchBatching: () => FETCH_BATCHING,
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
    ...createRepositories(connections),
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
    createAdminClient(toKafkaConnection(config), `ledger.${config.INSTANCE}.lag`)
  connected.onStop(adminClient.close)
  watchLag({ ...connected, adminClient })
  watchStores({ ...connected, adminClient, durability: config.STATE_DURABILITY })
  const lags = () => adminClient.use(admin => fetchLags(admin, LEDGERS))
  watchGaps({ ...connected, redis, lags })
  watchAccessLog({ ...connected, outbox: accessOutbox, head: accessHead, copy: accessCopy })
}

/** A coordinator that has just moved answers late. */
const OFFSET_TRIES = 10

/** Reads the committed offsets and lags of consumer groups by their names. */
function openOffsets (config: LedgerConfig, { onStop }: Connected) {
  const admin = createAdminClient(toKafkaConnection(config), `ledger.${config.INSTANCE}.owners`)
  onStop(admin.close)
  return (groups: readonly string[]) => admin.use(client =>
    fetchLags(client, TOPOLOGY_GROUPS.filter(({ group }) => groups.includes(group))))
}

type ReadOffsets = ReturnType<typeof openOffsets>

function takeoverDeps (
  config: LedgerConfig, connected: Connected, readOffsets: ReadOffsets
): TakeoverDeps {
  const connection = toKafkaConnection(config)
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
      ...toKafkaConnection(config),
      clientId: `${name}.recovery`,
      mac: createMessageMac(config, reportForged(connected)),
    }),
    history: createDeliveryHistory(clickhouse, recordMac),
    subscriptions: createOrganizations(redis).subscriptions,
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
    ...toKafkaConnection(config),
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
