import type { StageName, TopicName } from '../topology.ts'

/** How the figures below were measured. deploy/docs/scaling.md lists all of this. */
export const MEASUREMENTS = {
  large: '2026-11-22: jobs of 100,000 fresh rows with their results downloaded (`npm run bench`)',
  small: '2026-11-25: 140 fresh one-row jobs a second, all services in two processes',
  divided: '2026-11-25: the 4.5 ms of all stages in one process (`small`), divided in proportion ' +
    'to their CPU in nine processes at 50 jobs a second (`npm run bench -- --small`)',
  inserts: '2026-11-25: the 2.5 ms of `small` without ten inserts of 15 ms a second',
  slow: '2026-11-25: `npm run bench -- --small` with nine processes at 50 jobs a second',
  webhooks: '2026-11-22: 2,000 one-row jobs with a webhook (`npm run bench -- --webhooks`)',
  bytes: '2026-11-25: growth of topics, tables and the file of the state Redis by four jobs of ' +
    '100,000 rows, and by 1,985 one-row jobs',
} as const

type Measurement = keyof typeof MEASUREMENTS

/** The stores, and the webhooks that `deliver` sends. */
export type Store = 'webhooks' | 'redis-cache' | 'redis-state' | 'kafka' | 'clickhouse'
export type Component = StageName | Store

/** An amount for each row, and one for each job. */
type Cost = { readonly row: number, readonly job: number, readonly sources: readonly Measurement[] }

const anyChunk = 'instances; any takes any chunk'
const elected = 'one leader, or partners spread over instances; a row costs less than this'

/** CPU: microseconds per row, which is seconds per million rows, and milliseconds per job. */
export const CPU_COSTS = {
  ingest: {
    row: 2,
    job: 1.9,
    sources: ['large', 'small'],
    scalesBy: 'instances behind a load balancer; half of the cost per row is the download',
  },
  feed: { row: 0.3, job: 0, sources: ['large'], scalesBy: elected },
  normalize: { row: 2.2, job: 0.8, sources: ['large', 'divided'], scalesBy: anyChunk },
  lookup: {
    row: 1.6,
    job: 1.07,
    sources: ['large', 'divided'],
    scalesBy: 'instances; all chunks of a job go to one',
  },
  verify: {
    row: 3.5,
    job: 1,
    sources: ['large', 'divided'],
    scalesBy: 'instances, each service separately (`LANES`, `SERVICES`); the cost is that of ' +
      '`numbering-plan`, slow providers wait and use little CPU',
  },
  settle: { row: 0.7, job: 1, sources: ['large', 'divided'], scalesBy: 'instances' },
  deliver: {
    row: 0, job: 0.19, sources: ['divided'], scalesBy: 'instances; without the webhooks it sends',
  },
  publish: { row: 0.3, job: 0.27, sources: ['large', 'divided'], scalesBy: elected },
  ledger: { row: 0.3, job: 0.17, sources: ['large', 'divided'], scalesBy: elected },
  webhooks: {
    row: 0,
    job: 2,
    sources: ['webhooks'],
    scalesBy: 'instances of `deliver`, also those without a partition; one webhook per job',
  },
  'redis-cache': {
    row: 5,
    job: 0.3,
    sources: ['large', 'slow'],
    scalesBy: 'memory first, then a cluster; 3.5 per million rows until it evicts',
  },
  'redis-state': {
    row: 0.5,
    job: 1,
    sources: ['large', 'small'],
    scalesBy: 'one thread and a disk with fast `fsync`',
  },
  kafka: {
    row: 1.1,
    job: 1.9,
    sources: ['large', 'small'],
    scalesBy: 'brokers, partitions; measured without replicas',
  },
  clickhouse: {
    row: 1.2,
    job: 1.4,
    sources: ['large', 'inserts'],
    scalesBy: 'replicas, shards by tenant; inserts of small jobs come in addition',
  },
} as const satisfies Readonly<Record<Component, Cost & { readonly scalesBy: string }>>

/**
 * Bytes in each topic, compressed and with one replica. The topics that are missing here hold
 * little, or depend on partners and subscribers.
 */
export const TOPIC_BYTES = {
  'rows.submitted': { row: 4.5, job: 530, sources: ['bytes'] },
  'rows.normalized': { row: 24, job: 560, sources: ['bytes'] },
  'rows.to-verify': { row: 20, job: 520, sources: ['bytes'] },
  'rows.completed': { row: 18, job: 1_250, sources: ['bytes'] },
  'jobs.settled': { row: 0, job: 330, sources: ['bytes'] },
  'job.keys': { row: 0, job: 360, sources: ['bytes'] },
  'wallet.journal': { row: 0, job: 1_200, sources: ['bytes'] },
} as const satisfies Partial<Readonly<Record<TopicName, Cost>>>

/** Days until results expire in ClickHouse; the keys of their jobs expire a little earlier. */
export const RESULT_DAYS = 97

/** Bytes in the tables of ClickHouse: what expires, and final records and journal, which do not. */
export const TABLE_BYTES = {
  results: { row: 16, job: 700, sources: ['bytes'] },
  history: { row: 0.25, job: 610, sources: ['bytes'] },
} as const satisfies Readonly<Record<string, Cost>>

type Figure = {
  readonly value: number
  readonly means: string
  readonly sources: readonly Measurement[]
}

/** All other figures. */
export const FIGURES = {
  stateCommands: { value: 40, means: 'commands of the state Redis per job', sources: ['small'] },
  appendBytes: {
    value: 6_500,
    means: 'bytes per job in the append-only file of the state Redis',
    sources: ['bytes'],
  },
  appendGroupBytes: {
    value: 1_000,
    means: 'bytes of that file in a group of commands, which needs one `fsync`',
    sources: ['small'],
  },
  closedJobBytes: {
    value: 4_400,
    means: 'bytes of the state Redis per job, for ten minutes after its close',
    sources: ['small'],
  },
  idempotencyKeyBytes: {
    value: 145,
    means: 'bytes of the state Redis per job with an idempotency key, for 24 hours',
    sources: ['small'],
  },
  cacheEntryBytes: {
    value: 400, means: 'bytes of the cache Redis per contact', sources: ['large'],
  },
  insertMs: {
    value: 15,
    means: 'milliseconds of CPU of ClickHouse per insert, whatever it holds',
    sources: ['small'],
  },
  insertsPerSecond: {
    value: 10,
    means: 'inserts of small jobs a second by an instance of `settle`, at most',
    sources: ['small'],
  },
} as const satisfies Readonly<Record<string, Figure>>
