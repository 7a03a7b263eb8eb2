import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { askMetrics, metricsTargets } from '../metrics.ts'
import type { Call } from '../screen.ts'
import { UsageError } from '../../lib/run-command.ts'
import {
  COST_METRICS, costsIn, costsOfMetrics, costsOfRun, type Costs, type SavedRun,
} from './costs.ts'

export type Measured = { readonly costs: Costs, readonly source: string }

/** Where `npm run bench -- --save` keeps what it measured, seen from the top of the project. */
const RESULTS = 'test/bench/results'

/** The newest saved measurement, whose file is named by its day; undefined when there is none. */
export async function newestRun (root: string): Promise<Measured | undefined> {
  const names = await readdir(join(root, RESULTS)).catch(() => [])
  const newest = names.filter(name => name.endsWith('.json')).toSorted().at(-1)
  if (newest === undefined) return undefined
  const file = `${RESULTS}/${newest}`
  const run = JSON.parse(await readFile(join(root, file), 'utf8')) as Partial<SavedRun>
  if (run.rows === undefined || run.processes === undefined) {
    throw new UsageError(`${file} holds no costs: make it anew by "npm run bench -- --save".`)
  }
  return { costs: costsOfRun({ rows: run.rows, processes: run.processes }), source: file }
}

type Asked = Pick<Call<{ readonly cost?: readonly string[] }>, 'env' | 'folder' | 'options'>

/**
 * The newest saved measurement; without one what was typed; without that what the services tell.
 * What was typed replaces what was measured, stage by stage.
 */
export async function measuredCosts (
  { env, folder, options: { cost = [] } }: Asked, root: string
): Promise<Measured> {
  const typed = costsIn(cost)
  const saved = await newestRun(root)
  if (saved !== undefined) {
    const source = cost.length === 0 ? saved.source : `${saved.source} and --cost`
    return { costs: { ...saved.costs, ...typed }, source }
  }
  if (cost.length > 0) return { costs: typed, source: '--cost' }
  const { processes } = await askMetrics(await metricsTargets(env, folder), COST_METRICS)
  return { costs: costsOfMetrics(processes), source: 'the services since their start' }
}
