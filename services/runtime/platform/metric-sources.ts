import {
  ENGINE_STAGES, ENGINE_STEPS, KEY_CLASSES, LANES, PAUSABLE_STAGES, SERVICE_SLUGS, STAGES,
  type StageName,
} from '../../topology.ts'
import type { METRICS } from './metric-list.ts'
import { subscriptionsOf } from './topics.ts'

type Name = typeof METRICS[number]['name']
type Labels = Readonly<Record<string, string>>
type Values = Readonly<Record<string, readonly string[]>>

/**
 * The services that report a metric, and the possible values of its labels other than `stage`. A
 * counter that appears with its first event hides that event from `rate` and `increase`, so all
 * series that are known in advance start at 0.
 */
type Source = {
  readonly by: readonly StageName[]
  readonly values?: Values | readonly Values[]
  /** The values are the lanes and services that the stage subscribes to. */
  readonly bySubscription?: true
  /** The values are the topics that the stage subscribes to. */
  readonly byTopic?: true
}

const FAILURE_REASONS = [
  'status', 'redirect', 'timeout', 'dns_error', 'blocked_address', 'tls_error',
  'connection_error', 'proxy_error', 'internal',
]
const ROOT_KEY_CALL = { provider: ['aws-kms', 'vault'], action: ['encrypt', 'decrypt'] }
const MODES = ['live', 'test']

