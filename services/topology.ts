/**
 * The whole pipeline on one page: data only. Rows flow down this page; the two declared
 * exceptions are `rows.retry` (verify to itself) and `ledger` (which ships its own left-overs).
 * Topics, consumer groups, dead-letter topics, schema subjects, the drawing of
 * deploy/docs/architecture.md and the types of every stage come from here.
 */

/** A job of up to so many rows travels in the lane `small`, so it never waits behind big ones. */
export const SMALL_LANE_ROWS = 1_000

export const LANES = ['small', 'bulk'] as const

export const SERVICE_SLUGS = [
  'phone-validation', 'whatsapp', 'telegram', 'carrier-single', 'carrier-lookup',
  'email-validation',
] as const

const hours = { week: 168, month: 720, quarter: 2_184, forever: -1 } as const
const { week, month, quarter, forever } = hours

export const topology = {
  topics: {
    'feeds.submitted': { key: 'reference', split: 'partner', partitions: 4, keepHours: week },
    'rows.submitted': { key: 'job:chunk', split: 'lane', partitions: 4, keepHours: week },
    'rows.normalized': { key: 'job', split: 'lane', partitions: 4, keepHours: week },
    'rows.to-verify': { key: 'job:chunk:part', split: 'service', partitions: 4, keepHours: week },
    'rows.retry': { key: 'job:chunk:part', split: 'service', partitions: 1, keepHours: week },
    'rows.completed': { key: 'job', split: 'lane', partitions: 4, keepHours: week },
    'jobs.settled': { key: 'job', split: 'none', partitions: 2, keepHours: week },
    'wallet.journal': { key: 'tenant', split: 'none', partitions: 2, keepHours: forever },
    'job.keys': { key: 'job', split: 'none', partitions: 2, keepHours: quarter, compact: true },
    'wallet.snapshots': {
      key: 'tenant', split: 'none', partitions: 2, keepHours: forever, compact: true,
    },
    accounts: { key: 'name', split: 'none', partitions: 1, keepHours: forever },
    'feeds.finished': { key: 'reference', split: 'partner', partitions: 4, keepHours: week },
  },
  stages: {
    ingest: { reads: [], writes: ['rows.submitted', 'job.keys'] },
    feed: {
      reads: ['feeds.submitted'],
      writes: ['rows.submitted', 'job.keys', 'feeds.finished'],
    },
    normalize: { reads: ['rows.submitted'], writes: ['rows.normalized'] },
    lookup: {
      reads: ['rows.normalized'],
      writes: ['rows.to-verify', 'rows.completed', 'wallet.journal'],
    },
    verify: { reads: ['rows.to-verify', 'rows.retry'], writes: ['rows.completed', 'rows.retry'] },
    settle: { reads: ['rows.completed'], writes: ['jobs.settled', 'wallet.journal'] },
    deliver: { reads: ['jobs.settled'], writes: [] },
    publish: { reads: ['jobs.settled'], writes: ['feeds.finished'] },
    ledger: {
      reads: ['wallet.journal', 'job.keys'],
      writes: ['wallet.journal', 'wallet.snapshots', 'accounts', 'jobs.settled'],
    },
  },
  /** What is read where Redis has lost something, in groups that last for one reading. */
  recovery: { all: ['job.keys'], ledger: ['rows.completed', 'wallet.snapshots', 'accounts'] },
  dead: { partitions: 1, keepHours: month },
} as const satisfies Topology

/**
 * How a topic is divided: not at all, one a lane, one a lane and service, or one a partner. Those
 * of partners are made when a partner is registered.
 */
export type Split = 'none' | 'lane' | 'service' | 'partner'
export type Lane = typeof LANES[number]
export type ServiceSlug = typeof SERVICE_SLUGS[number]
export type TopicName = keyof typeof topology.topics
export type StageName = keyof typeof topology.stages
/** All stages, in the order of the pipeline. */
export const STAGES = Object.keys(topology.stages) as readonly StageName[]
/** Those that have messages, and so dead letters. */
export const READING_STAGES = STAGES.filter(stage => topology.stages[stage].reads.length > 0)
export type ReadsOf<S extends StageName> = typeof topology.stages[S]['reads'][number]
export type WritesOf<S extends StageName> = typeof topology.stages[S]['writes'][number]
/**
 * Topics between stages; those of partners are sealed, keyed and sent in a way of their own, and
 * `accounts` is no stage's input.
 */
export type InnerTopic = {
  [T in TopicName]: typeof topology.topics[T]['split'] extends 'partner' ? never : T
}[Exclude<TopicName, 'accounts'>]

type Topology = {
  readonly topics: Readonly<Record<string, {
    readonly key: 'tenant' | 'name' | 'reference' | 'job' | 'job:chunk' | 'job:chunk:part'
    readonly split: Split
    readonly partitions: number
    readonly keepHours: number
    readonly compact?: true
  }>>
  readonly stages: Readonly<Record<string, {
    readonly reads: readonly string[]
    readonly writes: readonly string[]
  }>>
  readonly recovery: Readonly<Record<'all' | 'ledger', readonly string[]>>
  readonly dead: { readonly partitions: number, readonly keepHours: number }
}
