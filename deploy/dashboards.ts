import { writeGenerated } from './generated.ts'
import { type Board, boardJson } from './grafana/board.ts'
import { type MetricDefinition, METRICS } from '../services/runtime/platform/metric-list.ts'

const overview: Board = {
  uid: 'overview',
  title: 'Overview',
  description: 'Whether jobs come in, go through and end, and what keeps them from it.',
  sections: [
    {
      title: 'Now',
      panels: [
        {
          title: 'Alerts',
          stat: true,
          width: 4,
          unit: 'short',
          expr: 'count(ALERTS{alertstate="firing"}) or vector(0)',
          help: 'Alerts that fire; the runbook says what to do about each.',
        },
        {
          title: 'Processes down',
          stat: true,
          width: 4,
          unit: 'short',
          expr: 'count(up == 0) or vector(0)',
          help: 'Processes whose metrics cannot be read.',
        },
        { title: 'Open jobs', metric: 'jobs_open', stat: true, width: 4, where: 'mode="live"' },
        { title: 'Stalled jobs', metric: 'jobs_stalled', stat: true, width: 4 },
        { title: 'Frozen tenants', metric: 'tenants_frozen', stat: true, width: 4 },
        { title: 'Webhooks due', metric: 'webhook_queue_depth', stat: true, width: 4 },
      ],
    },
    {
      title: 'Objectives',
      panels: [
        {
          title: 'Errors of the last hour',
          width: 12,
          unit: 'percentunit',
          legend: '{{slo}}',
          expr: 'slo:errors:ratio60m',
          help: 'Share of requests that failed, or of the time in which jobs were late.',
        },
        {
          title: 'Burn rate of six hours',
          width: 12,
          unit: 'short',
          legend: '{{slo}}',
          expr: 'slo:errors:ratio360m / on (slo) slo:budget:ratio',
          help: 'How many times faster than the objective allows its error budget is used up.',
        },
      ],
    },
    {
      title: 'Jobs and rows',
      panels: [
        { title: 'Jobs', metric: 'jobs_total', by: ['event', 'mode'] },
        { title: 'Rows through each stage', metric: 'stage_rows_total', by: ['stage'], width: 16 },
        {
          title: 'Age of the oldest message',
          metric: 'stage_oldest_age_seconds',
          by: ['stage'],
          width: 12,
        },
        {
          title: 'Messages that wait',
          width: 12,
          unit: 'short',
          legend: '{{stage}}',
          expr: 'sum by (stage) (group:lag_messages:sum)',
          help: 'Messages written and not yet finished, of all groups of a stage.',
        },
      ],
    },
    {
      title: 'Money',
      panels: [
        {
          title: 'Balances',
          metric: 'money_micros',
          by: ['state'],
          where: 'mode="live"',
          width: 12,
        },
        {
          title: 'Moved in a second',
          metric: 'money_moved_micros_total',
          by: ['movement'],
          where: 'mode="live"',
          width: 12,
        },
      ],
    },
    {
      title: 'What goes wrong',
      panels: [
        {
          title: 'Answers with 5xx',
          unit: 'percentunit',
          expr: 'http:errors:ratio5m',
          help: 'The share of requests answered by a status of 500 or above, within 5 minutes.',
        },
        {
          title: 'Dead letters',
          metric: 'stage_dead_letters_total',
          by: ['stage', 'cause'],
          inAll: true,
        },
        { title: 'Retries', metric: 'stage_retries_total', by: ['stage', 'cause'] },
      ],
    },
  ],
}

const chosen = 'stage=~"$stage"'

const stages: Board = {
  uid: 'stages',
  title: 'Stages',
  description: 'The stages that read topics: what each does, how far behind it is, what it needs.',
  variables: [{ label: 'stage', from: 'stage_chunks_total' }],
  sections: [
    {
      title: 'Work',
      panels: [],
    },
    {
      title: 'How far behind',
      panels: [
        {
          title: 'Age of the oldest message',
          metric: 'stage_oldest_age_seconds',
          by: ['stage', 'group'],
          where: chosen,
        },
        {
          title: 'Lag of groups',
          unit: 'short',
          legend: '{{group}}',
          expr: `sum by (group) (group:lag_messages:sum{${chosen}})`,
          help: 'Messages written and not yet finished by a group.',
        },
        {
          title: 'Lag of partitions',
          metric: 'consumer_lag_messages',
          by: ['topic', 'partition'],
          where: chosen,
        },
        {
          title: 'Finished messages',
          unit: 'ops',
          legend: '{{group}}',
          expr: `sum by (group) (group:finished_messages:rate5m{${chosen}})`,
          help: 'How fast a group moves on, as the brokers know it.',
        },
        {
          title: 'Offsets', metric: 'consumer_offset', by: ['topic', 'partition'], where: chosen,
        },
      ],
    },
    {
      title: 'Time and trouble',
      panels: [
        {
          title: 'Duration of steps',
          metric: 'stage_step_seconds',
          by: ['step'],
          where: chosen,
          width: 16,
        },
        {
          title: 'Partitions that wait for infrastructure',
          metric: 'stage_blocked',
          by: ['group'],
          where: chosen,
          sum: true,
        },
        { title: 'Paused by operators', metric: 'stage_paused', by: ['stage'], where: chosen },
        {
          title: 'Retries',
          metric: 'stage_retries_total',
          by: ['stage', 'step', 'cause'],
          where: chosen,
        },
        {
          title: 'Dead letters',
          metric: 'stage_dead_letters_total',
          by: ['stage', 'cause'],
          where: chosen,
          inAll: true,
        },
        {
          title: 'Skipped messages',
          metric: 'stage_messages_skipped_total',
          by: ['stage', 'reason'],
          where: chosen,
        },
        { title: 'Forged messages', metric: 'messages_forged_total', by: ['topic'] },
        { title: 'Forged records', metric: 'records_forged_total', by: ['table'] },
        { title: 'Organizations without keys', metric: 'organizations_without_keys' },
        { title: 'Unwrapped keys', metric: 'key_unwraps_total', by: ['class', 'by'] },
        {
          title: 'Calls for root keys',
          metric: 'root_key_calls_total',
          by: ['class', 'provider', 'action', 'outcome'],
        },
        {
          title: 'Duration of calls for root keys',
          metric: 'root_key_call_seconds',
          by: ['provider', 'action'],
        },
      ],
    },
  ],
}

