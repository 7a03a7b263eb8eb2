/** Every metric there is: one list, so that dashboards, alerts and documents have one source. */
export const METRICS = [
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
    help:
      'Age of the oldest message handed over and not yet processed; 0 when idle. Scale ' +
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
    name: 'stage_skips_total',
    type: 'counter',
    labels: ['stage', 'reason'],
    help: 'Messages that concern nobody any more.',
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
    name: 'cache_lookups_total',
    type: 'counter',
    labels: ['service', 'outcome'],
    help: 'Cache look-ups: hit, stale, miss or down.',
  },
  {
    name: 'provider_checks_total',
    type: 'counter',
    labels: ['service', 'provider', 'outcome'],
    help:
      'Rows checked live, by the number of the provider: valid, invalid, risky, unknown ' +
      'or the kind of failure.',
  },
  {
    name: 'provider_call_seconds',
    type: 'histogram',
    labels: ['service', 'provider'],
    help: 'Duration of calls to a provider, by its number.',
  },
  {
    name: 'parts_put_off_total',
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
    name: 'preflight_behind',
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
    name: 'jobs_stalled',
    type: 'gauge',
    labels: [],
    help: 'Open jobs without progress for so long that they are given up, unless rows still wait.',
  },
  {
    name: 'tenants_frozen',
    type: 'gauge',
    labels: [],
    help: 'Tenants whose money cannot be explained and does not move; told by the leading ledger.',
  },
  {
    name: 'recovered_total',
    type: 'counter',
    labels: ['what'],
    help: 'What was found left over and brought to its end.',
  },
  {
    name: 'redis_clock_offset_seconds',
    type: 'gauge',
    labels: [],
    help: 'Redis TIME minus the clock of this machine.',
  },
  {
    name: 'webhook_attempts_total',
    type: 'counter',
    labels: ['outcome', 'reason'],
    help:
      'Attempts to hand an event to its receiver: delivered, failed (another follows), gone, ' +
      'exhausted or discarded; and why, but for those delivered.',
  },
  {
    name: 'webhook_attempt_seconds',
    type: 'histogram',
    labels: ['outcome'],
    help: 'Duration of those attempts for which a connection was tried.',
  },
  {
    name: 'webhooks_due',
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
    help: 'Jobs asked for by feeds: taken, moved (others of its contacts are next), refused (no ' +
      'balance or slot), late or failed.',
  },
] as const satisfies readonly MetricDefinition[]

export type MetricDefinition = {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly labels: readonly string[]
  readonly help: string
}
