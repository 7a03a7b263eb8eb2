import type { MetricDefinition } from './metric-definition.ts'

/** Every metric there is: the one source of dashboards, alerts and documents. */
export const METRICS = [
  {
    name: 'service_ready',
    type: 'gauge',
    labels: [],
    help: '1 while the process can work, as its /readyz tells.',
  },
  {
    name: 'stage_rows_total',
    type: 'counter',
    labels: ['stage', 'lane', 'service'],
    help: 'Rows of finished messages.',
  },
  {
    name: 'stage_chunks_total',
    type: 'counter',
    labels: ['stage', 'lane', 'service'],
    help: 'Finished messages.',
  },
  {
    name: 'stage_oldest_age_seconds',
    type: 'gauge',
    labels: ['stage', 'group'],
    help: 'Age of the oldest message handed over and not yet processed; 0 when idle. Scale ' +
      'and shed by this.',
  },
  {
    name: 'stage_held_messages',
    type: 'gauge',
    labels: ['stage', 'group'],
    help: 'Messages remembered until others come; their offsets are not committed.',
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
    help: 'Messages written to the dead-letter topic: unreadable, failed or decided.',
  },
  {
    name: 'stage_messages_skipped_total',
    type: 'counter',
    labels: ['stage', 'reason'],
    help: 'Messages that concern nobody any more.',
  },
  {
    name: 'messages_forged_total',
    type: 'counter',
    labels: ['topic'],
    help: 'Messages that no service sent, by the key of MESSAGE_KEYS: skipped.',
  },
  {
    name: 'records_forged_total',
    type: 'counter',
    labels: ['table'],
    help: 'Records in ClickHouse that no service stored, by their MAC: skipped.',
  },
  {
    name: 'stage_expired_total',
    type: 'counter',
    labels: ['stage'],
    help: 'Messages past their last moment, for which nothing was promised.',
  },
  {
    name: 'stage_retries_total',
    type: 'counter',
    labels: ['stage', 'step', 'cause'],
    help: 'Steps done again: after broken infrastructure or after a failure.',
  },
  {
    name: 'stage_blocked',
    type: 'gauge',
    labels: ['stage', 'group'],
    help: 'Partitions that wait for broken infrastructure.',
  },
  {
    name: 'stage_paused',
    type: 'gauge',
    labels: ['stage'],
    help: '1 while operators have paused the stage: it begins nothing, and its messages wait.',
  },
  {
    name: 'consumer_lag_messages',
    type: 'gauge',
    labels: ['stage', 'group', 'topic', 'partition'],
    help: 'Messages written and not yet finished by a group, as the brokers know them: it is ' +
      'told of groups as well of which no member lives.',
  },
  {
    name: 'consumer_offset',
    type: 'gauge',
    labels: ['stage', 'group', 'topic', 'partition'],
    help: 'Up to where a group has finished a partition; one that stands still while messages ' +
      'wait belongs to nobody who works.',
  },
  {
    name: 'cache_lookups_total',
    type: 'counter',
    labels: ['service', 'outcome'],
    help: 'Rows looked up in the cache: found, also if too old, or missing, also if it is down.',
  },
  {
    name: 'provider_checks_total',
    type: 'counter',
    labels: ['service', 'provider', 'outcome'],
    help: 'Rows checked live, by the number of the provider: valid, invalid, risky, unknown or ' +
      'the kind of failure.',
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
    help: '1 while a provider, by its number, is not asked, as too many calls of it failed.',
  },
  {
    name: 'verification_batches_retried_total',
    type: 'counter',
    labels: ['service'],
    help: 'Parts put off because providers were not to be had.',
  },
  {
    name: 'http_requests_total',
    type: 'counter',
    labels: ['method', 'route', 'status'],
    help: 'Answered requests.',
  },
  {
    name: 'http_request_seconds',
    type: 'histogram',
    labels: ['method', 'route'],
    help: 'Duration until a request was answered.',
  },
  {
    name: 'preflight_oldest_age_seconds',
    type: 'gauge',
    labels: ['lane'],
    help: 'How long the oldest request under way in this process waits for its preflight.',
  },
  {
    name: 'preflight_overloaded',
    type: 'gauge',
    labels: ['lane'],
    help: '1 while further requests of the lane are refused because others wait too long.',
  },
  {
    name: 'preflight_refusals_total',
    type: 'counter',
    labels: ['lane'],
    help: 'Requests refused because others wait too long for their preflight: small, bulk, or ' +
      'any when both lanes are behind.',
  },
  {
    name: 'limits_local_total',
    type: 'counter',
    labels: [],
    help: 'Requests that an instance let in by its own buckets alone, as the cache Redis gave no ' +
      'answer.',
  },
  {
    name: 'outbox_entries',
    type: 'gauge',
    labels: [],
    help: 'Entries not yet shipped from the outboxes.',
  },
  {
    name: 'outbox_oldest_seconds',
    type: 'gauge',
    labels: [],
    help: 'Age of the oldest entry that is not yet shipped from an outbox; 0 when there is none.',
  },
  {
    name: 'accounts_outbox_entries',
    type: 'gauge',
    labels: [],
    help: 'Accounts whose last change the topic accounts has not acknowledged.',
  },
  {
    name: 'jobs_stalled',
    type: 'gauge',
    labels: [],
    help: 'Open jobs without progress for so long that they are given up, unless rows still wait.',
  },
  {
    name: 'journal_head_age_intervals',
    type: 'gauge',
    labels: [],
    help: 'Age of the last export of the journal\'s heads, in times of JOURNAL_HEAD_EVERY_MS; ' +
      'told by the leading ledger where JOURNAL_HEAD_TARGET is set.',
  },
  {
    name: 'journal_entries_missing',
    type: 'gauge',
    labels: [],
    help: 'Movements that the copy of the journal lacks for good: their entries are gone from ' +
      'the topic, or were removed from the copy.',
  },
  {
    name: 'tenants_frozen',
    type: 'gauge',
    labels: [],
    help: 'Tenants whose money cannot be explained and does not move; told by the leading ledger.',
  },
  {
    name: 'tenants_waiting',
    type: 'gauge',
    labels: [],
    help: 'Tenants whose money does not move until it is compared with the journal after a ' +
      'restart of Redis, as far as the leading ledger knows of them by then.',
  },
  {
    name: 'snapshots_total',
    type: 'counter',
    labels: [],
    help: 'Snapshots written of tenants whose money has moved; a recovery reads on from them.',
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
    help: 'Jobs by what the journal says of them: accepted, settled, or voided without a charge.',
  },
  {
    name: 'money_micros',
    type: 'gauge',
    labels: ['state', 'mode'],
    help: 'Money of all tenants by where it stands, in USD micros: available, reserved, charged, ' +
      'and funded, which is the sum of them.',
  },
  {
    name: 'money_moved_micros_total',
    type: 'counter',
    labels: ['movement', 'mode'],
    help: 'Money moved, in USD micros: topped_up, added or taken by hand, reserved, and of what ' +
      'was reserved charged or released.',
  },
  {
    name: 'recovery_actions_total',
    type: 'counter',
    labels: ['kind'],
    help: 'What was found left over and brought to its end.',
  },
  {
    name: 'redis_clock_offset_seconds',
    type: 'gauge',
    labels: [],
    help: 'Redis TIME minus the clock of this machine.',
  },
  {
    name: 'redis_memory_bytes',
    type: 'gauge',
    labels: ['store'],
    help: 'Memory that data take in a Redis: state, or cache, of which masters are added up.',
  },
  {
    name: 'redis_memory_limit_bytes',
    type: 'gauge',
    labels: ['store'],
    help: 'Memory that a Redis can use: its maximum, or that of its machine when it evicts or ' +
      'has no maximum.',
  },
  {
    name: 'redis_aof_bytes',
    type: 'gauge',
    labels: ['store'],
    help: 'Size of the append-only file of a Redis; 0 without one.',
  },
  {
    name: 'redis_persistence_failed',
    type: 'gauge',
    labels: ['store'],
    help: '1 while the last write or rewrite of the append-only file or the last save failed, or ' +
      'the Redis with the state has no append-only file.',
  },
  {
    name: 'kafka_partitions_under_replicated',
    type: 'gauge',
    labels: [],
    help: 'Partitions of which a copy is not in sync, of the topics that ledger may describe.',
  },
  {
    name: 'clickhouse_disk_bytes',
    type: 'gauge',
    labels: ['disk'],
    help: 'Size of a disk of ClickHouse.',
  },
  {
    name: 'clickhouse_disk_free_bytes',
    type: 'gauge',
    labels: ['disk'],
    help: 'Free space of a disk of ClickHouse.',
  },
  {
    name: 'clickhouse_parts',
    type: 'gauge',
    labels: ['table'],
    help: 'Active parts of the partition of a table that has most of them; inserts are slowed ' +
      'from 1,000 on and refused from 3,000 on.',
  },
  {
    name: 'clickhouse_merge_seconds',
    type: 'gauge',
    labels: [],
    help: 'How long the oldest running merge of ClickHouse takes; 0 when none runs.',
  },
  {
    name: 'clickhouse_mutation_seconds',
    type: 'gauge',
    labels: [],
    help: 'Age of the oldest unfinished mutation of ClickHouse, as deletes of erased keys are; 0 ' +
      'without one.',
  },
  {
    name: 'webhook_attempts_total',
    type: 'counter',
    labels: ['outcome', 'reason'],
    help: 'Attempts to hand an event to its receiver: delivered, failed (another follows), gone, ' +
      'exhausted or discarded; and why, but for those delivered.',
  },
  {
    name: 'webhook_attempt_seconds',
    type: 'histogram',
    labels: ['outcome'],
    help: 'Duration of those attempts for which a connection was tried.',
  },
  {
    name: 'webhook_queue_depth',
    type: 'gauge',
    labels: [],
    help: 'Webhooks that are due and not under way, of all processes: each reports the same.',
  },
  {
    name: 'feed_partners',
    type: 'gauge',
    labels: ['state'],
    help: 'Partners whose contacts are taken, by state: running, or paused for want of balance ' +
      'or of a slot.',
  },
  {
    name: 'feed_jobs_total',
    type: 'counter',
    labels: ['outcome'],
    help: 'Jobs asked for by feeds: taken, moved, short, late, failed, or lost (asked again).',
  },
  {
    name: 'feed_replays_total',
    type: 'counter',
    labels: [],
    help: 'Contacts of feeds that were read before and are ignored: sent again by a producer, or ' +
      'copied in Kafka.',
  },
] as const satisfies readonly MetricDefinition[]