const intake: Board = {
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
      ],
    },
    {
      title: 'Preflights',
      panels: [
        { title: 'Oldest preflight', metric: 'preflight_oldest_age_seconds', by: ['lane'] },
        { title: 'Lanes that refuse', metric: 'preflight_overloaded', by: ['lane'], sum: true },
      ],
    },
    {
      title: 'Bulk feeds',
      panels: [],
    },
  ],
}

const money: Board = {
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
      ],
    },
    {
      title: 'Jobs',
      panels: [
        { title: 'Open jobs', metric: 'jobs_open', by: ['mode'] },
        { title: 'Jobs', metric: 'jobs_total', by: ['event', 'mode'] },
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
      ],
    },
  ],
}

const outside: Board = {
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
      ],
    },
    {
      title: 'Mail servers',
      panels: [
        {
          title: 'Share with a verdict',
          unit: 'percentunit',
          legend: '{{owner}}',
          expr: 'mailbox:verdicts:ratio',
          help: 'Recipients that the mail servers of an owner answered with a verdict, of all ' +
            'with a reply in this hour and the one before.',
        },
        {
          title: 'Blocks',
          unit: 'short',
          legend: '{{owner}} {{egress}}',
          expr: 'max by (owner, egress) (mailbox_egress_recent_recipients{outcome="block"})',
          help: 'Replies in this hour and the one before that refuse who asks, not the mailbox.',
        },
      ],
    },
    {
      title: 'Webhooks',
      panels: [
        { title: 'Due and not under way', metric: 'webhook_queue_depth' },
        { title: 'Attempts', metric: 'webhook_attempts_total', by: ['outcome', 'reason'] },
        { title: 'Attempts put off', metric: 'webhook_attempts_throttled_total' },
      ],
    },
  ],
}

const chosenJob = 'job=~"$job"'
const each = { by: ['job', 'instance'], where: chosenJob }

const processes: Board = {
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
        { title: 'Ready', metric: 'service_ready', by: ['instance', 'stage'], where: chosenJob },
        { title: 'Event loop, p90', metric: 'nodejs_eventloop_lag_p90_seconds', ...each },
        { title: 'Event loop when read', metric: 'nodejs_eventloop_lag_seconds', ...each },
        { title: 'Garbage', metric: 'nodejs_gc_duration_seconds', by: ['job'], where: chosenJob },
        {
          title: 'Running since',
          unit: 's',
          legend: '{{job}} {{instance}}',
          expr: `time() - max by (job, instance) (process_start_time_seconds{${chosenJob}})`,
          help: 'Time since the process was started; one that keeps falling starts over and over.',
        },
      ],
    },
  ],
}

const stores: Board = {
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
      ],
    },
  ],
}

/** Every dashboard there is, with the panels that metrics have. */
const boards = withPanels(METRICS, [
  overview, intake, stages, money, outside, stores, processes,
])

function withPanels (
  metrics: readonly MetricDefinition[], boards: readonly Board[]
): readonly Board[] {
  const panels = metrics.flatMap(({ name, panel }) => panel ? [{ ...panel, metric: name }] : [])
  const titles = boards.flatMap(({ sections }) => sections.map(({ title }) => title))
  const lost = panels.find(({ section }) => titles.filter(title => title === section).length !== 1)
  if (lost !== undefined) {
    throw new RangeError(`the panel of ${lost.metric} is in ${lost.section}, but the sections of ` +
      `dashboards are ${titles.join('; ')}`)
  }
  return boards.map(board => ({
    ...board,
    sections: board.sections.map(section => ({
      ...section,
      panels: [...section.panels, ...panels.filter(panel => panel.section === section.title)],
    })),
  }))
}

writeGenerated('dashboards', 'Generates the dashboards of Grafana from the metric list.',
  new Map(boards.map(board => [
    new URL(`grafana/dashboards/${board.uid}.json`, import.meta.url),
    `${JSON.stringify(boardJson(board), null, 2)}\n`,
  ])))
