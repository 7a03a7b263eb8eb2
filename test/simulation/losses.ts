import { deadTopic } from '../../services/runtime/platform/topics.ts'
import { listColumns } from '../../services/jobs/results/columns.ts'
import type { Job } from '../../services/jobs/job.ts'
import { jobBody } from '../../services/jobs/job-view.ts'
import type { StageName, TopicName } from '../../services/topology.ts'
import type { Evidence, Sent } from './evidence.ts'
import { idsOf } from './inputs.ts'
import type { Pipeline } from './pipeline.ts'
import type { Poisoned } from './poison.ts'

export type Complain = (about: string, expected: unknown, found: unknown) => void
type Cells = readonly (readonly string[])[]

const column = (name: string) => listColumns('phone-validation').indexOf(name)
const [INPUT, STATUS, SOURCE, REASON, ORIGINAL] =
  ['input', 'status', 'source', 'reason', 'duplicate_of'].map(column) as
  [number, number, number, number, number]

const READERS: Partial<Record<TopicName, StageName>> = {
  'rows.submitted': 'normalize',
  'rows.normalized': 'lookup',
  'rows.to-verify': 'verify',
  'rows.retry': 'verify',
  'rows.completed': 'settle',
}

/** Every broken message is a dead letter, and its job has an outcome. */
export async function checkLetters (evidence: Evidence, complain: Complain): Promise<void> {
  const { pipeline, sent } = evidence
  const accepted = new Set(sent.flatMap(({ outcome }) =>
    outcome.kind === 'accepted' ? [outcome.job.id] : []))
  const early = new Set<string>()
  for (const broken of [...pipeline.poisoned, ...pipeline.corruption.corrupted]) {
    const { tenant, job } = broken
    const isAccepted = accepted.has(job)
    // Requests that were lost with Redis leave no outcome, and neither do their refusals.
    const isForgotten = evidence.losses.length > 0 && !isAccepted
    // Until operators restore a reservation, stages skip the messages of its job as unknown.
    const isFoundLate = evidence.salvaged.some(entry => entry.job === job)
    if (!isForgotten && !isFoundLate) checkLetter(pipeline, broken, complain)
    const { kind } = await pipeline.store.outcome(tenant, job)
    complain(`${job} with broken chunks`, isAccepted ? 'accepted' : 'refused',
      isForgotten && kind === 'open' ? 'refused' : kind)
    if (kind !== 'accepted') early.add(job)
  }
  const refusals = sent.filter(({ outcome, isOutage }) => !isOutage &&
    outcome.kind === 'refused' && outcome.refusal.code === 'internal')
  complain('refusals that broken chunks explain', true, refusals.length <= early.size)
}

type Broken = { readonly topic: TopicName, readonly value: Buffer, readonly job: string }

/** The messages of a closed job whose key is lost are skipped. */
function checkLetter (
  { bus, corruption }: Pipeline, { topic, value, job }: Broken, complain: Complain
): void {
  const reader = READERS[topic] as StageName
  const letters = bus.messages(deadTopic(reader))
  complain(`a broken message of ${topic} in ${reader}.dead`, true,
    corruption.lostKeys.has(job) || letters.some(letter => letter.value?.equals(value)))
}

/**
 * The inputs of a job and their ids, the last cells, but for those of broken blocks, which may be
 * blank and nothing else.
 */
export function checkInputs (
  inputs: readonly string[],
  { cells, job, poisoned }: {
    readonly cells: Cells, readonly job: string, readonly poisoned: readonly Poisoned[]
  },
  complain: Complain
): void {
  const lost = new Set(lossesOf(job, poisoned).flatMap(loss => loss.inputs))
  complain(`${job} inputs`, inputs, cells.map((row, index) =>
    row[INPUT] === '' && lost.has(index) ? inputs[index] : row[INPUT]))
  const ids = idsOf(inputs)
  complain(`${job} ids`, ids, cells.map((row, index) =>
    row.at(-1) === '' && lost.has(index) ? ids[index] : row.at(-1)))
}

