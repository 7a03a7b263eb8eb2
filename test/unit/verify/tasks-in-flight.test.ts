import { expect, it } from 'vitest'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import type { VendorSubmission } from '../../../services/verify/provider.ts'
import { createTasksInFlight, watchTasks } from '../../../services/verify/submissions.ts'
import { batchOf } from '../../support/stage-doubles.ts'

const batch = batchOf(['+12127365000'], { service: 'whatsapp' })
const other = { value: { ...batch.value, batch: 7 } }
const task = (submittedAtMs: number, provider = 3): VendorSubmission => ({
  provider, reference: 'r', submittedAtMs, deadlineMs: 9_000_000, pollMs: 1_000,
})

it('tasks of vendors are reported by provider, with the age of the oldest', async () => {
  const metrics = createMetrics()
  const tasks = createTasksInFlight()
  watchTasks(metrics, tasks, () => 100_000)
  const series = async () => (await metrics.text()).split('\n')
    .filter(line => line.startsWith('vendor_task')).toSorted()
  expect(await series()).toEqual([])
  tasks.record(batch, [task(40_000), task(70_000), task(90_000, 4)])
  tasks.record(other, [task(30_000)])
  expect(await series()).toEqual([
    'vendor_task_oldest_seconds{service="whatsapp",provider="3"} 70',
    'vendor_task_oldest_seconds{service="whatsapp",provider="4"} 10',
    'vendor_tasks{service="whatsapp",provider="3"} 3',
    'vendor_tasks{service="whatsapp",provider="4"} 1',
  ])
  tasks.record(other, [])
  tasks.record(batch, [task(40_000)])
  expect(tasks.figures()).toEqual(
    [{ service: 'whatsapp', provider: '3', count: 1, oldestAtMs: 40_000 }])
  tasks.forget()
  expect(await series()).toEqual([])
})
