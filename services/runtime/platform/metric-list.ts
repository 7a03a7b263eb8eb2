import {
  ENGINE_STAGES, ENGINE_STEPS, KEY_CLASSES, LANES, PAUSABLE_STAGES, SERVICE_SLUGS, STAGES,
  type StageName,
} from '../../topology.ts'
import { subscriptionsOf } from './topics.ts'

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
  readonly board: string
  /** The title of the section. */
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

const FAILURE_REASONS = [
  'status', 'redirect', 'timeout', 'dns_error', 'blocked_address', 'tls_error',
  'connection_error', 'proxy_error', 'internal',
] as const
const ROOT_KEY_CALL = { provider: ['aws-kms', 'vault'], action: ['encrypt', 'decrypt'] } as const
const MODES = ['live', 'test'] as const

/** All metrics: the one source of dashboards, alerts and documents. */
export const METRICS = [
  {
    name: 'service_ready',
    type: 'gauge',
    labels: ['stage'],
    help: '1 while the stage is ready; /readyz reports whether all stages of the process are.',
    by: STAGES,
  },
  {
    name: 'stage_rows_total',
    type: 'counter',
    labels: ['stage', 'lane', 'service'],
    help: 'Rows of processed messages.',
    by: ENGINE_STAGES,
    bySubscription: true,
    panel: {
      board: 'stages',
      section: 'Work',
      title: 'Rows',
      by: ['stage', 'lane', 'service'],
      where: 'stage=~"$stage"',
      width: 12,
    },
  },
  {
    name: 'stage_chunks_total',
    type: 'counter',
    labels: ['stage', 'lane', 'service'],
    help: 'Processed messages.',
    by: ENGINE_STAGES,
    bySubscription: true,
    panel: {
      board: 'stages',
      section: 'Work',
      title: 'Messages',
      by: ['stage', 'lane', 'service'],
      where: 'stage=~"$stage"',
      width: 12,
    },
  },
  {
    name: 'stage_oldest_age_seconds',
    type: 'gauge',
    labels: ['stage', 'group'],
    help: 'Age of the oldest message that is fetched and not yet processed; 0 when idle. One ' +
      'that is to wait ages from the time when it is due. Scale and shed load by this.',
    by: ENGINE_STAGES,
  },
  {
    name: 'stage_held_messages',
    type: 'gauge',
    labels: ['stage', 'group'],
    help: 'Messages in memory that wait for others; their offsets are not committed.',
    by: [...ENGINE_STAGES, 'feed'],
    panel: {
      board: 'stages',
      section: 'How far behind',
      title: 'Messages held',
      by: ['group'],
      where: 'stage=~"$stage"',
      sum: true,
    },
  },
  {
    name: 'stage_step_seconds',
    type: 'histogram',
    labels: ['stage', 'step'],
    help: 'Duration of each step of the engine.',
    by: ENGINE_STAGES,
    values: { step: ENGINE_STEPS },
  },
  {
    name: 'stage_dead_letters_total',
    type: 'counter',
    labels: ['stage', 'cause'],
    help: 'Messages sent to the dead-letter topic: unreadable, failed, decided, or lacking a key.',
    by: ENGINE_STAGES,
    values: { cause: ['unreadable', 'failed', 'decided', 'missing_key'] },
  },
  {
    name: 'stage_messages_skipped_total',
    type: 'counter',
    labels: ['stage', 'reason'],
    help: 'Messages that are skipped: tombstones, messages of erased jobs, and forged ones.',
    by: ENGINE_STAGES,
    values: { reason: ['tombstone', 'no_key', 'forged'] },
  },
  {
    name: 'messages_forged_total',
    type: 'counter',
    labels: ['topic'],
    help: 'Messages without a valid signature of MESSAGE_KEYS, which are skipped.',
    by: ENGINE_STAGES,
    byTopic: true,
  },
  {
    name: 'records_forged_total',
    type: 'counter',
    labels: ['table'],
    help: 'Records in ClickHouse without a valid MAC, which are skipped.',
    by: ['ingest', 'settle', 'deliver', 'publish', 'ledger'],
    values: { table: ['jobs', 'journal', 'deliveries', 'job_keys'] },
  },
  {
    name: 'stage_expired_total',
    type: 'counter',
    labels: ['stage'],
    help: 'Messages dropped after their deadline, before their job was accepted.',
    by: ['normalize'],
    values: {},
    panel: {
      board: 'stages',
      section: 'Time and trouble',
      title: 'Expired messages',
      by: ['stage'],
    },
  },
  {
    name: 'stage_retries_total',
    type: 'counter',
    labels: ['stage', 'step', 'cause'],
    help: 'Retried steps: after an infrastructure error or another failure.',
    by: ENGINE_STAGES,
    values: [
      { step: ENGINE_STEPS, cause: ['infrastructure'] }, { step: ['decide'], cause: ['failure'] },
    ],
  },
  {
    name: 'stage_blocked',
    type: 'gauge',
    labels: ['stage', 'group'],
    help: 'Partitions that are stalled by an infrastructure error.',
    by: ENGINE_STAGES,
  },
  {
    name: 'stage_paused',
    type: 'gauge',
    labels: ['stage'],
    help: '1 while operators have paused the stage: it starts nothing, and its messages wait.',
    by: PAUSABLE_STAGES,
  },
  {
    name: 'consumer_lag_messages',
    type: 'gauge',
    labels: ['stage', 'group', 'topic', 'partition'],
    help: 'Consumer lag of a group, as known by the brokers, and so even for groups without a ' +
      'running member.',
    by: ['ledger'],
  },
  {
    name: 'consumer_offset',
    type: 'gauge',
    labels: ['stage', 'group', 'topic', 'partition'],
    help: 'Committed offset of a group. If it does not change while messages wait, no working ' +
      'member owns the partition.',
    by: ['ledger'],
  },
  {
    name: 'key_unwraps_total',
    type: 'counter',
    labels: ['class', 'by'],
    help: 'Keys that were unwrapped, by class of root keys: by a root key (a key of an ' +
      'organization, once per process), or by the key of an organization (of a job or a webhook).',
    by: STAGES,
    values: { class: KEY_CLASSES, by: ['root', 'organization'] },
  },
  {
    name: 'root_key_calls_total',
    type: 'counter',
    labels: ['class', 'provider', 'action', 'outcome'],
    help: 'Calls of AWS KMS or Vault for root keys: ok, failed (unavailable, throttled, denied), ' +
      'or invalid (bytes, context or key do not match).',
    by: STAGES,
    values: { class: KEY_CLASSES, ...ROOT_KEY_CALL, outcome: ['ok', 'failed', 'invalid'] },
  },
  {
    name: 'root_key_call_seconds',
    type: 'histogram',
    labels: ['provider', 'action'],
    help: 'Duration of calls of AWS KMS or Vault for root keys, failed ones as well.',
    by: STAGES,
    values: ROOT_KEY_CALL,
  },
  {
    name: 'cache_lookups_total',
    type: 'counter',
    labels: ['service', 'outcome'],
    help: 'Rows looked up in the cache: found, even if too old, or missing, even if it is down.',
    by: ['lookup'],
    values: { service: SERVICE_SLUGS, outcome: ['found', 'missing'] },
    panel: { board: 'stages', section: 'Time and trouble', title: 'Cache', by: ['outcome'] },
  },
  {
    name: 'provider_checks_total',
    type: 'counter',
    labels: ['service', 'provider', 'outcome'],
    help: 'Rows checked live, by the number of the provider: valid, invalid, risky, unknown, ' +
      'retry (checked again later) or the kind of failure.',
    by: ['verify'],
  },
  {
    name: 'provider_call_seconds',
    type: 'histogram',
    labels: ['service', 'provider'],
    help: 'Duration of calls to a provider, by its number.',
    by: ['verify'],
    panel: {
      board: 'outside',
      section: 'Providers',
      title: 'Duration of calls',
      by: ['service', 'provider'],
      where: 'service=~"$service"',
      width: 16,
    },
  },
  {
    name: 'provider_circuit_open',
    type: 'gauge',
    labels: ['provider'],
    help: '1 while the circuit breaker of a provider, by its number, is open.',
    by: ['verify'],
    panel: { board: 'outside', section: 'Providers', title: 'Open circuits', by: ['provider'] },
  },
  {
    name: 'verification_batches_retried_total',
    type: 'counter',
    labels: ['service'],
    help: 'Verification batches retried later because no provider was available.',
    by: ['verify'],
    values: { service: SERVICE_SLUGS },
    panel: { board: 'outside', section: 'Providers', title: 'Retried batches', by: ['service'] },
  },
  {
    name: 'vendor_tasks',
    type: 'gauge',
    labels: ['service', 'provider'],
    help: 'Tasks of vendors that take batches, by the number of the provider, which this process ' +
      'has submitted or asked for and which have not ended.',
    by: ['verify'],
    panel: {
      board: 'outside',
      section: 'Providers',
      title: 'Tasks of batches',
      by: ['service', 'provider'],
      sum: true,
    },
  },
  {
    name: 'vendor_task_oldest_seconds',
    type: 'gauge',
    labels: ['service', 'provider'],
    help: 'Age of the oldest of these tasks, since it was submitted.',
    by: ['verify'],
    panel: {
      board: 'outside',
      section: 'Providers',
      title: 'Oldest task of a batch',
      by: ['service', 'provider'],
    },
  },
  {
    name: 'mailbox_rows_waiting',
    type: 'gauge',
    labels: ['owner'],
    help: 'Rows in this process that wait for the mail servers of an owner: one with a policy, ' +
      'or `other`.',
    by: ['verify'],
    panel: {
      board: 'outside',
      section: 'Mail servers',
      title: 'Rows that wait',
      by: ['owner'],
      sum: true,
    },
  },
  {
    name: 'mailbox_sessions_total',
    type: 'counter',
    labels: ['owner', 'ending'],
    help: 'Sessions with mail servers, by the owner of the servers and how they ended.',
    by: ['verify'],
    panel: {
      board: 'outside',
      section: 'Mail servers',
      title: 'Sessions that ended',
      by: ['owner', 'ending'],
    },
  },
  {
    name: 'mailbox_session_seconds',
    type: 'histogram',
    labels: ['owner'],
    help: 'Duration of sessions with mail servers, by the owner of the servers.',
    by: ['verify'],
    panel: {
      board: 'outside',
      section: 'Mail servers',
      title: 'Duration of sessions',
      by: ['owner'],
    },
  },
  {
    name: 'mailbox_recipients_total',
    type: 'counter',
    labels: ['owner', 'reply'],
    help: 'Replies of mail servers to recipients: about the mailbox, about us, or neither.',
    by: ['verify'],
    panel: {
      board: 'outside',
      section: 'Mail servers',
      title: 'Replies to recipients',
      by: ['owner', 'reply'],
    },
  },
  {
    name: 'mailbox_egress_recipients_per_minute',
    type: 'gauge',
    labels: ['owner', 'egress'],
    help: 'Recipients that may be asked in a minute of the mail servers of one owner from one ' +
      'egress, as learnt by all processes together: owners with a policy, and the ten others ' +
      'that were asked most.',
    by: ['verify'],
    panel: {
      board: 'outside',
      section: 'Mail servers',
      title: 'Recipients a minute',
      by: ['owner', 'egress'],
    },
  },
  {
    name: 'mailbox_egress_sessions',
    type: 'gauge',
    labels: ['owner', 'egress'],
    help: 'Sessions with mail servers of all processes together.',
    by: ['verify'],
    panel: {
      board: 'outside',
      section: 'Mail servers',
      title: 'Open sessions',
      by: ['owner', 'egress'],
    },
  },
  {
    name: 'mailbox_egress_resting_seconds',
    type: 'gauge',
    labels: ['owner', 'egress'],
    help: 'How long an egress rests at an owner that blocked or limited it; 0 while it may ask.',
    by: ['verify'],
    panel: {
      board: 'outside',
      section: 'Mail servers',
      title: 'Egresses that rest',
      by: ['owner', 'egress'],
    },
  },
  {
    name: 'mailbox_egress_recent_recipients',
    type: 'gauge',
    labels: ['owner', 'egress', 'outcome'],
    help: 'Recipients with a reply, in this hour and the one before, of all processes ' +
      'together, by outcome: verdict, block or other (greylisted, busy).',
    by: ['verify'],
  },
  {
    name: 'http_requests_total',
    type: 'counter',
    labels: ['method', 'route', 'status'],
    help: 'HTTP requests.',
    by: ['ingest'],
  },
  {
    name: 'http_request_seconds',
    type: 'histogram',
    labels: ['method', 'route'],
    help: 'Duration of HTTP requests until the response.',
    by: ['ingest'],
    panel: {
      board: 'intake',
      section: 'REST interface',
      title: 'Duration of creating a job',
      where: 'method="POST",route=~".*/jobs"',
    },
  },
  {
    name: 'preflight_oldest_age_seconds',
    type: 'gauge',
    labels: ['lane'],
    help: 'How long the oldest pending request of this process has waited for its preflight.',
    by: ['ingest'],
  },
  {
    name: 'reference_data_age_seconds',
    type: 'gauge',
    labels: ['data'],
    help: 'Time since the publication of the data that verdicts rest on.',
    by: ['ingest'],
    panel: { board: 'intake', section: 'Preflights', title: 'Age of data', by: ['data'] },
  },
  {
    name: 'lists_refused',
    type: 'gauge',
    labels: ['stage'],
    help: '1 while renewed lists in LISTS_DIR are not valid and the earlier ones are in use.',
    by: ['ingest', 'verify'],
    panel: { board: 'intake', section: 'Preflights', title: 'Lists refused', by: ['stage'] },
  },
  {
    name: 'preflight_overloaded',
    type: 'gauge',
    labels: ['lane'],
    help: '1 while new requests of the lane are rejected because others wait too long.',
    by: ['ingest'],
  },
  {
    name: 'preflight_refusals_total',
    type: 'counter',
    labels: ['lane'],
    help: 'Requests rejected because others wait too long for their preflight: small, bulk, or ' +
      'any when both lanes are overloaded.',
    by: ['ingest'],
    values: { lane: [...LANES, 'any'] },
    panel: { board: 'intake', section: 'Preflights', title: 'Refused requests', by: ['lane'] },
  },
  {
    name: 'estimates_total',
    type: 'counter',
    labels: ['outcome'],
    help: 'Quotes with a sample, by the outcome of their estimate: completed, running, or why ' +
      'there is none.',
    by: ['ingest'],
    values: {
      outcome: [
        'completed', 'running', 'too_few_contacts', 'daily_limit', 'temporarily_unavailable',
      ],
    },
    panel: { board: 'intake', section: 'Preflights', title: 'Estimates', by: ['outcome'] },
  },
  {
    name: 'sample_rows_total',
    type: 'counter',
    labels: [],
    help: 'Rows of samples that are verified free; providers may charge for them.',
    by: ['ingest'],
    values: {},
    panel: { board: 'intake', section: 'Preflights', title: 'Rows verified free' },
  },
  {
    name: 'requests_waiting',
    type: 'gauge',
    labels: [],
    help: 'Requests of this process that wait for a job to change or end.',
    by: ['ingest'],
  },
  {
    name: 'requests_waiting_limit',
    type: 'gauge',
    labels: [],
    help: 'MAX_WAITS: the most requests of this process that may wait; more are answered at once.',
    by: ['ingest'],
  },
  {
    name: 'event_streams',
    type: 'gauge',
    labels: [],
    help: 'Open event streams of jobs in this process; at most MAX_EVENT_STREAMS.',
    by: ['ingest'],
    panel: { board: 'intake', section: 'REST interface', title: 'Open event streams' },
  },
  {
    name: 'limits_local_total',
    type: 'counter',
    labels: [],
    help: 'Requests admitted by the local rate limits of an instance, because the cache Redis ' +
      'did not respond.',
    by: ['ingest'],
    values: {},
  },
  {
    name: 'outbox_entries',
    type: 'gauge',
    labels: [],
    help: 'Outbox entries that are not yet shipped.',
    by: ['ledger'],
  },
  {
    name: 'outbox_oldest_seconds',
    type: 'gauge',
    labels: [],
    help: 'Age of the oldest outbox entry that is not yet shipped; 0 when there is none.',
    by: ['ledger'],
  },
  {
    name: 'accounts_outbox_entries',
    type: 'gauge',
    labels: [],
    help: 'Accounts whose last change the topic accounts has not acknowledged.',
    by: ['ledger'],
  },
  {
    name: 'access_log_oldest_seconds',
    type: 'gauge',
    labels: [],
    help: 'Age of the oldest entry that the topic access.log has not acknowledged; 0 when there ' +
      'is none.',
    by: ['ledger'],
  },
  {
    name: 'access_log_entries_missing',
    type: 'gauge',
    labels: [],
    help: 'Entries of the access log that were copied to ClickHouse and are not there any more.',
    by: ['ledger'],
  },
  {
    name: 'erasures_pending',
    type: 'gauge',
    labels: ['phase'],
    help: 'Erasures of jobs that are not complete, by phase: requested (the key is still in ' +
      'Redis) or compacting (in the topic job.keys).',
    by: ['ledger'],
  },
  {
    name: 'erasure_oldest_seconds',
    type: 'gauge',
    labels: [],
    help: 'Age of the oldest erasure that is not complete; 0 without one.',
    by: ['ledger'],
  },
  {
    name: 'jobs_stalled',
    type: 'gauge',
    labels: [],
    help: 'Open jobs without progress for so long that they are failed, unless rows still wait.',
    by: ['ledger'],
    panel: { board: 'money', section: 'Jobs', title: 'Stalled jobs' },
  },
  {
    name: 'journal_head_age_intervals',
    type: 'gauge',
    labels: [],
    help: 'Age of the last export of the journal heads, in multiples of JOURNAL_HEAD_EVERY_MS; ' +
      'reported by the leader if JOURNAL_HEAD_TARGET is set.',
    by: ['ledger'],
    panel: {
      board: 'money',
      section: 'Journal and recovery',
      title: 'Age of the exported journal head',
    },
  },
  {
    name: 'journal_entries_missing',
    type: 'gauge',
    labels: [],
    help: 'Entries that are permanently missing from the copy of the journal: lost from the ' +
      'topic, or removed from the copy.',
    by: ['ledger'],
  },
  {
    name: 'tenants_frozen',
    type: 'gauge',
    labels: [],
    help: 'Tenants whose money cannot be explained and does not move; reported by the leader.',
    by: ['ledger'],
  },
  {
    name: 'tenants_waiting',
    type: 'gauge',
    labels: [],
    help: 'Tenants whose money does not move until it is compared with the journal after a ' +
      'restart of Redis, as far as the leader knows them yet.',
    by: ['ledger'],
  },
  {
    name: 'organizations_without_keys',
    type: 'gauge',
    labels: [],
    help: 'Organizations that were not erased and whose keys neither Redis nor the topic has, so ' +
      'that nothing of them can be encrypted or decrypted, as the leading ledger found them last.',
    by: ['ledger'],
  },
  {
    name: 'snapshots_total',
    type: 'counter',
    labels: [],
    help: 'Snapshots written of the money of a tenant; a recovery starts from the last one.',
    by: ['ledger'],
  },
  {
    name: 'jobs_open',
    type: 'gauge',
    labels: ['mode'],
    help: 'Jobs that are accepted and not closed.',
    by: ['ledger'],
  },
  {
    name: 'jobs_total',
    type: 'counter',
    labels: ['event', 'mode'],
    help: 'Jobs by their event in the journal: accepted, settled, or voided without a charge.',
    by: ['ledger'],
    values: { event: ['accepted', 'settled', 'voided'], mode: MODES },
  },
  {
    name: 'money_micros',
    type: 'gauge',
    labels: ['state', 'mode'],
    help: 'Money of all tenants by state, in USD micros: available, reserved, charged, and ' +
      'funded, which is their sum.',
    by: ['ledger'],
  },
  {
    name: 'money_moved_micros_total',
    type: 'counter',
    labels: ['movement', 'mode'],
    help: 'Money moved, in USD micros: topped_up, added or taken by an operator, reserved, and ' +
      'charged or released from a reservation.',
    by: ['ledger'],
    values: {
      movement: ['topped_up', 'added', 'taken', 'reserved', 'charged', 'released'], mode: MODES,
    },
    panel: {
      board: 'money',
      section: 'Money of live keys',
      title: 'Moved in all',
      by: ['movement'],
      where: 'mode="live"',
      inAll: true,
    },
  },
  {
    name: 'recovery_actions_total',
    type: 'counter',
    labels: ['kind'],
    help: 'Work that `ledger` completed: what crashes and losses left, and, as `entry`, also ' +
      'entries that no stage ships.',
    by: ['ledger'],
    values: {
      kind: [
        'entry', 'key', 'job', 'recounted_job', 'tenant', 'frozen', 'erasure', 'ended_job',
        'stalled_job', 'account', 'organization_key', 'contact_list',
      ],
    },
    panel: {
      board: 'money',
      section: 'Journal and recovery',
      title: 'Recovery actions',
      by: ['kind'],
      inAll: true,
    },
  },
  {
    name: 'redis_clock_offset_seconds',
    type: 'gauge',
    labels: [],
    help: 'Redis TIME minus the clock of this machine.',
    // `publish` does not use the time of Redis.
    by: STAGES.filter(name => name !== 'publish'),
    panel: {
      board: 'processes',
      section: 'Health',
      title: 'Offset of Redis',
      by: ['job', 'instance'],
      where: 'job=~"$job"',
    },
  },
  {
    name: 'redis_memory_bytes',
    type: 'gauge',
    labels: ['store', 'server'],
    help: 'Used memory of a Redis, or of each master of a cluster.',
    // lookup reports the cache, ledger the state.
    by: ['lookup', 'ledger'],
    panel: { board: 'stores', section: 'Redis', title: 'Memory', by: ['store', 'server'] },
  },
  {
    name: 'redis_memory_limit_bytes',
    type: 'gauge',
    labels: ['store', 'server'],
    help: 'Memory limit of a Redis: maxmemory, or the memory of its machine when it evicts or ' +
      'has no maxmemory.',
    by: ['lookup', 'ledger'],
  },
  {
    name: 'redis_aof_bytes',
    type: 'gauge',
    labels: ['store', 'server'],
    help: 'Size of the append-only file (AOF) of a Redis; 0 without one.',
    by: ['lookup', 'ledger'],
    panel: {
      board: 'stores',
      section: 'Redis',
      title: 'Append-only file',
      by: ['store', 'server'],
    },
  },
  {
    name: 'redis_persistence_failed',
    type: 'gauge',
    labels: ['store', 'server'],
    help: '1 if the last write or rewrite of the AOF or the last RDB save failed, or the state ' +
      'Redis lacks what STATE_DURABILITY promises: an AOF, or a replica.',
    by: ['lookup', 'ledger'],
    panel: {
      board: 'stores',
      section: 'Redis',
      title: 'Failed persistence',
      by: ['store', 'server'],
    },
  },
  {
    name: 'kafka_partitions_under_replicated',
    type: 'gauge',
    labels: [],
    help: 'Under-replicated partitions of the topics that ledger may describe.',
    by: ['ledger'],
  },
  {
    name: 'clickhouse_disk_bytes',
    type: 'gauge',
    labels: ['disk'],
    help: 'Size of a disk of ClickHouse.',
    by: ['ledger'],
    panel: { board: 'stores', section: 'ClickHouse', title: 'Size of disks', by: ['disk'] },
  },
  {
    name: 'clickhouse_disk_free_bytes',
    type: 'gauge',
    labels: ['disk'],
    help: 'Free space of a disk of ClickHouse.',
    by: ['ledger'],
  },
  {
    name: 'clickhouse_parts',
    type: 'gauge',
    labels: ['table'],
    help: 'Maximum number of active parts in a partition of a table; ClickHouse delays inserts ' +
      'from 1,000 on and rejects them from 3,000 on.',
    by: ['ledger'],
    panel: {
      board: 'stores',
      section: 'ClickHouse',
      title: 'Most parts of a partition',
      by: ['table'],
    },
  },
  {
    name: 'clickhouse_merge_seconds',
    type: 'gauge',
    labels: [],
    help: 'Age of the oldest running merge of ClickHouse; 0 when none runs.',
    by: ['ledger'],
    panel: { board: 'stores', section: 'ClickHouse', title: 'Oldest running merge' },
  },
  {
    name: 'clickhouse_mutation_seconds',
    type: 'gauge',
    labels: [],
    help: 'Age of the oldest unfinished mutation of ClickHouse, such as the delete of an erased ' +
      'key; 0 without one.',
    by: ['ledger'],
    panel: { board: 'stores', section: 'ClickHouse', title: 'Oldest unfinished mutation' },
  },
  {
    name: 'webhook_attempts_total',
    type: 'counter',
    labels: ['outcome', 'reason'],
    help: 'Webhook attempts by outcome: delivered, failed (to be retried), gone, exhausted or ' +
      'discarded; with the reason unless delivered.',
    by: ['deliver'],
    values: [
      { outcome: ['delivered'], reason: [''] },
      { outcome: ['failed', 'exhausted'], reason: FAILURE_REASONS },
      { outcome: ['gone'], reason: ['status'] },
      { outcome: ['discarded'], reason: ['erased'] },
    ],
  },
  {
    name: 'webhook_attempt_seconds',
    type: 'histogram',
    labels: ['outcome'],
    help: 'Duration of webhook attempts that tried to connect.',
    by: ['deliver'],
    values: { outcome: ['delivered', 'failed', 'gone', 'exhausted'] },
    panel: {
      board: 'outside',
      section: 'Webhooks',
      title: 'Duration of attempts',
      by: ['outcome'],
    },
  },
  {
    name: 'webhook_attempts_throttled_total',
    type: 'counter',
    labels: [],
    help: 'Webhook attempts that were put off because their host has reached its rate.',
    by: ['deliver'],
  },
  {
    name: 'webhook_queue_depth',
    type: 'gauge',
    labels: [],
    help: 'Webhooks that are due and not in progress, of all processes: each reports the same.',
    by: ['deliver'],
  },
  {
    name: 'feed_partners',
    type: 'gauge',
    labels: ['state'],
    help: 'Partners whose contacts are consumed, by state: running, or paused without balance ' +
      'or a slot.',
    by: ['feed'],
    panel: { board: 'intake', section: 'Bulk feeds', title: 'Partners', by: ['state'] },
  },
  {
    name: 'feed_jobs_total',
    type: 'counter',
    labels: ['outcome'],
    help: 'Jobs submitted by feeds: taken, moved, short, late, failed, or lost (to be ' +
      'resubmitted).',
    by: ['feed'],
    values: { outcome: ['taken', 'moved', 'short', 'late', 'failed', 'lost'] },
    panel: { board: 'intake', section: 'Bulk feeds', title: 'Jobs of feeds', by: ['outcome'] },
  },
  {
    name: 'feed_replays_total',
    type: 'counter',
    labels: [],
    help: 'Duplicate contacts of feeds, which are ignored: resent by a producer, or duplicated ' +
      'in Kafka.',
    by: ['feed'],
    panel: { board: 'intake', section: 'Bulk feeds', title: 'Replayed contacts' },
  },
] as const satisfies readonly MetricDefinition[]

/** The series of a metric that a service reports from its start; none for other programs. */
export function initialSeriesOf (
  { labels, by, values, bySubscription, byTopic }: MetricDefinition, service: string
): readonly Labels[] {
  const stage = by.find(name => name === service)
  if (stage === undefined) return []
  const labelsOfStage: Labels = labels.includes('stage') ? { stage } : {}
  if (bySubscription === true) {
    return subscriptionsOf(stage).map(({ lane = '', service = '' }) =>
      ({ ...labelsOfStage, lane, service }))
  }
  if (byTopic === true) {
    return subscriptionsOf(stage).flatMap(({ topics }) => topics.map(topic => ({ topic })))
  }
  // All combinations of the values of the labels.
  return [values ?? []].flat().flatMap(valuesByLabel =>
    Object.entries(valuesByLabel).reduce<readonly Labels[]>((made, [label, each]) =>
      made.flatMap(others => each.map(value => ({ ...others, [label]: value }))), [labelsOfStage]))
}
