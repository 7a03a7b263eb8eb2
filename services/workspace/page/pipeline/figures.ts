import type { Sample } from '../../../lib/exposition.ts'
import { logicalTopic } from '../../../lib/topics.ts'
import type { StageName } from '../../../topology.ts'
import { ARROWS, readersOf, STAGES, type Arrow } from './arrows.ts'

/** What all services told at one moment, by the address of each. */
export type Snapshot = {
  readonly atMs: number
  readonly byTarget: ReadonlyMap<string, readonly Sample[]>
}

/** What goes along an arrow; undefined where nobody tells. */
export type ArrowFigures = {
  readonly messagesPerSecond: number | undefined
  /** Messages written and not yet finished by the stage that reads. */
  readonly lagMessages: number | undefined
}

export type StageFigures = {
  readonly instances: number
  /** What a stage does a second: rows, but for those that get none from a topic of ours. */
  readonly perSecond: number | undefined
  readonly oldestSeconds: number | undefined
  /** Any of its processes has heard of a pause by operators. */
  readonly isPaused: boolean
}

export type Figures = {
  readonly arrows: ReadonlyMap<string, ArrowFigures>
  readonly stages: ReadonlyMap<StageName, StageFigures>
  /** Tenants whose money does not move until `ledger` has compared it with the journal. */
  readonly tenantsWaiting: number
}

/** The metrics that the drawing is made from. */
export const METRIC_NAMES: ReadonlySet<string> = new Set([
  'stage_rows_total', 'stage_chunks_total', 'stage_oldest_age_seconds', 'consumer_offset',
  'consumer_lag_messages', 'http_requests_total', 'preflight_oldest_age_seconds',
  'feed_jobs_total', 'feed_partners', 'stage_paused', 'tenants_waiting',
])

/** The metrics of a stage: what it counts, and what only it tells. */
type Sources = { readonly done: string, readonly presence: string, readonly age: string }

const AGE = 'stage_oldest_age_seconds'
const OTHER_SOURCES: Partial<Record<StageName, Sources>> = {
  ingest: {
    done: 'http_requests_total',
    presence: 'preflight_oldest_age_seconds',
    age: 'preflight_oldest_age_seconds',
  },
  feed: { done: 'feed_jobs_total', presence: 'feed_partners', age: '' },
  // Their messages carry no rows.
  deliver: { done: 'stage_chunks_total', presence: AGE, age: AGE },
  publish: { done: 'stage_chunks_total', presence: AGE, age: AGE },
  ledger: { done: 'stage_chunks_total', presence: AGE, age: AGE },
}
const SOURCES: Sources = { done: 'stage_rows_total', presence: AGE, age: AGE }

/** Rates between two snapshots, and lags of the later one. */
export function figuresOf (before: Snapshot, after: Snapshot): Figures {
  const seconds = (after.atMs - before.atMs) / 1_000
  const [old, fresh] = [positionsOf(before), positionsOf(after)]
  return {
    arrows: new Map(ARROWS.map(arrow =>
      [arrow.id, arrowFigures(arrow, { old, fresh, seconds })])),
    stages: new Map(STAGES.map(stage => [stage, stageFigures(stage, { before, after, seconds })])),
    tenantsWaiting: Math.max(0, ...[...after.byTarget.values()].flat()
      .filter(({ name }) => name === 'tenants_waiting').map(({ value }) => value)),
  }
}

/** Where a group stands in the topics it reads: finished, and written. */
type Position = { readonly finished: number, readonly written: number }
type Positions = ReadonlyMap<string, Position>
type Movement = { readonly old: Positions, readonly fresh: Positions, readonly seconds: number }

function arrowFigures ({ kind, stage, topic }: Arrow, movement: Movement): ArrowFigures {
  // Only who reads knows how much was written, all writers together.
  const reader = kind === 'reads' ? stage : readersOf(topic)[0]
  const key = `${reader}>${topic}`
  const [old, fresh] = [movement.old.get(key), movement.fresh.get(key)]
  if (fresh === undefined) return { messagesPerSecond: undefined, lagMessages: undefined }
  const end = kind === 'reads' ? 'finished' : 'written'
  return {
    messagesPerSecond: old && rate(fresh[end] - old[end], movement.seconds),
    lagMessages: kind === 'reads' ? fresh.written - fresh.finished : undefined,
  }
}

function positionsOf ({ byTarget }: Snapshot): Positions {
  // More than one process may tell of a partition; what it says grows, so the most is the latest.
  const partitions = new Map<string, { key: string, offset: number, lag: number }>()
  for (const { name, labels, value } of [...byTarget.values()].flat()) {
    const topic = logicalTopic(labels.topic ?? '')?.topic
    if (topic === undefined) continue
    const id = `${labels.group} ${labels.topic} ${labels.partition}`
    const known = partitions.get(id) ?? { key: `${labels.stage}>${topic}`, offset: 0, lag: 0 }
    if (name === 'consumer_offset') known.offset = Math.max(known.offset, value)
    if (name === 'consumer_lag_messages') known.lag = Math.max(known.lag, value)
    partitions.set(id, known)
  }
  const positions = new Map<string, Position>()
  for (const { key, offset, lag } of partitions.values()) {
    const { finished, written } = positions.get(key) ?? { finished: 0, written: 0 }
    positions.set(key, { finished: finished + offset, written: written + offset + lag })
  }
  return positions
}

type Span = { readonly before: Snapshot, readonly after: Snapshot, readonly seconds: number }

function stageFigures (stage: StageName, { before, after, seconds }: Span): StageFigures {
  const { done, presence, age } = OTHER_SOURCES[stage] ?? SOURCES
  const ofStage = (samples: readonly Sample[] = [], name: string) => samples.filter(one =>
    one.name === name && (one.labels.stage ?? stage) === stage).map(({ value }) => value)
  const ages: number[] = []
  let [instances, more, paused] = [0, 0, 0]
  for (const [target, samples] of after.byTarget) {
    if (ofStage(samples, presence).length === 0) continue
    instances += 1
    ages.push(...ofStage(samples, age))
    paused += sumOf(ofStage(samples, 'stage_paused'))
    const earlier = before.byTarget.get(target)
    if (earlier === undefined) continue
    // A process that was started anew counts from 0.
    more += Math.max(0, sumOf(ofStage(samples, done)) - sumOf(ofStage(earlier, done)))
  }
  return {
    instances,
    perSecond: instances === 0 ? undefined : rate(more, seconds),
    oldestSeconds: ages.length === 0 ? undefined : Math.max(...ages),
    isPaused: paused > 0,
  }
}

function rate (more: number, seconds: number): number | undefined {
  return seconds > 0 ? Math.max(0, more) / seconds : undefined
}

function sumOf (numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0)
}
