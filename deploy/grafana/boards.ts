import type { Board } from './board.ts'
import { intake, money, outside, processes, stores } from './more-boards.ts'

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
      panels: [
        {
          title: 'Rows',
          metric: 'stage_rows_total',
          by: ['stage', 'lane', 'service'],
          where: chosen,
          width: 12,
        },
        {
          title: 'Messages',
          metric: 'stage_chunks_total',
          by: ['stage', 'lane', 'service'],
          where: chosen,
          width: 12,
        },
      ],
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
        {
          title: 'Messages held',
          metric: 'stage_held_messages',
          by: ['group'],
          where: chosen,
          sum: true,
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
        {
          title: 'Expired messages', metric: 'stage_expired_total', by: ['stage'],
        },
        { title: 'Cache', metric: 'cache_lookups_total', by: ['outcome'] },
      ],
    },
  ],
}

/** Every dashboard there is. */
export const BOARDS: readonly Board[] = [
  overview, intake, stages, money, outside, stores, processes,
]
