import type { RunningService } from '../../deploy/local/launcher/services.ts'
import { fetchSamples, type Metrics } from '../../services/runtime/platform/metrics.ts'

/** A busy process may take this long to answer; one that has stopped refuses at once. */
const TIMEOUT_MS = 60_000

/** The sum of all series of a metric that have these labels, over all running processes. */
export async function sumOf (
  services: readonly Pick<RunningService, 'metricsUrl'>[], metric: string,
  labels: Readonly<Record<string, string>> = {}
): Promise<number> {
  const query = { names: new Set([metric]), timeoutMs: TIMEOUT_MS, fetch }
  const processes = await Promise.all(
    services.map(({ metricsUrl }) => fetchSamples(metricsUrl, query)))
  return processes.flatMap(samples => samples ?? [])
    .filter(sample =>
      Object.entries(labels).every(([name, value]) => sample.labels[name] === value))
    .reduce((sum, { value }) => sum + value, 0)
}

const CALLS = /^root_key_calls_total\{(.+)\} ([1-9]\d*)$/gm
const DURATIONS = /^root_key_call_seconds_count\{(.+)\} ([1-9]\d*)$/gm

/**
 * The calls that were counted, such as `{ 'results vault decrypt failed': 1 }`, and those whose
 * duration was observed, such as `{ 'vault decrypt': 1 }`.
 */
export async function rootKeyCalls (metrics: Metrics) {
  const text = await metrics.text()
  const found = (pattern: RegExp) => Object.fromEntries([...text.matchAll(pattern)]
    .map(([, labels = '', value]) =>
      [[...labels.matchAll(/"(.*?)"/g)].map(([, label]) => label).join(' '), Number(value)]))
  return { counted: found(CALLS), timed: found(DURATIONS) }
}
