import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Address } from '../setting.ts'

export type CrowdPlan = {
  readonly client: Address
  readonly rows: number
  /** The first serial number of each job, wave by wave. */
  readonly waves: readonly (readonly number[])[]
}

export type CrowdClient = {
  /** Sends all waves, one after another; resolves with the time from first POST to last end, ms. */
  readonly run: () => Promise<number>
  readonly end: () => Promise<void>
}

/**
 * A client on a thread of its own: to write ten bodies of 100,000 rows takes it half a second, in
 * which a client of anybody else would not have to wait.
 */
export async function startCrowdClient (plan: CrowdPlan): Promise<CrowdClient> {
  const worker = new Worker(new URL('./crowd-thread.ts', import.meta.url), { workerData: plan })
  // Rejects with what the thread fails of.
  await once(worker, 'message')
  const run = async () => {
    const ended = once(worker, 'message')
    worker.postMessage('go')
    const [wallMs] = await ended as [number]
    return wallMs
  }
  return { run, end: async () => { await worker.terminate() } }
}
