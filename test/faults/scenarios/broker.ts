import { setTimeout as sleep } from 'node:timers/promises'
import { batchDescription, startVendor } from '../../support/vendors/vendor.ts'
import type { Fault, Preparation, Scene } from '../fault.ts'
import { poll } from '../poll.ts'

const RECOVER_BROKER_MS = 20_000
const KILLS = 20
const ROWS = 60_000

/** A vendor whose calls take a while, so that a big job lasts; and its description. */
export async function prepareVendor (env: Record<string, string> = {}): Promise<
  Preparation & { readonly vendor: Awaited<ReturnType<typeof startVendor>> }
> {
  const vendor = await startVendor()
  return {
    vendor,
    close: vendor.stop,
    env: {
      PROVIDERS: JSON.stringify({
        whatsapp: ['http:1'],
        'phone-validation': ['numbering-plan'],
        'email-validation': ['email-domain'],
      }),
      HTTP_PROVIDERS: JSON.stringify([batchDescription(vendor.url)]),
      PROVIDER_TIMEOUT_MS: '1000',
      PROVIDER_RETRIES: '0',
      ...env,
    },
  }
}

/** Rows of a job that have come to their end. */
async function rowsEnded ({ log }: Scene, id: string): Promise<number> {
  const job = await log.client.job(id).catch(() => undefined)
  return job === undefined ? 0 : job.successRecords + job.failedRecords
}

/** Kills the broker and waits until rows of the job end again; the time that took in all. */
async function killBroker (scene: Scene, id: string): Promise<number> {
  const part = scene.environment.stack.part('kafka')
  const atMs = Date.now()
  await part.down()
  const starting = part.up()
  // What the services had fetched before is counted without any broker.
  await sleep(1_000)
  const before = await rowsEnded(scene, id)
  await starting
  return await poll(async () => {
    if (await rowsEnded(scene, id) > before) return Date.now() - atMs
    const job = await scene.log.client.job(id).catch(() => undefined)
    return job?.status === 'completed' ? Date.now() - atMs : undefined
  }, 60_000, 50) ?? Infinity
}

let vendor: Awaited<ReturnType<typeof startVendor>> | undefined

const twentyTimes: Fault = {
  name: 'broker-killed',
  kind: 'broker',
  about: `the broker is killed ${KILLS} times in a job of ${ROWS.toLocaleString('en-US')} rows`,
  recoverWithinMs: RECOVER_BROKER_MS,
  load: { clients: 1, bulkShare: 0 },
  prepare: async () => {
    // Rows end as their batch of parts does: small ones show when the work goes on.
    const prepared = await prepareVendor({
      PROVIDER_CONCURRENCY: '2', VERIFY_BATCH_ROWS_BULK: '50',
    })
    vendor = prepared.vendor
    await vendor.behave('slow')
    return prepared
  },
  inject: async scene => {
    const { log, load, say } = scene
    const job = await log.post(load.request(ROWS, 'whatsapp'))
    if (job === undefined) return { injected: 0 }
    const recoveryMs: number[] = []
    while (recoveryMs.length < KILLS) {
      const { status } = await log.client.job(job.id)
      if (status === 'completed') break
      recoveryMs.push(await killBroker(scene, job.id))
      say(`kill ${recoveryMs.length}: goes on after ${recoveryMs.at(-1)} ms, ` +
        `${await rowsEnded(scene, job.id)} rows ended`)
      await sleep(500)
    }
    // What is left of the job need not last.
    await vendor?.behave('well')
    const breaches = recoveryMs.length < KILLS
      ? [`the job ended after ${recoveryMs.length} of ${KILLS} kills`]
      : []
    return { injected: recoveryMs.length, recoveryMs, breaches }
  },
}

const once: Fault = {
  name: 'broker-killed-once',
  kind: 'broker',
  about: 'the broker is killed under load and comes back',
  quick: true,
  recoverWithinMs: RECOVER_BROKER_MS,
  inject: async ({ environment, load, log }) => {
    await load.untilEnded(2)
    const atMs = Date.now()
    await environment.stack.part('kafka').down()
    const downMs = Date.now()
    await environment.stack.part('kafka').up()
    const ended = await load.nextEnd(downMs, 60_000) ?? Infinity
    const accepted = await log.nextAccepted(downMs, 1) ?? Infinity
    return { injected: 1, recoveryMs: [Math.min(ended, accepted) - atMs] }
  },
}

const FREEZES = { full: 10, quick: 1 }
/** Longer than the controller waits for a broker, which then leads no partition for a while. */
const FROZEN_MS = 6_000

const frozen: Fault = {
  name: 'broker-frozen',
  kind: 'broker',
  about: `the broker is suspended for ${FROZEN_MS / 1_000} s, again and again (SIGSTOP)`,
  recoverWithinMs: RECOVER_BROKER_MS,
  inject: async ({ environment, load, full, say }) => {
    const part = environment.stack.part('kafka')
    const recoveryMs: number[] = []
    for (let freeze = 1; freeze <= (full ? FREEZES.full : FREEZES.quick); freeze++) {
      await load.untilEnded(2)
      part.signal('SIGSTOP')
      await sleep(FROZEN_MS)
      part.signal('SIGCONT')
      const atMs = Date.now()
      const ended = await load.nextEnd(atMs, 60_000) ?? Infinity
      recoveryMs.push(ended - atMs)
      say(`freeze ${freeze}: a job ended after ${ended - atMs} ms`)
      await environment.services.untilReady()
    }
    return { injected: recoveryMs.length, recoveryMs }
  },
}

export const broker: readonly Fault[] = [once, twentyTimes, frozen]
