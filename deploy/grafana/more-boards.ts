import type { Board } from './board.ts'

export const intake: Board = {
  uid: 'intake',
  title: 'Intake',
  description: 'What customers send and how it is answered: the REST interface and bulk feeds.',
  sections: [
    {
      title: 'REST interface',
      panels: [
        { title: 'Answers', metric: 'http_requests_total', by: ['status'] },
        { title: 'Requests', metric: 'http_requests_total', by: ['method', 'route'] },
        { title: 'Requests that wait for a job', metric: 'requests_waiting' },
        { title: 'Most that may wait', metric: 'requests_waiting_limit' },
        { title: 'Limits without the cache Redis', metric: 'limits_local_total' },
        { title: 'Duration', metric: 'http_request_seconds' },
        {
          title: 'Duration of creating a job',
          metric: 'http_request_seconds',
          where: 'method="POST",route=~".*/jobs"',
        },
      ],
    },
    {
      title: 'Preflights',
      panels: [
        { title: 'Oldest preflight', metric: 'preflight_oldest_age_seconds', by: ['lane'] },
        { title: 'Lanes that refuse', metric: 'preflight_overloaded', by: ['lane'], sum: true },
        { title: 'Age of data', metric: 'reference_data_age_seconds', by: ['data'] },
        { title: 'Lists refused', metric: 'lists_refused', by: ['stage'] },
        { title: 'Refused requests', metric: 'preflight_refusals_total', by: ['lane'] },
      ],
    },
    {
      title: 'Bulk feeds',
      panels: [
        { title: 'Partners', metric: 'feed_partners', by: ['state'] },
        { title: 'Jobs of feeds', metric: 'feed_jobs_total', by: ['outcome'] },
        { title: 'Replayed contacts', metric: 'feed_replays_total', by: [] },
      ],
    },
  ],
}

export const money: Board = {
  uid: 'money',
  title: 'Money and recovery',
  description: 'Balances, movements of money, and jobs that had to be closed late.',
  sections: [
    {
      title: 'Money of live keys',
      panels: [
        { title: 'Balances', metric: 'money_micros', by: ['state'], where: 'mode="live"' },
        {
          title: 'Moved in a second',
          metric: 'money_moved_micros_total',
          by: ['movement'],
          where: 'mode="live"',
        },
        {
          title: 'Moved in all',
          metric: 'money_moved_micros_total',
          by: ['movement'],
          where: 'mode="live"',
          inAll: true,
        },
      ],
    },
    {
      title: 'Jobs',
      panels: [
        { title: 'Open jobs', metric: 'jobs_open', by: ['mode'] },
        { title: 'Jobs', metric: 'jobs_total', by: ['event', 'mode'] },
        { title: 'Stalled jobs', metric: 'jobs_stalled' },
      ],
    },
    {
      title: 'Journal and recovery',
      panels: [
        { title: 'Entries not shipped', metric: 'outbox_entries' },
        { title: 'Oldest entry not shipped', metric: 'outbox_oldest_seconds' },
        { title: 'Erasures not complete', metric: 'erasures_pending', by: ['phase'] },
        { title: 'Oldest erasure not complete', metric: 'erasure_oldest_seconds' },
        { title: 'Accounts not shipped', metric: 'accounts_outbox_entries' },
        { title: 'Access log not shipped', metric: 'access_log_oldest_seconds' },
        { title: 'Access log missing in the copy', metric: 'access_log_entries_missing' },
        { title: 'Entries missing in the copy', metric: 'journal_entries_missing' },
        { title: 'Frozen tenants', metric: 'tenants_frozen' },
        { title: 'Tenants still compared with the journal', metric: 'tenants_waiting' },
        { title: 'Snapshots of wallets', metric: 'snapshots_total' },
        { title: 'Age of the exported journal head', metric: 'journal_head_age_intervals' },
        {
          title: 'Recovery actions', metric: 'recovery_actions_total', by: ['kind'], inAll: true,
        },
      ],
    },
  ],
}