export const SOURCES: Readonly<Record<Name, Source>> = {
  service_ready: { by: STAGES },
  stage_rows_total: { by: ENGINE_STAGES, bySubscription: true },
  stage_chunks_total: { by: ENGINE_STAGES, bySubscription: true },
  stage_oldest_age_seconds: { by: ENGINE_STAGES },
  stage_held_messages: { by: [...ENGINE_STAGES, 'feed'] },
  stage_step_seconds: { by: ENGINE_STAGES, values: { step: ENGINE_STEPS } },
  stage_dead_letters_total: {
    by: ENGINE_STAGES, values: { cause: ['unreadable', 'failed', 'decided', 'missing_key'] },
  },
  stage_messages_skipped_total: {
    by: ENGINE_STAGES, values: { reason: ['tombstone', 'no_key', 'forged'] },
  },
  messages_forged_total: { by: ENGINE_STAGES, byTopic: true },
  records_forged_total: {
    by: ['ingest', 'settle', 'deliver', 'publish', 'ledger'],
    values: { table: ['jobs', 'journal', 'deliveries', 'job_keys'] },
  },
  stage_expired_total: { by: ['normalize'], values: {} },
  stage_retries_total: {
    by: ENGINE_STAGES,
    values: [
      { step: ENGINE_STEPS, cause: ['infrastructure'] }, { step: ['decide'], cause: ['failure'] },
    ],
  },
  stage_blocked: { by: ENGINE_STAGES },
  stage_paused: { by: PAUSABLE_STAGES },
  consumer_lag_messages: { by: ['ledger'] },
  consumer_offset: { by: ['ledger'] },
  key_unwraps_total: {
    by: STAGES, values: { class: KEY_CLASSES, by: ['root', 'organization'] },
  },
  root_key_calls_total: {
    by: STAGES,
    values: { class: KEY_CLASSES, ...ROOT_KEY_CALL, outcome: ['ok', 'failed', 'invalid'] },
  },
  root_key_call_seconds: { by: STAGES, values: ROOT_KEY_CALL },
  cache_lookups_total: {
    by: ['lookup'],
    values: { service: SERVICE_SLUGS, outcome: ['found', 'missing'] },
  },
  provider_checks_total: { by: ['verify'] },
  provider_call_seconds: { by: ['verify'] },
  provider_circuit_open: { by: ['verify'] },
  verification_batches_retried_total: { by: ['verify'], values: { service: SERVICE_SLUGS } },
  vendor_tasks: { by: ['verify'] },
  vendor_task_oldest_seconds: { by: ['verify'] },
  http_requests_total: { by: ['ingest'] },
  http_request_seconds: { by: ['ingest'] },
  preflight_oldest_age_seconds: { by: ['ingest'] },
  reference_data_age_seconds: { by: ['ingest'] },
  lists_refused: { by: ['ingest', 'verify'] },
  preflight_overloaded: { by: ['ingest'] },
  preflight_refusals_total: { by: ['ingest'], values: { lane: [...LANES, 'any'] } },
  requests_waiting: { by: ['ingest'] },
  requests_waiting_limit: { by: ['ingest'] },
  limits_local_total: { by: ['ingest'], values: {} },
  outbox_entries: { by: ['ledger'] },
  outbox_oldest_seconds: { by: ['ledger'] },
  accounts_outbox_entries: { by: ['ledger'] },
  access_log_oldest_seconds: { by: ['ledger'] },
  access_log_entries_missing: { by: ['ledger'] },
  erasures_pending: { by: ['ledger'] },
  erasure_oldest_seconds: { by: ['ledger'] },
  jobs_stalled: { by: ['ledger'] },
  journal_head_age_intervals: { by: ['ledger'] },
  journal_entries_missing: { by: ['ledger'] },
  tenants_frozen: { by: ['ledger'] },
  tenants_waiting: { by: ['ledger'] },
  organizations_without_keys: { by: ['ledger'] },
  snapshots_total: { by: ['ledger'] },
  jobs_open: { by: ['ledger'] },
  jobs_total: {
    by: ['ledger'], values: { event: ['accepted', 'settled', 'voided'], mode: MODES },
  },
  money_micros: { by: ['ledger'] },
  money_moved_micros_total: {
    by: ['ledger'],
    values: {
      movement: ['topped_up', 'added', 'taken', 'reserved', 'charged', 'released'], mode: MODES,
    },
  },
  recovery_actions_total: {
    by: ['ledger'],
    values: {
      kind: [
        'entry', 'key', 'job', 'recounted_job', 'tenant', 'frozen', 'erasure', 'ended_job',
        'stalled_job', 'account', 'organization_key',
      ],
    },
  },
  // `publish` does not use the time of Redis.
  redis_clock_offset_seconds: { by: STAGES.filter(name => name !== 'publish') },
  // lookup reports the cache, ledger the state.
  redis_memory_bytes: { by: ['lookup', 'ledger'] },
  redis_memory_limit_bytes: { by: ['lookup', 'ledger'] },
  redis_aof_bytes: { by: ['lookup', 'ledger'] },
  redis_persistence_failed: { by: ['lookup', 'ledger'] },
  kafka_partitions_under_replicated: { by: ['ledger'] },
  clickhouse_disk_bytes: { by: ['ledger'] },
  clickhouse_disk_free_bytes: { by: ['ledger'] },
  clickhouse_parts: { by: ['ledger'] },
  clickhouse_merge_seconds: { by: ['ledger'] },
  clickhouse_mutation_seconds: { by: ['ledger'] },
  webhook_attempts_total: {
    by: ['deliver'],
    values: [
      { outcome: ['delivered'], reason: [''] },
      { outcome: ['failed', 'exhausted'], reason: FAILURE_REASONS },
      { outcome: ['gone'], reason: ['status'] },
      { outcome: ['discarded'], reason: ['erased'] },
    ],
  },
  webhook_attempt_seconds: {
    by: ['deliver'], values: { outcome: ['delivered', 'failed', 'gone', 'exhausted'] },
  },
  webhook_attempts_throttled_total: { by: ['deliver'] },
  webhook_queue_depth: { by: ['deliver'] },
  feed_partners: { by: ['feed'] },
  feed_jobs_total: {
    by: ['feed'], values: { outcome: ['taken', 'moved', 'short', 'late', 'failed', 'lost'] },
  },
  feed_replays_total: { by: ['feed'] },
}

/** The series of a metric that a service reports from its start; none for other programs. */
export function initialSeriesOf (
  { name, labels }: { readonly name: string, readonly labels: readonly string[] }, service: string
): readonly Labels[] {
  const source = SOURCES[name as Name]
  const stage = source.by.find(known => known === service)
  if (stage === undefined) return []
  const own: Labels = labels.includes('stage') ? { stage } : {}
  if (source.bySubscription === true) {
    return subscriptionsOf(stage).map(({ lane = '', service = '' }) => ({ ...own, lane, service }))
  }
  if (source.byTopic === true) {
    return subscriptionsOf(stage).flatMap(({ topics }) => topics.map(topic => ({ topic })))
  }
  if (source.values === undefined) return []
  return [source.values].flat().flatMap(values => combinations(own, values as Values))
}

function combinations (own: Labels, values: Values): readonly Labels[] {
  return Object.entries(values).reduce<readonly Labels[]>((made, [label, each]) =>
    made.flatMap(labels => each.map(value => ({ ...labels, [label]: value }))), [own])
}
