import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Sample } from '../platform/metrics-reader.ts'
import { UsageError } from '../platform/run-command.ts'
import { ENGINE_STAGES, STAGES } from '../topology.ts'
import { parsePositive, parseStage, type CommandCall } from './command-line.ts'
import { metricsTargets, queryMetrics } from './metrics.ts'

/** CPU seconds per 100,000 rows, by the name of a stage or of a store such as `kafka`. */
export type Costs = Readonly<Record<string, number>>

/** The number of rows that costs refer to. */
export const COST_ROWS = 100_000

/** Costs and a description of their source. */
type MeasuredCosts = { readonly costs: Costs, readonly source: string }

type CostCall =
  Pick<CommandCall<{ readonly cost?: readonly string[] }>, 'env' | 'folder' | 'options'>

/**
 * Returns the costs of the newest saved measurement; without one those of `--cost`; without these
 * the costs from the metrics of the services. `--cost` overrides measured costs by stage.
 */
export async function measureCosts (
  { env, folder, options: { cost = [] } }: CostCall, root: string
): Promise<MeasuredCosts> {
  const given = parseCosts(cost)
  const saved = await readNewestRun(root)
  if (saved !== undefined) {
    const source = cost.length === 0 ? saved.source : `${saved.source} and --cost`
    return { costs: { ...saved.costs, ...given }, source }
  }
  if (cost.length > 0) return { costs: given, source: '--cost' }
  const { processes } = await queryMetrics(await metricsTargets(env, folder), COST_METRICS)
  return { costs: costsOfMetrics(processes), source: 'the services since their start' }
}

/** Parses costs like `verify=0.65`. Throws UsageError for any other text. */
export function parseCosts (texts: readonly string[]): Costs {
  return Object.fromEntries(texts.map(text => {
    const [stage = '', seconds = '', ...more] = text.split('=')
    if (more.length > 0 || seconds === '') {
      throw new UsageError(`--cost ${text} is not stage=seconds, for example verify=0.65.`)
    }
    return [parseStage(stage), parsePositive(`--cost ${stage}`, seconds)]
  }))
}

/** The measurement of one large job without cache hits, saved by the benchmark. */
type SavedRun = {
  readonly rows: number
  readonly processes: readonly { readonly name: string, readonly cpuSeconds: number }[]
}

/** Where `npm run bench -- --save` stores its results, relative to the project. */
const RESULTS = 'test/bench/results'

/**
 * Reads the newest saved measurement by file name whose stages had processes of their own;
 * undefined when there is none.
 */
export async function readNewestRun (root: string): Promise<MeasuredCosts | undefined> {
  const names = await readdir(join(root, RESULTS)).catch(() => [])
  for (const name of names.filter(name => name.endsWith('.json')).toSorted().reverse()) {
    const file = `${RESULTS}/${name}`
    const run = JSON.parse(await readFile(join(root, file), 'utf8')) as Partial<SavedRun>
    if (run.rows === undefined || run.processes === undefined) {
      throw new UsageError(
        `${file} has no costs. Save a new measurement: "npm run bench -- --processes 9 --save".`)
    }
    const costs = costsOfRun({ rows: run.rows, processes: run.processes })
    // A process that hosts several stages has a name of its own.
    if (ENGINE_STAGES.some(stage => costs[stage] !== undefined)) return { costs, source: file }
  }
  return undefined
}

/** Returns the costs of a saved measurement. The instances of a stage count as one. */
export function costsOfRun ({ rows, processes }: SavedRun): Costs {
  const costs: Record<string, number> = {}
  for (const { name, cpuSeconds } of processes) {
    const component = name.replace(/-\d+$/, '')
    costs[component] = (costs[component] ?? 0) + cpuSeconds * COST_ROWS / rows
  }
  return costs
}

const COST_METRICS: ReadonlySet<string> = new Set([
  'process_cpu_seconds_total', 'stage_rows_total', 'service_ready',
])

/** With fewer rows the start of the processes would dominate the measurement. */
const MIN_ROWS = 20_000

/**
 * Returns the costs since the services started. Counts the rows of `normalize`, which processes all
 * of them, so that every stage has its cost per row of a job.
 * @throws UsageError when the services have processed too few rows, or a process hosts several.
 */
export function costsOfMetrics (processes: readonly (readonly Sample[])[]): Costs {
  const rows = sumOf(processes.flat().filter(({ name, labels }) =>
    name === 'stage_rows_total' && labels.stage === 'normalize'))
  if (rows < MIN_ROWS) {
    throw new UsageError(`The reachable services have processed ${rows} rows since their start; ` +
      `costs need at least ${MIN_ROWS}. Run more jobs, or set --cost stage=seconds (CPU seconds ` +
      'per 100,000 rows), or save one: "npm run bench -- --processes 9 --save".')
  }
  const costs: Record<string, number> = {}
  for (const samples of processes) {
    const stage = stageOf(samples)
    if (stage === undefined) continue
    const cpu = sumOf(samples.filter(({ name }) => name === 'process_cpu_seconds_total'))
    costs[stage] = (costs[stage] ?? 0) + cpu * COST_ROWS / rows
  }
  return costs
}

/** The stage of a process, by its metrics; undefined for the page and other programs. */
function stageOf (samples: readonly Sample[]): string | undefined {
  const services = samples.filter(({ name }) => name === 'service_ready')
    .map(({ labels }) => labels.stage ?? '')
  if (services.length > 1) {
    throw new UsageError(`One process hosts ${services.join(', ')}, whose costs are not known ` +
      'apart. Run one process per stage ("npm run up -- --processes 9"), or set ' +
      '--cost stage=seconds (CPU seconds per 100,000 rows).')
  }
  return STAGES.find(stage => stage === services[0])
}

function sumOf (samples: readonly Sample[]): number {
  return samples.reduce((sum, { value }) => sum + value, 0)
}