export const outside: Board = {
  uid: 'outside',
  title: 'Providers and webhooks',
  description: 'Whom the service calls: providers of live checks by number, receivers of events.',
  variables: [{ label: 'service', from: 'provider_checks_total' }],
  sections: [
    {
      title: 'Providers',
      panels: [
        {
          title: 'Rows by outcome',
          metric: 'provider_checks_total',
          by: ['service', 'provider', 'outcome'],
          where: 'service=~"$service"',
          width: 16,
        },
        {
          title: 'Share that failed',
          unit: 'percentunit',
          legend: '{{service}} {{provider}}',
          expr: 'provider:failures:ratio5m{service=~"$service"}',
          help: 'Rows of calls that failed, of all rows that a provider was asked about.',
        },
        {
          title: 'Duration of calls',
          metric: 'provider_call_seconds',
          by: ['service', 'provider'],
          where: 'service=~"$service"',
          width: 16,
        },
        { title: 'Open circuits', metric: 'provider_circuit_open', by: ['provider'] },
        {
          title: 'Retried batches',
          metric: 'verification_batches_retried_total',
          by: ['service'],
        },
        {
          title: 'Tasks of batches', metric: 'vendor_tasks', by: ['service', 'provider'], sum: true,
        },
        {
          title: 'Oldest task of a batch',
          metric: 'vendor_task_oldest_seconds',
          by: ['service', 'provider'],
        },
      ],
    },
    {
      title: 'Webhooks',
      panels: [
        { title: 'Due and not under way', metric: 'webhook_queue_depth' },
        { title: 'Attempts', metric: 'webhook_attempts_total', by: ['outcome', 'reason'] },
        { title: 'Attempts put off', metric: 'webhook_attempts_throttled_total' },
        { title: 'Duration of attempts', metric: 'webhook_attempt_seconds', by: ['outcome'] },
      ],
    },
  ],
}

const chosen = 'job=~"$job"'
const each = { by: ['job', 'instance'], where: chosen }

export const processes: Board = {
  uid: 'processes',
  title: 'Processes',
  description: 'What each process needs, and whether it keeps up with itself.',
  variables: [{ label: 'job', from: 'process_start_time_seconds' }],
  sections: [
    {
      title: 'Needs',
      panels: [
        { title: 'Processor', metric: 'process_cpu_seconds_total', ...each },
        { title: 'Memory', metric: 'process_resident_memory_bytes', ...each },
        { title: 'Heap', metric: 'nodejs_heap_size_used_bytes', ...each },
      ],
    },
    {
      title: 'Health',
      panels: [
        { title: 'Ready', metric: 'service_ready', by: ['instance', 'stage'], where: chosen },
        { title: 'Event loop, p90', metric: 'nodejs_eventloop_lag_p90_seconds', ...each },
        { title: 'Event loop when read', metric: 'nodejs_eventloop_lag_seconds', ...each },
        { title: 'Garbage', metric: 'nodejs_gc_duration_seconds', by: ['job'], where: chosen },
        {
          title: 'Running since',
          unit: 's',
          legend: '{{job}} {{instance}}',
          expr: `time() - max by (job, instance) (process_start_time_seconds{${chosen}})`,
          help: 'Time since the process was started; one that keeps falling starts over and over.',
        },
        { title: 'Offset of Redis', metric: 'redis_clock_offset_seconds', ...each },
      ],
    },
  ],
}

export const stores: Board = {
  uid: 'stores',
  title: 'Stores',
  description: 'Whether Redis, Kafka and ClickHouse have room, persist data, and keep up.',
  sections: [
    {
      title: 'Redis',
      panels: [
        {
          title: 'Memory of its limit',
          unit: 'percentunit',
          legend: '{{store}} {{server}}',
          expr: 'max by (store, server) (redis_memory_bytes / redis_memory_limit_bytes)',
          help: 'Memory that data take, as a share of what the Redis can use.',
        },
        { title: 'Memory', metric: 'redis_memory_bytes', by: ['store', 'server'] },
        { title: 'Append-only file', metric: 'redis_aof_bytes', by: ['store', 'server'] },
        {
          title: 'Failed persistence',
          metric: 'redis_persistence_failed',
          by: ['store', 'server'],
        },
      ],
    },
    {
      title: 'Kafka',
      panels: [
        { title: 'Under-replicated partitions', metric: 'kafka_partitions_under_replicated' },
        {
          title: 'Journal entries not copied',
          unit: 'short',
          expr: 'max(sum by (instance) ' +
            '(consumer_lag_messages{stage="ledger", topic="wallet.journal"}))',
          help: 'Entries of wallet.journal that the copy in ClickHouse does not have yet.',
        },
      ],
    },
    {
      title: 'ClickHouse',
      panels: [
        { title: 'Free space', metric: 'clickhouse_disk_free_bytes', by: ['disk'] },
        { title: 'Size of disks', metric: 'clickhouse_disk_bytes', by: ['disk'] },
        { title: 'Most parts of a partition', metric: 'clickhouse_parts', by: ['table'] },
        { title: 'Oldest running merge', metric: 'clickhouse_merge_seconds' },
        { title: 'Oldest unfinished mutation', metric: 'clickhouse_mutation_seconds' },
      ],
    },
  ],
}
