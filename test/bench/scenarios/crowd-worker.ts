import { once } from 'node:events'
import { parentPort, workerData } from 'node:worker_threads'
import { createClient } from '../../../services/client/client.ts'
import { mixedPhones, timeJob } from '../jobs.ts'
import type { CrowdPlan } from './crowd.ts'

/** With the interval of a single job, polling for ten jobs would be a load of its own. */
const POLL_EVERY_MS = 200

const plan = workerData as CrowdPlan
if (parentPort === null) throw new Error('crowd-worker.ts is not on a worker thread of crowd.ts')
const client = createClient(plan.access)
const waves = plan.waves.map(jobs => jobs.map(serial => mixedPhones(plan.rows, serial)))

parentPort.postMessage('ready')
await once(parentPort, 'message')
const startedAt = performance.now()
for (const wave of waves) {
  await Promise.all(wave.map(inputs => timeJob(client, inputs, { pollEveryMs: POLL_EVERY_MS })))
}
parentPort.postMessage(performance.now() - startedAt)
