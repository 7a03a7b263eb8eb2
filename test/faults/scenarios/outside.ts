import { setTimeout as sleep } from 'node:timers/promises'
import type { VendorMode } from '../../support/vendors/vendor-words.ts'
import type { Fault } from '../fault.ts'
import type { startVendor } from '../../support/vendors/vendor.ts'
import { prepareVendor } from './broker.ts'

/** Every way in which the vendor can fail but by slowness alone. */
const VENDOR_MODES: readonly VendorMode[] = [
  'hanging', 'dripping', 'cut', 'reset', 'down', 'broken', 'limiting', 'half', 'garbage', 'erring',
  'puzzling', 'moved', 'huge', 'refusing', 'shuffled', 'short', 'long', 'swapped',
  'contradicting', 'wrong', 'none', 'nulls',
]

/** The vendor of the environment under test; a scenario runs alone. */
let vendor: Awaited<ReturnType<typeof startVendor>> | undefined

const vendors: Fault = {
  name: 'vendor',
  kind: 'outside',
  about: 'the vendor of checks hangs, drips, lies, redirects, refuses, answers too much or too ' +
    'little: a mode each 2 s',
  load: { service: 'whatsapp', emailShare: 0.1, smallRows: 60, bulkRows: 1_200 },
  prepare: async () => {
    const prepared = await prepareVendor()
    vendor = prepared.vendor
    return prepared
  },
  inject: async ({ load, say }) => {
    let calls = 0
    for (const mode of VENDOR_MODES) {
      await vendor?.behave(mode)
      await sleep(2_000)
      const met = (await vendor?.state())?.calls ?? 0
      calls += met
      say(`${mode}: ${met} calls`)
    }
    await vendor?.behave('well')
    await load.untilEnded(3)
    return { injected: VENDOR_MODES.length, note: `${calls} calls met them` }
  },
}

const preload = new URL('../skewed-clock.ts', import.meta.url).pathname
const HOUR_MS = 3_600_000
const skew = (offsetMs: number, jumpMs = 0) => ({
  NODE_OPTIONS: `--import=${preload}`,
  CLOCK_OFFSET_MS: String(offsetMs),
  CLOCK_JUMP_MS: String(jumpMs),
})

const clocks: Fault = {
  name: 'clocks',
  kind: 'clock',
  about: 'every service has another time: ten minutes to an hour off, some of them jumping',
  prepare: async () => ({
    envByStage: {
      ingest: skew(600_000),
      normalize: skew(-600_000),
      lookup: skew(HOUR_MS),
      verify: skew(0, -HOUR_MS),
      settle: skew(-HOUR_MS, HOUR_MS),
      ledger: skew(600_000, -HOUR_MS),
      deliver: skew(-600_000, 600_000),
    },
  }),
  inject: async ({ load, environment: { services } }) => {
    await load.untilEnded(30)
    // Long enough for every jump, there and back.
    await sleep(20_000)
    services.kill('verify-1', 'SIGKILL')
    services.kill('deliver-1', 'SIGKILL')
    await load.untilEnded(10)
    return { injected: 7, note: 'offsets and jumps, SIGKILL in between' }
  },
}

export const outside: readonly Fault[] = [vendors, clocks]
