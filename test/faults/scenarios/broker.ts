import { setTimeout as sleep } from 'node:timers/promises'
import { batchDescription, startVendor } from '../../support/vendors/vendor.ts'
import type { Fault, Preparation } from '../fault.ts'

const RECOVER_BROKER_MS = 20_000

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

export const broker: readonly Fault[] = [once, frozen]
