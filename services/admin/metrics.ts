import { readFile } from 'node:fs/promises'
import {
  resolveAllAddresses, type LookUp, fetchSamples, type Sample,
} from '../runtime/platform/metrics-reader.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'

/** Metrics of the services: the samples of each process, and the number of failed requests. */
type ServiceMetrics = {
  readonly processes: readonly (readonly Sample[])[]
  readonly unreachable: number
}

const TIMEOUT_MS = 1_000

/**
 * Returns the metrics URLs: from METRICS_TARGETS (separated by commas or as JSON; a host name may
 * resolve to several processes), else from the file METRICS_TARGETS_FILE, else from the local stack
 * in `folder`. Empty when there is no file.
 */
export async function metricsTargets (
  env: Environment, folder: string, find?: LookUp
): Promise<readonly string[]> {
  const { METRICS_TARGETS: addresses = '' } = env
  if (addresses !== '') {
    const targets = addresses.startsWith('[')
      ? JSON.parse(addresses) as readonly string[]
      : addresses.split(',').map(target => target.trim())
    return await resolveAllAddresses(targets, find)
  }
  try {
    const file = env['METRICS_TARGETS_FILE'] ?? `${folder}/targets.json`
    return JSON.parse(await readFile(file, 'utf8')) as readonly string[]
  } catch {
    // Metrics are optional: every command shows what it has without them.
    return []
  }
}

/** Requests the named metrics of every process. A process that does not respond is counted. */
export async function queryMetrics (
  targets: readonly string[], names: ReadonlySet<string>, fetch = globalThis.fetch
): Promise<ServiceMetrics> {
  const query = { names, timeoutMs: TIMEOUT_MS, fetch }
  const responses = await Promise.all(targets.map(target => fetchSamples(target, query)))
  const processes = responses.filter(samples => samples !== undefined)
  return { processes, unreachable: responses.length - processes.length }
}