/**
 * Rows without a verdict because of an internal fault are those of broken messages and copies. When
 * lists change between two decisions of a job, nothing is reserved for as many rows as are not
 * suppressed any more.
 */
export function checkCounts (
  { id, counts }: Job,
  { cells, poisoned, released }: {
    readonly cells: Cells, readonly poisoned: readonly Poisoned[], readonly released: number,
  },
  complain: Complain
): void {
  const lost = new Set(lossesOf(id, poisoned).flatMap(({ rows }) => rows))
  const internal = [...cells.entries()].filter(([, row]) => row[REASON] === 'internal')
  const repeats = ([, row]: readonly [number, readonly string[]]) =>
    cells[Number(row[ORIGINAL]) - 1]?.[REASON] === 'internal'
  const withoutCause = internal.filter(row => !repeats(row)).map(([index]) => index)
    .filter(index => !lost.has(index))
  complain(`${id} rows lost without a reason`, [], withoutCause.slice(released))
  const of = (source: string) => cells.filter(row => row[SOURCE] === source)
  const none = of('none')
  const cancelled = none.filter(row => row[REASON] === 'cancelled').length
  const found = {
    cacheHits: of('cache').length,
    freshRecords: of('live').length,
    invalidRecords: of('preflight').length,
    duplicateRecords: of('duplicate').length,
    unknownRecords: none.length - cancelled,
    cancelledRecords: cancelled,
  }
  const names = Object.keys(found) as (keyof typeof found)[]
  complain(`${id} rows by source`, found,
    Object.fromEntries(names.map(name => [name, counts[name]])))
  const originalOf = (row: Cells[number]) => cells[Number(row[ORIGINAL]) - 1] ?? row
  const verdicts = cells.filter(row =>
    row[STATUS] !== 'unknown' && originalOf(row)[SOURCE] !== 'preflight')
  // Whether a lost row was a duplicate is unknown.
  const unexplained = counts.successRecords - verdicts.length
  complain(`${id} verdicts`, true, unexplained >= 0 && unexplained <= internal.length)
}

/**
 * The job shows how many rows of its file have which status and reason. It does not know them if it
 * lost a duplicate, which its original counts as well.
 */
export function checkVerdicts (job: Job, cells: Cells, complain: Complain): void {
  const isKnown = job.counts.duplicateRecords === job.preflight.duplicateRows
  const { verdicts, reasons } = jobBody(job, { metadata: {}, webhookUrl: '' })
  const sorted = (counts: object | null) => counts && Object.entries(counts).toSorted()
  const inFile = (column: number) => Object.fromEntries(
    [...Map.groupBy(cells, row => row[column])].map(([text, rows]) => [text, rows.length]))
  const none = { valid: 0, invalid: 0, risky: 0, unknown: 0 }
  complain(`${job.id} rows by status`,
    isKnown ? sorted({ ...none, ...inFile(STATUS) }) : null, sorted(verdicts))
  complain(`${job.id} rows by reason`, isKnown ? sorted(inFile(REASON)) : null, sorted(reasons))
}

/**
 * A job with a corrupted chunk may fail: all its rows are lost, and the inputs of that chunk. One
 * whose reservation operators restored too late loses everything.
 */
export function wholeJobs (
  { pipeline: { corruption }, salvaged }: Evidence, { tenant, inputs, outcome }: Sent
): readonly Poisoned[] {
  const id = outcome.kind === 'accepted' ? outcome.job.id : ''
  const rows = inputs.map((_, row) => row)
  const found = salvaged.filter(({ job }) => job === id)
    .map(({ job }): Poisoned =>
      ({ topic: 'rows.completed', value: Buffer.alloc(0), tenant, job, rows, inputs: rows }))
  return [...found, ...corruption.corrupted.filter(({ job }) => job === id)
    .map((one): Poisoned => ({ ...one, topic: 'rows.completed', rows }))]
}

/**
 * A broken chunk before `accept` has its job refused, and afterwards it can only be a repetition of
 * a whole one: it costs an accepted job nothing.
 */
const lossesOf = (id: string, poisoned: readonly Poisoned[]) =>
  poisoned.filter(({ job, topic }) => job === id && topic !== 'rows.normalized')
