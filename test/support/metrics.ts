import type { RunningService } from '../../deploy/local/launcher/services.ts'
import { queryMetrics } from '../../services/ops/metrics.ts'

/** The sum of all series of a metric that have these labels, over all processes that answer. */
export async function sumOf (
  services: readonly Pick<RunningService, 'metricsUrl'>[], metric: string,
  labels: Readonly<Record<string, string>> = {}
): Promise<number> {
  const { processes } = await queryMetrics(
    services.map(({ metricsUrl }) => metricsUrl), new Set([metric]))
  return processes.flat()
    .filter(sample =>
      Object.entries(labels).every(([name, value]) => sample.labels[name] === value))
    .reduce((sum, { value }) => sum + value, 0)
}
