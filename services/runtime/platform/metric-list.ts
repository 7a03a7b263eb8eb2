import {
  ENGINE_STAGES, ENGINE_STEPS, KEY_CLASSES, LANES, PAUSABLE_STAGES, SERVICE_SLUGS, STAGES,
  type StageName,
} from '../../topology.ts'
import { listSubscriptions } from './topics.ts'

type Labels = Readonly<Record<string, string>>
type Values = Readonly<Record<string, readonly string[]>>

/** A metric, and where it comes from. */
export type MetricDefinition = {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly labels: readonly string[]
  readonly help: string
  /** The services that report it. */
  readonly by: readonly StageName[]
  /**
   * The possible values of its labels other than `stage`. A counter that appears with its first
   * event hides that event from `rate` and `increase`, so all series that are known in advance
   * start at 0.
   */
  readonly values?: Values | readonly Values[]
  /** The values are the lanes and services that the stage subscribes to. */
  readonly bySubscription?: true
  /** The values are the topics that the stage subscribes to. */
  readonly byTopic?: true
  /** Its panel; boards list those that stand before these or show more of it. */
  readonly panel?: MetricPanel
}

/** A panel at the end of a section of a dashboard, in the order of the metrics. */
type MetricPanel = PanelLook & {
  /** The title of the section, which no other dashboard has. */
  readonly section: string
}

export type PanelLook = {
  readonly title: string
  /** Columns of the 24 that the page has; a third of it when left out. */
  readonly width?: number
  /** One number instead of a graph. */
  readonly stat?: true
  /** Labels that tell the lines apart. */
  readonly by?: readonly string[]
  /** More of the selector, as `lane="small"`. */
  readonly where?: string
  /** How gauges of several processes become one; those that all tell the same need no sum. */
  readonly sum?: true
  /** The count over the time that is looked at instead of a rate. */
  readonly inAll?: true
}

type About = Omit<MetricDefinition, 'name' | 'type' | 'labels'>
const metric = <T extends MetricDefinition['type'], Name extends string = string>(type: T) =>
  <const N extends Name, const L extends readonly string[], const A extends About>(
    name: N, labels: L, about: A
  ) => ({ name, type, labels, ...about })
const counter = metric<'counter', `${string}_total`>('counter')
const gauge = metric<'gauge'>('gauge')
const histogram = metric<'histogram'>('histogram')

const FAILURE_REASONS = [
  'status', 'redirect', 'timeout', 'dns_error', 'blocked_address', 'tls_error',
  'connection_error', 'proxy_error', 'internal',
] as const
/** The tables of ClickHouse whose rows are signed. */
export const RECORD_TABLES = ['jobs', 'journal', 'deliveries', 'job_keys', 'access_log'] as const
const ROOT_KEY_CALL = { provider: ['aws-kms', 'vault'], action: ['encrypt', 'decrypt'] } as const
const MODES = ['live', 'test'] as const

