import { SERVICE_SLUGS, type ServiceSlug } from '../schemas/api/parts.ts'

/**
 * The pipeline as data. Each stage writes to topics that later stages read, with three exceptions:
 * `rows.retry` (verify to itself), `feeds.finished` (partners read it) and `ledger` (completes what
 * other stages left: entries in an outbox, erasures of keys; emits `job.accepted`; writes the
 * access log that it copies, and what only a recovery reads).
 * Topics, consumer groups, dead-letter topics, schema subjects, the diagram of
 * deploy/docs/architecture.md and the types of all stages follow from it.
 */

/** Jobs of up to this many rows use the lane `small`, so they never wait behind larger ones. */
export const SMALL_LANE_ROWS = 1_000

export const LANES = ['small', 'bulk'] as const

export { SERVICE_SLUGS, type ServiceSlug }

/**
 * What a root key of its own protects: inputs and results of jobs; webhook addresses and the
 * secrets that sign webhooks; the keys of feed partners. A process has only the classes that it
 * needs, so one that only sends webhooks opens no result.
 */
export const KEY_CLASSES = ['results', 'webhooks', 'partners'] as const

export type KeyClass = typeof KEY_CLASSES[number]

const hours = { week: 168, month: 720, quarter: 2_184, forever: -1 } as const
const { week, month, quarter, forever } = hours

/** Why the number of partitions of a topic cannot change once it exists. */
const fixed = {
  partner: 'contacts are signed for one of its partitions, and a partner chooses their number ' +
    'when it is registered',
  journal: 'snapshots of wallets name the offsets to read on from, for which all entries of a ' +
    'tenant must be in one partition',
  compacted: 'compaction keeps the last message of a key only within one partition',
  accounts: 'it is read as a whole after a loss of Redis, so more partitions are of no use',
  access: 'the number of an entry is its position in the only partition',
} as const

export const topology = {
  topics: {
    'feeds.submitted': {
      key: 'reference', split: 'partner', partitions: 1, keepHours: week, fixed: fixed.partner,
    },
    'rows.submitted': { key: 'job:chunk', split: 'lane', partitions: 4, keepHours: week },
    'rows.normalized': { key: 'job', split: 'lane', partitions: 4, keepHours: week },
    'rows.to-verify': {
      key: 'job:chunk:batch', split: 'lane:service', partitions: 4, keepHours: week,
    },
    'rows.retry': {
      key: 'job:chunk:batch', split: 'lane:service', partitions: 1, keepHours: week,
    },
    'rows.completed': { key: 'job', split: 'lane', partitions: 4, keepHours: week },
    'jobs.settled': { key: 'job', split: 'none', partitions: 2, keepHours: week },
    'jobs.events': { key: 'job', split: 'none', partitions: 2, keepHours: week },
    'wallet.journal': {
      key: 'tenant', split: 'none', partitions: 2, keepHours: forever, fixed: fixed.journal,
    },
    'job.keys': {
      key: 'job',
      split: 'none',
      partitions: 2,
      keepHours: quarter,
      compact: true,
      fixed: fixed.compacted,
    },
    'access.log': {
      key: 'organization', split: 'none', partitions: 1, keepHours: forever, fixed: fixed.access,
    },
    'organization.keys': {
      key: 'organization:class:version',
      split: 'none',
      partitions: 1,
      keepHours: forever,
      compact: true,
      fixed: fixed.compacted,
    },
    'wallet.snapshots': {
      key: 'tenant',
      split: 'none',
      partitions: 2,
      keepHours: forever,
      compact: true,
      fixed: fixed.compacted,
    },
    accounts: {
      key: 'name', split: 'none', partitions: 1, keepHours: forever, fixed: fixed.accounts,
    },
    'contact.lists': {
      key: 'organization', split: 'none', partitions: 1, keepHours: forever, fixed: fixed.accounts,
    },
    'feeds.finished': {
      key: 'reference', split: 'partner', partitions: 1, keepHours: week, fixed: fixed.partner,
    },
  },
  stages: {
    ingest: {
      reads: [], writes: ['rows.submitted', 'job.keys'], keys: ['results', 'webhooks'],
    },
    feed: {
      reads: ['feeds.submitted'],
      writes: ['rows.submitted', 'job.keys', 'feeds.finished'],
      keys: ['partners'],
    },
    normalize: {
      reads: ['rows.submitted'], writes: ['rows.normalized'], keys: ['results'],
    },
    lookup: {
      reads: ['rows.normalized'],
      writes: ['rows.to-verify', 'rows.completed', 'wallet.journal'],
      keys: ['results'],
    },
    verify: {
      reads: ['rows.to-verify', 'rows.retry'],
      writes: ['rows.completed', 'rows.retry'],
      keys: ['results'],
    },
    settle: {
      reads: ['rows.completed'],
      writes: ['jobs.settled', 'jobs.events', 'wallet.journal'],
      keys: ['results'],
    },
    deliver: { reads: ['jobs.settled', 'jobs.events'], writes: [], keys: ['webhooks'] },
    publish: {
      reads: ['jobs.settled'], writes: ['feeds.finished'], keys: ['results', 'partners'],
    },
    ledger: {
      reads: ['wallet.journal', 'job.keys', 'access.log'],
      writes: [
        'wallet.journal', 'job.keys', 'wallet.snapshots', 'accounts', 'access.log',
        'organization.keys', 'contact.lists', 'jobs.settled', 'jobs.events',
      ],
      keys: ['results'],
    },
  },
  /** Topics that are read after a loss of Redis, in temporary consumer groups. */
  recovery: {
    all: ['job.keys'],
    ledger: [
      'rows.completed', 'wallet.snapshots', 'accounts', 'organization.keys', 'contact.lists',
    ],
  },
  dead: { partitions: 1, keepHours: month },
} as const satisfies Topology

