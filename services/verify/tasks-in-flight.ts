import type { Metrics } from '../platform/metrics.ts'
import type { VerificationBatch } from './batch.ts'
import type { VendorSubmission } from './provider.ts'

export type TasksInFlight = ReturnType<typeof createTasksInFlight>

/**
 * The tasks that vendors have of verification batches, as this process saw each batch last. They
 * are in memory alone: a process that takes over a batch learns its tasks when it asks for them.
 */
export function createTasksInFlight () {
  const byBatch = new Map<string, readonly Task[]>()
  return {
    /** Records what vendors have of a batch now; nothing once it has ended. */
    record: ({ value }: Pick<VerificationBatch, 'value'>, tasks: readonly VendorSubmission[]) => {
      const { tenant, job, chunk, batch, service } = value
      const name = [tenant, job, chunk, batch].join()
      byBatch.delete(name)
      if (tasks.length > 0) byBatch.set(name, tasks.map(task => ({ ...task, service })))
    },
    /** Forgets all tasks: other processes have the batches. */
    forget: () => byBatch.clear(),
    /** Count and oldest submission (Redis time in ms) by service and provider. */
    figures: (): readonly Figures[] => {
      const all = [...byBatch.values()].flat()
      const groups = Map.groupBy(all, ({ service, provider }) => `${service}:${provider}`)
      return [...groups.values()].flatMap(tasks => tasks.slice(0, 1).map(
        ({ service, provider }) => ({
          service,
          provider: String(provider),
          count: tasks.length,
          oldestAtMs: Math.min(...tasks.map(({ submittedAtMs }) => submittedAtMs)),
        })))
    },
  }
}

type Task = VendorSubmission & { readonly service: string }

type Figures = {
  readonly service: string
  readonly provider: string
  readonly count: number
  readonly oldestAtMs: number
}

/** Reports the tasks when metrics are scraped; `now` is Redis time. */
export function watchTasks (
  metrics: Pick<Metrics, 'watchAll'>, tasks: Pick<TasksInFlight, 'figures'>, now: () => number
): void {
  const reportOf = (valueOf: (figures: Figures) => number) => async () =>
    tasks.figures().map(figures => ({
      labels: { service: figures.service, provider: figures.provider }, value: valueOf(figures),
    }))
  metrics.watchAll('vendor_tasks', reportOf(({ count }) => count))
  metrics.watchAll('vendor_task_oldest_seconds', reportOf(({ oldestAtMs }) =>
    Math.max(0, now() - oldestAtMs) / 1_000))
}
