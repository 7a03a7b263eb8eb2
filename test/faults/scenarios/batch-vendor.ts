import { setTimeout as sleep } from 'node:timers/promises'
import type { Failpoint } from '../../../services/runtime/platform/failpoint.ts'
import { presetAt, startFakeVendors, type FakeVendors } from '../../support/vendors/fake-vendors.ts'
import type { Fault } from '../fault.ts'

/** Reached only with a vendor that takes batches. */
export const OF_BATCHES: readonly Failpoint[] = [
  'verify.intended', 'verify.submitted', 'verify.recorded',
]

/** Between the first step of a batch and the last of its answers. */
const POINTS: readonly Failpoint[] = [
  'verify.begun', 'verify.claimed', ...OF_BATCHES, 'verify.checked', 'verify.kept',
  'verify.produce', 'verify.after', 'verify.commit',
]
const REACHED_WITHIN_MS = 240_000
const PASSES = 3
/** Between two kills: a message at which a process ends five times in a row is taken for poison. */
const COMMITS = 5

/** The vendors of the environment under test; a scenario runs alone. */
let vendors: FakeVendors | undefined

const batches: Fault = {
  name: 'batch-vendor',
  kind: 'process',
  about: 'SIGKILL of verify at each failpoint between rows given to a vendor as a batch and its ' +
    'answers: no batch is bought twice',
  quick: false,
  load: { service: 'whatsapp', emailShare: 0, smallRows: 60, bulkRows: 1_200 },
  prepare: async () => {
    const started = await startFakeVendors()
    vendors = started
    const preset = presetAt(started.url, 'http:checknumber', { id: 1 }) as { batch: object }
    return {
      close: async () => started.stop(),
      env: {
        HTTP_PROVIDERS: JSON.stringify([{ ...preset, batch: { ...preset.batch, pollMs: 1_000 } }]),
        PROVIDERS: JSON.stringify({
          whatsapp: ['http:1'],
          'phone-validation': ['numbering-plan'],
          'email-validation': ['email-domain'],
        }),
      },
    }
  },
  inject: async ({ environment: { services }, load, random, say }) => {
    const missed: string[] = []
    for (const point of POINTS) {
      services.arm('verify-1', point, `kill@${1 + Math.floor(random() * PASSES)}`)
      const fired = await services.untilFired('verify-1', REACHED_WITHIN_MS)
      if (fired === undefined) {
        missed.push(`${point} was not reached`)
        continue
      }
      say(`${point}: killed, ${vendors?.files.length ?? 0} batches bought so far`)
      while ([undefined, fired.pid].includes(services.pid('verify-1'))) await sleep(20)
      services.arm('verify-1', 'verify.commit', `block=0@${COMMITS}`)
      await services.untilFired('verify-1', REACHED_WITHIN_MS)
    }
    await load.untilEnded(5)
    const files = vendors?.files ?? []
    const twice = files.filter((file, at) => files.indexOf(file) !== at)
    return {
      injected: POINTS.length - missed.length,
      note: `${files.length} batches bought`,
      breaches: [...missed, ...twice.map((file) => `${file} was bought twice`)],
    }
  },
}

export const batchVendor: readonly Fault[] = [batches]
