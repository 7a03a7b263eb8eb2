import { once } from 'node:events'
import { parentPort, workerData } from 'node:worker_threads'
import { createClient } from '../../../services/client/client.ts'
import { mixedPhones } from '../inputs.ts'
import { timeJob } from '../jobs.ts'
import type { CrowdPlan } from './crowd-client.ts'

/** Ten clients that ask for a big job's progress all the time would be a load of their own. */
const POLL_EVERY_MS = 200

const plan = workerData as CrowdPlan
if (parentPort === null) throw new Error('this runs on a thread of crowd-client.ts')
const client = createClient(plan.client)
const waves = plan.waves.map(jobs => jobs.map(serial => mixedPhones(plan.rows, serial)))

parentPort.postMessage('ready')
await once(parentPort, 'message')
const startedAt = performance.now()
for (const wave of waves) {
  await Promise.all(wave.map(inputs => timeJob(client, inputs, { pollEveryMs: POLL_EVERY_MS })))
}
parentPort.postMessage(performance.now() - startedAt)
