import type { Sample } from '../../lib/exposition.ts'
import { positiveOf } from '../numbers.ts'
import { stageOf } from '../stages.ts'
import { UsageError } from '../../lib/run-command.ts'

/** CPU seconds per 100,000 rows, by the name of a stage or of a part such as `kafka`. */
export type Costs = Readonly<Record<string, number>>

export const ROWS = 100_000

/** What a saved run of the benchmark measured of one fresh big job. */
export type SavedRun = {
  readonly rows: number
  readonly processes: readonly { readonly name: string, readonly cpuSeconds: number }[]
}

/** The costs of a saved run; several instances of a stage count as one. */
export function costsOfRun ({ rows, processes }: SavedRun): Costs {
  const costs: Record<string, number> = {}
  for (const { name, cpuSeconds } of processes) {
    const part = name.replace(/-\d+$/, '')
    costs[part] = (costs[part] ?? 0) + cpuSeconds * ROWS / rows
  }
  return costs
}

/** Costs as they were typed, `verify=0.65`; throws UsageError for any other text. */
export function costsIn (texts: readonly string[]): Costs {
  return Object.fromEntries(texts.map(text => {
    const [stage = '', seconds = '', ...more] = text.split('=')
    if (more.length > 0 || seconds === '') {
      throw new UsageError('--cost is stage=seconds, for example --cost verify=0.65.')
    }
    return [stageOf(stage), positiveOf(`--cost ${stage}`, seconds)]
  }))
}

/** The metrics that costs are made from. */
export const COST_METRICS: ReadonlySet<string> = new Set([
  'process_cpu_seconds_total', 'stage_rows_total', 'stage_chunks_total', 'http_requests_total',
  'preflight_oldest_age_seconds', 'feed_partners',
])

/** Of fewer rows the start of the processes would be most of what is measured. */
const LEAST_ROWS = 20_000

/**
 * Costs since the services were started. Rows are counted where all of them come in, so that every
 * stage is told per row of a job, whatever part of them it sees itself.
 * @throws UsageError when too little has run to tell.
 */
export function costsOfMetrics (processes: readonly (readonly Sample[])[]): Costs {
  const rows = sumOf(processes.flat().filter(({ name, labels }) =>
    name === 'stage_rows_total' && labels.stage === 'normalize'))
  if (rows < LEAST_ROWS) {
    throw new UsageError(`The services that answer have done ${rows} rows since their start, ` +
      `which is too few to tell costs: at least ${LEAST_ROWS}. Give them work, or name costs by ` +
      '--cost stage=seconds (CPU seconds per 100,000 rows), or save a measurement by ' +
      '"npm run bench -- --save".')
  }
  const costs: Record<string, number> = {}
  for (const samples of processes) {
    const stage = stageIn(samples)
    if (stage === undefined) continue
    const cpu = sumOf(samples.filter(({ name }) => name === 'process_cpu_seconds_total'))
    costs[stage] = (costs[stage] ?? 0) + cpu * ROWS / rows
  }
  return costs
}

/** The stage a process is of, as its metrics tell it; undefined for other programs. */
function stageIn (samples: readonly Sample[]): string | undefined {
  const names = new Set(samples.map(({ name }) => name))
  if (names.has('preflight_oldest_age_seconds')) return 'ingest'
  if (names.has('feed_partners')) return 'feed'
  return samples.find(({ name }) => name === 'stage_chunks_total')?.labels.stage
}

function sumOf (samples: readonly Sample[]): number {
  return samples.reduce((sum, { value }) => sum + value, 0)
}
