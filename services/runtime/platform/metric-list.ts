import { STORE_METRICS, type MetricDefinition } from './store-metrics.ts'

/** All metrics: the one source of dashboards, alerts and documents. */
export const METRICS = [
  {
    name: 'service_ready',
    type: 'gauge',
    labels: ['stage'],
    help: '1 while the stage is ready; /readyz reports whether all stages of the process are.',
  },
  {
    name: 'stage_rows_total',
    type: 'counter',
    labels: ['stage', 'lane', 'service'],
    help: 'Rows of processed messages.',
  },
  {
    name: 'stage_chunks_total',
    type: 'counter',
    labels: ['stage', 'lane', 'service'],
    help: 'Processed messages.',
  },
  {
    name: 'stage_oldest_age_seconds',
    type: 'gauge',
    labels: ['stage', 'group'],
    help: 'Age of the oldest message that is fetched and not yet processed; 0 when idle. Scale ' +
      'and shed load by this.',
  },
  {
    name: 'stage_held_messages',
    type: 'gauge',
    labels: ['stage', 'group'],
    help: 'Messages in memory that wait for others; their offsets are not committed.',
  },
  {
    name: 'stage_step_seconds',
    type: 'histogram',
    labels: ['stage', 'step'],
    help: 'Duration of each step of the engine.',
  },
  {
    name: 'stage_dead_letters_total',
    type: 'counter',
    labels: ['stage', 'cause'],
    help: 'Messages sent to the dead-letter topic: unreadable, failed, decided, or lacking a key.',
  },
  {
    name: 'stage_messages_skipped_total',
    type: 'counter',
    labels: ['stage', 'reason'],
    help: 'Messages that are skipped: tombstones, messages of erased jobs, and forged ones.',
  },
  {
    name: 'messages_forged_total',
    type: 'counter',
    labels: ['topic'],
    help: 'Messages without a valid signature of MESSAGE_KEYS, which are skipped.',
  },
  {
    name: 'records_forged_total',
    type: 'counter',
    labels: ['table'],
    help: 'Records in ClickHouse without a valid MAC, which are skipped.',
  },
  {
    name: 'stage_expired_total',
    type: 'counter',
    labels: ['stage'],
    help: 'Messages dropped after their deadline, before their job was accepted.',
  },
  {
    name: 'stage_retries_total',
    type: 'counter',
    labels: ['stage', 'step', 'cause'],
    help: 'Retried steps: after an infrastructure error or another failure.',
  },
  {
    name: 'stage_blocked',
    type: 'gauge',
    labels: ['stage', 'group'],
    help: 'Partitions that are stalled by an infrastructure error.',
  },
  {
    name: 'stage_paused',
    type: 'gauge',
    labels: ['stage'],
    help: '1 while operators have paused the stage: it starts nothing, and its messages wait.',
  },
  {
    name: 'consumer_lag_messages',
    type: 'gauge',
    labels: ['stage', 'group', 'topic', 'partition'],
    help: 'Consumer lag of a group, as known by the brokers, and so even for groups without a ' +
      'running member.',
  },
  {
    name: 'consumer_offset',
    type: 'gauge',
    labels: ['stage', 'group', 'topic', 'partition'],
    help: 'Committed offset of a group. If it does not change while messages wait, no working ' +
      'member owns the partition.',
  },
  {
    name: 'key_unwraps_total',
    type: 'counter',
    labels: ['class', 'by'],
    help: 'Keys that were unwrapped, by class of root keys: by a root key (a key of an ' +
      'organization, once per process), or by the key of an organization (of a job or a webhook).',
  },
  {
    name: 'root_key_calls_total',
    type: 'counter',
    labels: ['class', 'provider', 'action', 'outcome'],
    help: 'Calls of AWS KMS or Vault for root keys: ok, failed (unavailable, throttled, denied), ' +
      'or invalid (bytes, context or key do not match).',
  },
  {
    name: 'root_key_call_seconds',
    type: 'histogram',
    labels: ['provider', 'action'],
    help: 'Duration of calls of AWS KMS or Vault for root keys, failed ones as well.',
  },
  {
    name: 'cache_lookups_total',
    type: 'counter',
    labels: ['service', 'outcome'],
    help: 'Rows looked up in the cache: found, even if too old, or missing, even if it is down.',
  },
  {
    name: 'provider_checks_total',
    type: 'counter',
    labels: ['service', 'provider', 'outcome'],
    help: 'Rows checked live, by the number of the provider: valid, invalid, risky, unknown, ' +
      'retry (checked again later) or the kind of failure.',
  },
  {
    name: 'provider_call_seconds',
    type: 'histogram',
    labels: ['service', 'provider'],
    help: 'Duration of calls to a provider, by its number.',
  },
  {
    name: 'provider_circuit_open',
    type: 'gauge',
    labels: ['provider'],
    help: '1 while the circuit breaker of a provider, by its number, is open.',
  },
  {
    name: 'verification_batches_retried_total',
    type: 'counter',
    labels: ['service'],
    help: 'Verification batches retried later because no provider was available.',
  },
  {
    name: 'vendor_tasks',
    type: 'gauge',
    labels: ['service', 'provider'],
    help: 'Tasks of vendors that take batches, by the number of the provider, which this process ' +
      'has submitted or asked for and which have not ended.',
  },
  {
    name: 'vendor_task_oldest_seconds',
    type: 'gauge',
    labels: ['service', 'provider'],
    help: 'Age of the oldest of these tasks, since it was submitted.',
  },
  {
    name: 'http_requests_total',
    type: 'counter',
    labels: ['method', 'route', 'status'],
    help: 'HTTP requests.',
  },
  {
    name: 'http_request_seconds',
    type: 'histogram',
    labels: ['method', 'route'],
    help: 'Duration of HTTP requests until the response.',
  },
  {
    name: 'preflight_oldest_age_seconds',
    type: 'gauge',
    labels: ['lane'],
    help: 'How long the oldest pending request of this process has waited for its preflight.',
  },
  {
    name: 'reference_data_age_seconds',
    type: 'gauge',
    labels: ['data'],
    help: 'Time since the publication of the data that verdicts rest on.',
  },
  {
    name: 'lists_refused',
    type: 'gauge',
    labels: ['stage'],
    help: '1 while renewed lists in LISTS_DIR are not valid and the earlier ones are in use.',
  },
  {
    name: 'preflight_overloaded',
    type: 'gauge',
    labels: ['lane'],
    help: '1 while new requests of the lane are rejected because others wait too long.',
  },
  {
    name: 'preflight_refusals_total',
    type: 'counter',
    labels: ['lane'],
    help: 'Requests rejected because others wait too long for their preflight: small, bulk, or ' +
      'any when both lanes are overloaded.',
  },
  {
    name: 'requests_waiting',
    type: 'gauge',
    labels: [],
    help: 'Requests of this process that wait for a job to change or end.',
  },
  {
    name: 'requests_waiting_limit',
    type: 'gauge',
    labels: [],
    help: 'MAX_WAITS: the most requests of this process that may wait; more are answered at once.',
  },
  {
    name: 'limits_local_total',
    type: 'counter',
    labels: [],
    help: 'Requests admitted by the local rate limits of an instance, because the cache Redis ' +
      'did not respond.',
  },
  {
    name: 'outbox_entries',
    type: 'gauge',
    labels: [],
    help: 'Outbox entries that are not yet shipped.',
  },
  {
    name: 'outbox_oldest_seconds',
    type: 'gauge',
    labels: [],
    help: 'Age of the oldest outbox entry that is not yet shipped; 0 when there is none.',
  },
  {
    name: 'accounts_outbox_entries',
    type: 'gauge',
    labels: [],
    help: 'Accounts whose last change the topic accounts has not acknowledged.',
  },
  {
    name: 'access_log_oldest_seconds',
    type: 'gauge',
    labels: [],
    help: 'Age of the oldest entry that the topic access.log has not acknowledged; 0 when there ' +
      'is none.',
  },
  {
    name: 'access_log_entries_missing',
    type: 'gauge',
    labels: [],
    help: 'Entries of the access log that were copied to ClickHouse and are not there any more.',
  },
  {
    name: 'erasures_pending',
    type: 'gauge',
    labels: ['phase'],
    help: 'Erasures of jobs that are not complete, by phase: requested (the key is still in ' +
      'Redis) or compacting (in the topic job.keys).',
  },
  {
    name: 'erasure_oldest_seconds',
    type: 'gauge',
    labels: [],
    help: 'Age of the oldest erasure that is not complete; 0 without one.',
  },
  {
    name: 'jobs_stalled',
    type: 'gauge',
    labels: [],
    help: 'Open jobs without progress for so long that they are failed, unless rows still wait.',
  },
  {
    name: 'journal_head_age_intervals',
    type: 'gauge',
    labels: [],
    help: 'Age of the last export of the journal heads, in multiples of JOURNAL_HEAD_EVERY_MS; ' +
      'reported by the leader if JOURNAL_HEAD_TARGET is set.',
  },
  {
    name: 'journal_entries_missing',
    type: 'gauge',
    labels: [],
    help: 'Entries that are permanently missing from the copy of the journal: lost from the ' +
      'topic, or removed from the copy.',
  },
  {
    name: 'tenants_frozen',
    type: 'gauge',
    labels: [],
    help: 'Tenants whose money cannot be explained and does not move; reported by the leader.',
  },
  {
    name: 'tenants_waiting',
    type: 'gauge',
    labels: [],
    help: 'Tenants whose money does not move until it is compared with the journal after a ' +
      'restart of Redis, as far as the leader knows them yet.',
  },
  {
    name: 'organizations_without_keys',
    type: 'gauge',
    labels: [],
    help: 'Organizations that were not erased and whose keys neither Redis nor the topic has, so ' +
      'that nothing of them can be encrypted or decrypted, as the leading ledger found them last.',
  },
  {
    name: 'snapshots_total',
    type: 'counter',
    labels: [],
    help: 'Snapshots written of the money of a tenant; a recovery starts from the last one.',
  },
  {
    name: 'jobs_open',
    type: 'gauge',
    labels: ['mode'],
    help: 'Jobs that are accepted and not closed.',
  },
  {
    name: 'jobs_total',
    type: 'counter',
    labels: ['event', 'mode'],
    help: 'Jobs by their event in the journal: accepted, settled, or voided without a charge.',
  },
  {
    name: 'money_micros',
    type: 'gauge',
    labels: ['state', 'mode'],
    help: 'Money of all tenants by state, in USD micros: available, reserved, charged, and ' +
      'funded, which is their sum.',
  },
  {
    name: 'money_moved_micros_total',
    type: 'counter',
    labels: ['movement', 'mode'],
    help: 'Money moved, in USD micros: topped_up, added or taken by an operator, reserved, and ' +
      'charged or released from a reservation.',
  },
  {
    name: 'recovery_actions_total',
    type: 'counter',
    labels: ['kind'],
    help: 'Orphaned work found and completed by recovery.',
  },
  {
    name: 'redis_clock_offset_seconds',
    type: 'gauge',
    labels: [],
    help: 'Redis TIME minus the clock of this machine.',
  },
  ...STORE_METRICS,
  {
    name: 'webhook_attempts_total',
    type: 'counter',
    labels: ['outcome', 'reason'],
    help: 'Webhook attempts by outcome: delivered, failed (to be retried), gone, exhausted or ' +
      'discarded; with the reason unless delivered.',
  },
  {
    name: 'webhook_attempt_seconds',
    type: 'histogram',
    labels: ['outcome'],
    help: 'Duration of webhook attempts that tried to connect.',
  },
  {
    name: 'webhook_attempts_throttled_total',
    type: 'counter',
    labels: [],
    help: 'Webhook attempts that were put off because their host has reached its rate.',
  },
  {
    name: 'webhook_queue_depth',
    type: 'gauge',
    labels: [],
    help: 'Webhooks that are due and not in progress, of all processes: each reports the same.',
  },
  {
    name: 'feed_partners',
    type: 'gauge',
    labels: ['state'],
    help: 'Partners whose contacts are consumed, by state: running, or paused without balance ' +
      'or a slot.',
  },
  {
    name: 'feed_jobs_total',
    type: 'counter',
    labels: ['outcome'],
    help: 'Jobs submitted by feeds: taken, moved, short, late, failed, or lost (to be ' +
      'resubmitted).',
  },
  {
    name: 'feed_replays_total',
    type: 'counter',
    labels: [],
    help: 'Duplicate contacts of feeds, which are ignored: resent by a producer, or duplicated ' +
      'in Kafka.',
  },
] as const satisfies readonly MetricDefinition[]
