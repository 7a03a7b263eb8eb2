import { readFile } from 'node:fs/promises'
import { everyAddress, type FindAddresses } from '../lib/addresses.ts'
import type { Environment } from '../lib/command-environment.ts'
import { samplesAt, type Sample } from '../lib/exposition.ts'

/** What services told, one list a process; those that did not answer are only counted. */
export type Told = {
  readonly processes: readonly (readonly Sample[])[]
  readonly silent: number
}

const ANSWER_WITHIN_MS = 1_000

/**
 * The addresses of metrics: METRICS_TARGETS (with commas or as JSON; a name may stand for several
 * processes), else those in the file METRICS_TARGETS_FILE, else those of the local stack in
 * `folder`; none when there are none.
 */
export async function metricsTargets (
  env: Environment, folder: string, find?: FindAddresses
): Promise<readonly string[]> {
  const given = env['METRICS_TARGETS'] ?? ''
  if (given !== '') return await everyAddress(listIn(given), find)
  try {
    const file = env['METRICS_TARGETS_FILE'] ?? `${folder}/targets.json`
    return JSON.parse(await readFile(file, 'utf8')) as readonly string[]
  } catch {
    // Metrics tell more than the brokers do; without them the rest is told all the same.
    return []
  }
}

function listIn (given: string): readonly string[] {
  if (given.startsWith('[')) return JSON.parse(given) as readonly string[]
  return given.split(',').map(target => target.trim())
}

/** Asks every process for the metrics of these names. */
export async function askMetrics (
  targets: readonly string[], names: ReadonlySet<string>, fetch = globalThis.fetch
): Promise<Told> {
  const asking = { names, withinMs: ANSWER_WITHIN_MS, fetch }
  const answers = await Promise.all(targets.map(target => samplesAt(target, asking)))
  const processes = answers.filter(samples => samples !== undefined)
  return { processes, silent: answers.length - processes.length }
}
