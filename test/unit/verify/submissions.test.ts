import { expect, it } from 'vitest'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import type { VendorSubmission } from '../../../services/verify/provider.ts'
import { TasksInFlight } from '../../../services/verify/submissions.ts'
import { batchOf } from '../../support/stage-messages.ts'

it('tasks of vendors are reported by provider, with the age of the oldest', async () => {
  const batch = batchOf([], { service: 'whatsapp' })
  const other = batchOf([], { service: 'whatsapp', batch: 7 })
  const task = (submittedAtMs: number, provider = 3): VendorSubmission => ({
    provider, reference: 'r', submittedAtMs, deadlineMs: 9_000_000, pollMs: 1_000,
  })
  const metrics = createMetrics()
  const tasks = new TasksInFlight()
  tasks.watch(metrics, () => 100_000)
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
  expect(await series()).toEqual([
    'vendor_task_oldest_seconds{service="whatsapp",provider="3"} 60',
    'vendor_tasks{service="whatsapp",provider="3"} 1',
  ])
  tasks.forget()
  expect(await series()).toEqual([])
})