/**
 * How a topic is split: not at all, by lane, by lane and service, or by partner. Partner topics are
 * created when a partner is registered.
 */
type Split = 'none' | 'lane' | 'lane:service' | 'partner'
export type Lane = typeof LANES[number]
export type TopicName = keyof typeof topology.topics
export type StageName = keyof typeof topology.stages
/** The classes of root keys that each process has; operators' commands have all. */
export const PROCESS_KEYS: Readonly<Record<StageName | 'page', readonly KeyClass[]>> = {
  ...Object.fromEntries(Object.entries(topology.stages).map(([name, { keys }]) =>
    [name, keys])) as unknown as Readonly<Record<StageName, readonly KeyClass[]>>,
  page: ['webhooks'],
}
/** All stages, in the order of the pipeline. */
export const STAGES = Object.keys(topology.stages) as readonly StageName[]
/** Stages on the engine: `ingest` reads no topic, and `feed` has a consumer of its own. */
export const ENGINE_STAGES = STAGES.filter(stage => stage !== 'ingest' && stage !== 'feed')
/** The steps of the engine, in their order, as named in metrics and failpoints. */
export const ENGINE_STEPS = [
  'decode', 'open', 'decide', 'seal', 'produce', 'dead', 'after', 'commit',
] as const
export type EngineStep = typeof ENGINE_STEPS[number]
/** The stages that read messages, so they have dead letters. */
export const READING_STAGES = STAGES.filter(stage => topology.stages[stage].reads.length > 0)
/** Stages that can be paused: all with messages, except `ledger`, which all money needs. */
export const PAUSABLE_STAGES: readonly StageName[] =
  READING_STAGES.filter(stage => stage !== 'ledger')
export type ReadsOf<S extends StageName> = typeof topology.stages[S]['reads'][number]
export type WritesOf<S extends StageName> = typeof topology.stages[S]['writes'][number]
/**
 * Topics between stages. Partner topics have their own seals, keys and producers, no stage reads
 * `accounts`, `organization.keys` and `contact.lists`, and `access.log` belongs to no tenant.
 */
export type InnerTopic = {
  [T in TopicName]: typeof topology.topics[T]['split'] extends 'partner' ? never : T
}[Exclude<TopicName, 'accounts' | 'access.log' | 'organization.keys' | 'contact.lists'>]

type Topology = {
  readonly topics: Readonly<Record<string, {
    readonly key: 'tenant' | 'organization' | 'name' | 'reference' | 'job' | 'job:chunk' |
      'job:chunk:batch' | 'organization:class:version'
    readonly split: Split
    readonly partitions: number
    readonly keepHours: number
    readonly compact?: true
    /** Why its partitions cannot grow. Without it, they may grow at any time. */
    readonly fixed?: string
  }>>
  readonly stages: Readonly<Record<string, {
    readonly reads: readonly string[]
    readonly writes: readonly string[]
    /** The classes of its root keys. */
    readonly keys: readonly KeyClass[]
  }>>
  readonly recovery: Readonly<Record<'all' | 'ledger', readonly string[]>>
  readonly dead: { readonly partitions: number, readonly keepHours: number }
}