/** All metrics: the one source of dashboards, alerts and documents. */
export const METRICS = [
  gauge('service_ready', ['stage'], {
    by: STAGES,
    help: '1 while the stage is ready; /readyz reports whether all stages of the process are.',
  }),
  counter('stage_rows_total', ['stage', 'lane', 'service'], {
    by: ENGINE_STAGES,
    help: 'Rows of processed messages.',
    bySubscription: true,
    panel: {
      section: 'Work',
      title: 'Rows',
      by: ['stage', 'lane', 'service'],
      where: 'stage=~"$stage"',
      width: 12,
    },
  }),
  counter('stage_chunks_total', ['stage', 'lane', 'service'], {
    by: ENGINE_STAGES,
    help: 'Processed messages.',
    bySubscription: true,
    panel: {
      section: 'Work',
      title: 'Messages',
      by: ['stage', 'lane', 'service'],
      where: 'stage=~"$stage"',
      width: 12,
    },
  }),
  gauge('stage_oldest_age_seconds', ['stage', 'group'], {
    by: ENGINE_STAGES,
    help: 'Age of the oldest message that is fetched and not yet processed; 0 when idle. One ' +
      'that is to wait ages from the time when it is due. Scale and shed load by this.',
  }),
  gauge('stage_held_messages', ['stage', 'group'], {
    by: [...ENGINE_STAGES, 'feed'],
    help: 'Messages in memory that wait for others; their offsets are not committed.',
    panel: {
      section: 'How far behind',
      title: 'Messages held',
      by: ['group'],
      where: 'stage=~"$stage"',
      sum: true,
    },
  }),
  histogram('stage_step_seconds', ['stage', 'step'], {
    by: ENGINE_STAGES,
    help: 'Duration of each step of the engine.',
    values: { step: ENGINE_STEPS },
  }),
  counter('stage_dead_letters_total', ['stage', 'cause'], {
    by: ENGINE_STAGES,
    help: 'Messages sent to the dead-letter topic: unreadable, failed, decided, lacking ' +
      'a key, or ending their process.',
    values: { cause: ['unreadable', 'failed', 'decided', 'missing_key', 'poison'] },
  }),
  counter('stage_messages_skipped_total', ['stage', 'reason'], {
    by: ENGINE_STAGES,
    help: 'Messages that are skipped: tombstones, messages of erased jobs, and forged ones.',
    values: { reason: ['tombstone', 'no_key', 'forged'] },
  }),
  counter('messages_forged_total', ['topic'], {
    by: ENGINE_STAGES,
    help: 'Messages without a valid signature of MESSAGE_KEYS, which are skipped.',
    byTopic: true,
  }),
  counter('records_forged_total', ['table'], {
    by: ['ingest', 'settle', 'deliver', 'publish', 'ledger'],
    help: 'Records in ClickHouse without a valid MAC, which are skipped.',
    values: { table: RECORD_TABLES },
  }),
  counter('stage_expired_total', ['stage'], {
    by: ['normalize'],
    help: 'Messages dropped after their deadline, before their job was accepted.',
    values: {},
    panel: { section: 'Time and trouble', title: 'Expired messages', by: ['stage'] },
  }),
  counter('stage_retries_total', ['stage', 'step', 'cause'], {
    by: ENGINE_STAGES,
    help: 'Retried steps: after an infrastructure error or another failure.',
    values: [
      { step: ENGINE_STEPS, cause: ['infrastructure'] }, { step: ['decide'], cause: ['failure'] },
    ],
  }),
  gauge('stage_blocked', ['stage', 'group'], {
    by: ENGINE_STAGES,
    help: 'Partitions that are stalled by an infrastructure error.',
  }),
  gauge('stage_paused', ['stage'], {
    by: PAUSABLE_STAGES,
    help: '1 while operators have paused the stage: it starts nothing, and its messages wait.',
  }),
  gauge('consumer_lag_messages', ['stage', 'group', 'topic', 'partition'], {
    by: ['ledger'],
    help: 'Consumer lag of a group, as known by the brokers, and so even for groups without a ' +
      'running member.',
  }),
  gauge('consumer_offset', ['stage', 'group', 'topic', 'partition'], {
    by: ['ledger'],
    help: 'Committed offset of a group. If it does not change while messages wait, no working ' +
      'member owns the partition.',
  }),
  counter('key_unwraps_total', ['class', 'by'], {
    by: STAGES,
    help: 'Keys that were unwrapped, by class of root keys: by a root key (a key of an ' +
      'organization, once per process), or by the key of an organization (of a job or a webhook).',
    values: { class: KEY_CLASSES, by: ['root', 'organization'] },
  }),
  counter('root_key_calls_total', ['class', 'provider', 'action', 'outcome'], {
    by: STAGES,
    help: 'Calls of AWS KMS or Vault for root keys: ok, failed (unavailable, throttled, denied), ' +
      'or invalid (bytes, context or key do not match).',
    values: { class: KEY_CLASSES, ...ROOT_KEY_CALL, outcome: ['ok', 'failed', 'invalid'] },
  }),
  histogram('root_key_call_seconds', ['provider', 'action'], {
    by: STAGES,
    help: 'Duration of calls of AWS KMS or Vault for root keys, failed ones as well.',
    values: ROOT_KEY_CALL,
  }),
  counter('cache_lookups_total', ['service', 'outcome'], {
    by: ['lookup'],
    help: 'Rows looked up in the cache: found, even if too old, or missing, even if it is down.',
    values: { service: SERVICE_SLUGS, outcome: ['found', 'missing'] },
    panel: { section: 'Time and trouble', title: 'Cache', by: ['outcome'] },
  }),
  counter('provider_checks_total', ['service', 'provider', 'outcome'], {
    by: ['verify'],
    help: 'Rows checked live, by the number of the provider: valid, invalid, risky, unknown, ' +
      'retry (checked again later) or the kind of failure.',
  }),
  histogram('provider_call_seconds', ['service', 'provider'], {
    by: ['verify'],
    help: 'Duration of calls to a provider, by its number.',
    panel: {
      section: 'Providers',
      title: 'Duration of calls',
      by: ['service', 'provider'],
      where: 'service=~"$service"',
      width: 16,
    },
  }),
  gauge('provider_circuit_open', ['provider'], {
    by: ['verify'],
    help: '1 while the circuit breaker of a provider, by its number, is open.',
    panel: { section: 'Providers', title: 'Open circuits', by: ['provider'] },
  }),
  counter('verification_batches_retried_total', ['service'], {
    by: ['verify'],
    help: 'Verification batches retried later because no provider was available.',
    values: { service: SERVICE_SLUGS },
    panel: { section: 'Providers', title: 'Retried batches', by: ['service'] },
  }),
  gauge('vendor_tasks', ['service', 'provider'], {
    by: ['verify'],
    help: 'Tasks of vendors that take batches, by the number of the provider, which this process ' +
      'has submitted or asked for and which have not ended.',
    panel: {
      section: 'Providers',
      title: 'Tasks of batches',
      by: ['service', 'provider'],
      sum: true,
    },
  }),
  gauge('vendor_task_oldest_seconds', ['service', 'provider'], {
    by: ['verify'],
    help: 'Age of the oldest of these tasks, since it was submitted.',
    panel: { section: 'Providers', title: 'Oldest task of a batch', by: ['service', 'provider'] },
  }),
  gauge('mailbox_rows_waiting', ['owner'], {
    by: ['verify'],
    help: 'Rows in this process that wait for the mail servers of an owner: one with a policy, ' +
      'or `other`.',
    panel: { section: 'Mail servers', title: 'Rows that wait', by: ['owner'], sum: true },
  }),
  counter('mailbox_sessions_total', ['owner', 'ending'], {
    by: ['verify'],
    help: 'Sessions with mail servers, by the owner of the servers and how they ended.',
    panel: { section: 'Mail servers', title: 'Sessions that ended', by: ['owner', 'ending'] },
  }),
  histogram('mailbox_session_seconds', ['owner'], {
    by: ['verify'],
    help: 'Duration of sessions with mail servers, by the owner of the servers.',
    panel: { section: 'Mail servers', title: 'Duration of sessions', by: ['owner'] },
  }),
  counter('mailbox_recipients_total', ['owner', 'reply'], {
    by: ['verify'],
    help: 'Replies of mail servers to recipients: about the mailbox, about us, or neither.',
    panel: { section: 'Mail servers', title: 'Replies to recipients', by: ['owner', 'reply'] },
  }),
  gauge('mailbox_egress_recipients_per_minute', ['owner', 'egress'], {
    by: ['verify'],
    help: 'Recipients that may be asked in a minute of the mail servers of one owner from one ' +
      'egress, as learnt by all processes together: owners with a policy, and the ten others ' +
      'that were asked most.',
    panel: { section: 'Mail servers', title: 'Recipients a minute', by: ['owner', 'egress'] },
  }),
  gauge('mailbox_egress_sessions', ['owner', 'egress'], {
    by: ['verify'],
    help: 'Sessions with mail servers of all processes together.',
    panel: { section: 'Mail servers', title: 'Open sessions', by: ['owner', 'egress'] },
  }),
  gauge('mailbox_egress_resting_seconds', ['owner', 'egress'], {
    by: ['verify'],
    help: 'How long an egress rests at an owner that blocked or limited it; 0 while it may ask.',
    panel: { section: 'Mail servers', title: 'Egresses that rest', by: ['owner', 'egress'] },
  }),
  gauge('mailbox_egress_recent_recipients', ['owner', 'egress', 'outcome'], {
    by: ['verify'],
    help: 'Recipients with a reply, in this hour and the one before, of all processes ' +
      'together, by outcome: verdict, block or other (greylisted, busy).',
  }),
  counter('http_requests_total', ['method', 'route', 'status'], {
    by: ['ingest'],
    help: 'HTTP requests.',
  }),
  histogram('http_request_seconds', ['method', 'route'], {
    by: ['ingest'],
    help: 'Duration of HTTP requests until the response.',
    panel: {
      section: 'REST interface',
      title: 'Duration of creating a job',
      where: 'method="POST",route=~".*/jobs"',
    },
  }),
  gauge('preflight_oldest_age_seconds', ['lane'], {
    by: ['ingest'],
    help: 'How long the oldest pending request of this process has waited for its preflight.',
  }),
  gauge('reference_data_age_seconds', ['data'], {
    by: ['ingest'],
    help: 'Time since the publication of the data that verdicts rest on.',
    panel: { section: 'Preflights', title: 'Age of data', by: ['data'] },
  }),
  gauge('lists_refused', ['stage'], {
    by: ['ingest', 'verify'],
    help: '1 while renewed lists in LISTS_DIR are not valid and the earlier ones are in use.',
    panel: { section: 'Preflights', title: 'Lists refused', by: ['stage'] },
  }),
  gauge('preflight_overloaded', ['lane'], {
    by: ['ingest'],
    help: '1 while new requests of the lane are rejected because others wait too long.',
  }),
  counter('preflight_refusals_total', ['lane'], {
    by: ['ingest'],
    help: 'Requests rejected because others wait too long for their preflight: small, bulk, or ' +
      'any when both lanes are overloaded.',
    values: { lane: [...LANES, 'any'] },
    panel: { section: 'Preflights', title: 'Refused requests', by: ['lane'] },
  }),
  counter('estimates_total', ['outcome'], {
    by: ['ingest'],
    help: 'Quotes with a sample, by the outcome of their estimate: completed, running, or why ' +
      'there is none.',
    values: {
      outcome: [
        'completed', 'running', 'too_few_contacts', 'daily_limit', 'temporarily_unavailable',
        'unavailable',
      ],
    },
    panel: { section: 'Preflights', title: 'Estimates', by: ['outcome'] },
  }),
  counter('sample_rows_total', [], {
    by: ['ingest'],
    help: 'Rows of samples that are verified free; providers may charge for them.',
    panel: { section: 'Preflights', title: 'Rows verified free' },
  }),
  gauge('requests_waiting', [], {
    by: ['ingest'],
    help: 'Requests of this process that wait for a job to change or end.',
  }),
  gauge('requests_waiting_limit', [], {
    by: ['ingest'],
    help: 'MAX_WAITS: the most requests of this process that may wait; more are answered at once.',
  }),
  gauge('event_streams', [], {
    by: ['ingest'],
    help: 'Open event streams of jobs in this process; at most MAX_EVENT_STREAMS.',
    panel: { section: 'REST interface', title: 'Open event streams' },
  }),
  counter('limits_local_total', [], {
    by: ['ingest'],
    help: 'Requests admitted by the local rate limits of an instance, because the cache Redis ' +
      'did not respond.',
  }),
  gauge('outbox_entries', [], {
    by: ['ledger'],
    help: 'Outbox entries that are not yet shipped.',
  }),
  gauge('outbox_oldest_seconds', [], {
    by: ['ledger'],
    help: 'Age of the oldest outbox entry that is not yet shipped; 0 when there is none.',
  }),
  gauge('accounts_outbox_entries', [], {
    by: ['ledger'],
    help: 'Accounts whose last change the topic accounts has not acknowledged.',
  }),
  gauge('access_log_oldest_seconds', [], {
    by: ['ledger'],
    help: 'Age of the oldest entry that the topic access.log has not acknowledged; 0 when there ' +
      'is none.',
  }),
  gauge('access_log_entries_missing', [], {
    by: ['ledger'],
    help: 'Entries of the access log that were copied to ClickHouse and are not there any more.',
  }),
  gauge('erasures_pending', ['phase'], {
    by: ['ledger'],
    help: 'Erasures of jobs that are not complete, by phase: requested (the key is still in ' +
      'Redis) or compacting (in the topic job.keys).',
  }),
  gauge('erasure_oldest_seconds', [], {
    by: ['ledger'],
    help: 'Age of the oldest erasure that is not complete; 0 without one.',
  }),
  gauge('jobs_stalled', [], {
    by: ['ledger'],
    help: 'Open jobs without progress for so long that they are failed, unless rows still wait.',
    panel: { section: 'Jobs', title: 'Stalled jobs' },
  }),
  gauge('journal_head_age_intervals', [], {
    by: ['ledger'],
    help: 'Age of the last export of the journal heads, in multiples of JOURNAL_HEAD_EVERY_MS; ' +
      'reported by the leader if JOURNAL_HEAD_TARGET is set.',
    panel: { section: 'Journal and recovery', title: 'Age of the exported journal head' },
  }),
  gauge('journal_entries_missing', [], {
    by: ['ledger'],
    help: 'Entries that are permanently missing from the copy of the journal: lost from the ' +
      'topic, or removed from the copy.',
  }),
  gauge('tenants_frozen', [], {
    by: ['ledger'],
    help: 'Tenants whose money cannot be explained and does not move; reported by the leader.',
  }),
  gauge('tenants_waiting', [], {
    by: ['ledger'],
    help: 'Tenants whose money does not move until it is compared with the journal after a ' +
      'restart of Redis, as far as the leader knows them yet.',
  }),
  gauge('organizations_without_keys', [], {
    by: ['ledger'],
    help: 'Organizations that were not erased and whose keys neither Redis nor the topic has, so ' +
      'that nothing of them can be encrypted or decrypted, as the leading ledger found them last.',
  }),
  counter('snapshots_total', [], {
    by: ['ledger'],
    help: 'Snapshots written of the money of a tenant; a recovery starts from the last one.',
  }),
  gauge('jobs_open', ['mode'], {
    by: ['ledger'],
    help: 'Jobs that are accepted and not closed.',
  }),
  counter('jobs_total', ['event', 'mode'], {
    by: ['ledger'],
    help: 'Jobs by their event in the journal: accepted, settled, or voided without a charge.',
    values: { event: ['accepted', 'settled', 'voided'], mode: MODES },
  }),
  gauge('money_micros', ['state', 'mode'], {
    by: ['ledger'],
    help: 'Money of all tenants by state, in USD micros: available, reserved, charged, and ' +
      'funded, which is their sum.',
  }),
  counter('money_moved_micros_total', ['movement', 'mode'], {
    by: ['ledger'],
    help: 'Money moved, in USD micros: topped_up, added or taken by an operator, reserved, and ' +
      'charged or released from a reservation.',
    values: {
      movement: ['topped_up', 'added', 'taken', 'reserved', 'charged', 'released'], mode: MODES,
    },
    panel: {
      section: 'Money of live keys',
      title: 'Moved in all',
      by: ['movement'],
      where: 'mode="live"',
      inAll: true,
    },
  }),
  counter('recovery_actions_total', ['kind'], {
    by: ['ledger'],
    help: 'Work that `ledger` completed: what crashes and losses left, and, as `entry`, also ' +
      'entries that no stage ships.',
    values: {
      kind: [
        'entry', 'key', 'job', 'recounted_job', 'tenant', 'frozen', 'erasure', 'ended_job',
        'stalled_job', 'account', 'organization_key', 'contact_list',
      ],
    },
    panel: {
      section: 'Journal and recovery',
      title: 'Recovery actions',
      by: ['kind'],
      inAll: true,
    },
  }),
  gauge('redis_clock_offset_seconds', [], {
    // `publish` does not use the time of Redis.
    by: STAGES.filter(name => name !== 'publish'),
    help: 'Redis TIME minus the clock of this machine.',
    panel: {
      section: 'Health',
      title: 'Offset of Redis',
      by: ['job', 'instance'],
      where: 'job=~"$job"',
    },
  }),
  gauge('redis_memory_bytes', ['store', 'server'], {
    // lookup reports the cache, ledger the state.
    by: ['lookup', 'ledger'],
    help: 'Used memory of a Redis, or of each master of a cluster.',
    panel: { section: 'Redis', title: 'Memory', by: ['store', 'server'] },
  }),
  gauge('redis_memory_limit_bytes', ['store', 'server'], {
    by: ['lookup', 'ledger'],
    help: 'Memory limit of a Redis: maxmemory, or the memory of its machine when it evicts or ' +
      'has no maxmemory.',
  }),
  gauge('redis_aof_bytes', ['store', 'server'], {
    by: ['lookup', 'ledger'],
    help: 'Size of the append-only file (AOF) of a Redis; 0 without one.',
    panel: { section: 'Redis', title: 'Append-only file', by: ['store', 'server'] },
  }),
  gauge('redis_persistence_failed', ['store', 'server'], {
    by: ['lookup', 'ledger'],
    help: '1 if the last write or rewrite of the AOF or the last RDB save failed, or the state ' +
      'Redis lacks what STATE_DURABILITY promises: an AOF, or a replica.',
    panel: { section: 'Redis', title: 'Failed persistence', by: ['store', 'server'] },
  }),
  gauge('kafka_partitions_under_replicated', [], {
    by: ['ledger'],
    help: 'Under-replicated partitions of the topics that ledger may describe.',
  }),
  gauge('clickhouse_disk_bytes', ['disk'], {
    by: ['ledger'],
    help: 'Size of a disk of ClickHouse.',
    panel: { section: 'ClickHouse', title: 'Size of disks', by: ['disk'] },
  }),
  gauge('clickhouse_disk_free_bytes', ['disk'], {
    by: ['ledger'],
    help: 'Free space of a disk of ClickHouse.',
  }),
  gauge('clickhouse_parts', ['table'], {
    by: ['ledger'],
    help: 'Maximum number of active parts in a partition of a table; ClickHouse delays inserts ' +
      'from 1,000 on and rejects them from 3,000 on.',
    panel: { section: 'ClickHouse', title: 'Most parts of a partition', by: ['table'] },
  }),
  gauge('clickhouse_merge_seconds', [], {
    by: ['ledger'],
    help: 'Age of the oldest running merge of ClickHouse; 0 when none runs.',
    panel: { section: 'ClickHouse', title: 'Oldest running merge' },
  }),
  gauge('clickhouse_mutation_seconds', [], {
    by: ['ledger'],
    help: 'Age of the oldest unfinished mutation of ClickHouse, such as the delete of an erased ' +
      'key; 0 without one.',
    panel: { section: 'ClickHouse', title: 'Oldest unfinished mutation' },
  }),
  counter('webhook_attempts_total', ['outcome', 'reason'], {
    by: ['deliver'],
    help: 'Webhook attempts by outcome: delivered, failed (to be retried), gone, exhausted or ' +
      'discarded; with the reason unless delivered.',
    values: [
      { outcome: ['delivered'], reason: [''] },
      { outcome: ['failed', 'exhausted'], reason: FAILURE_REASONS },
      { outcome: ['gone'], reason: ['status'] },
      { outcome: ['discarded'], reason: ['erased', 'endpoint_removed'] },
    ],
  }),
  histogram('webhook_attempt_seconds', ['outcome'], {
    by: ['deliver'],
    help: 'Duration of webhook attempts that tried to connect.',
    values: { outcome: ['delivered', 'failed', 'gone', 'exhausted'] },
    panel: { section: 'Webhooks', title: 'Duration of attempts', by: ['outcome'] },
  }),
  counter('webhook_attempts_throttled_total', [], {
    by: ['deliver'],
    help: 'Webhook attempts that were put off because their host has reached its rate.',
  }),
  gauge('webhook_queue_depth', [], {
    by: ['deliver'],
    help: 'Webhooks that are due and not in progress, of all processes: each reports the same.',
  }),
  gauge('feed_partners', ['state'], {
    by: ['feed'],
    help: 'Partners whose contacts are consumed, by state: running, or paused without balance ' +
      'or a slot.',
    panel: { section: 'Bulk feeds', title: 'Partners', by: ['state'] },
  }),
  counter('feed_jobs_total', ['outcome'], {
    by: ['feed'],
    help: 'Jobs submitted by feeds: taken, moved, short, late, failed, or lost (to be ' +
      'resubmitted).',
    values: { outcome: ['taken', 'moved', 'short', 'late', 'failed', 'lost'] },
    panel: { section: 'Bulk feeds', title: 'Jobs of feeds', by: ['outcome'] },
  }),
  counter('feed_replays_total', [], {
    by: ['feed'],
    help: 'Duplicate contacts of feeds, which are ignored: resent by a producer, or duplicated ' +
      'in Kafka.',
    panel: { section: 'Bulk feeds', title: 'Replayed contacts' },
  }),
] as const

/** The series of a metric that a service reports from its start; none for other programs. */
export function listInitialSeries (
  { labels, by, values, bySubscription, byTopic }: MetricDefinition, service: string
): readonly Labels[] {
  const stage = by.find(name => name === service)
  if (stage === undefined) return []
  const labelsOfStage: Labels = labels.includes('stage') ? { stage } : {}
  if (bySubscription === true) {
    return listSubscriptions(stage).map(({ lane = '', service = '' }) =>
      ({ ...labelsOfStage, lane, service }))
  }
  if (byTopic === true) {
    return listSubscriptions(stage).flatMap(({ topics }) => topics.map(topic => ({ topic })))
  }
  // All combinations of the values of the labels.
  return [values ?? []].flat().flatMap(valuesByLabel =>
    Object.entries(valuesByLabel).reduce<readonly Labels[]>((made, [label, each]) =>
      made.flatMap(others => each.map(value => ({ ...others, [label]: value }))), [labelsOfStage]))
}
