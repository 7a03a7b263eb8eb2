import type { RunningService } from '../../deploy/local/launcher/services.ts'
import { fetchSamples } from '../../services/runtime/platform/metrics-reader.ts'

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
