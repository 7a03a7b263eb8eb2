import { afterEach } from 'vitest'
import { STAGES } from '../../../services/topology.ts'
import { closeAfterAll } from '../close-after-all.ts'
import { eventually } from '../eventually.ts'
import { pidOf } from '../stacks/processes.ts'
import { startPrometheus } from './prometheus.ts'
import { batchDescription, startVendor, type Vendor } from '../vendors/vendor.ts'
import { startEnvironment, type Environment } from '../stacks/environment.ts'
import { testStack } from '../stacks/stack.ts'

/** Of the alerts that fire, of which Prometheus decides once a second. */
const POLL_MS = 500
/** It says nothing of the cause of a test: its windows are longer than one. */
const AT_ANY_TIME = ['ErrorBudgetBurns']

/** Durations of minutes become seconds, as those of the rules do. */
const HURRIED = {
  WEBHOOK_ALLOW_HTTP: 'true',
  WEBHOOK_ALLOW_LOOPBACK: 'true',
  WEBHOOK_WAITS_MS: JSON.stringify([500, 500, 500, 500, 500, 500]),
  PROVIDERS: JSON.stringify({ whatsapp: ['http:1'], 'phone-validation': ['numbering-plan'] }),
  RETRY_DELAY_MS: '500',
  STALLED_AFTER_MS: '8000',
  SHED_LOAD_AFTER_MS: '2000',
  CHECK_EVERY_MS: '1000',
}

/** What is waited for of the alerts of one Prometheus. */
export type Watch = {
  /** Resolves once all of these have fired, at the same time or one after another. */
  readonly untilFiring: (...names: readonly string[]) => Promise<void>
  /** Resolves once none of these fires, whatever else does. */
  readonly untilOver: (...names: readonly string[]) => Promise<void>
  /** Resolves once no alert of a cause has fired at two readings in a row. */
  readonly untilQuiet: () => Promise<void>
}

export type Causing = Watch & {
  readonly environment: Environment
  readonly vendor: Vendor
  readonly job: (service: 'phone-validation' | 'whatsapp', more?: JobMore) => JobOf
  /** The pid of an instance of a service. */
  readonly serviceOf: (name: string) => number
  /** The pid of a part of the stack. */
  readonly partOf: (name: string) => number
}
type JobMore = { readonly rows?: number, readonly webhook_url?: string }
type JobOf = Parameters<Environment['live']['createJob']>[0]

/**
 * All services on the suite's stack with a vendor of `whatsapp`, read by a Prometheus whose rules
 * are in a hurry, for the tests of one file: each begins and ends with no alert firing.
 */
export async function causing (
  overrides: Readonly<Record<string, string>> = {}
): Promise<Causing> {
  const vendor = closeAfterAll(await startVendor())
  const environment = closeAfterAll(await startEnvironment({
    ...HURRIED, HTTP_PROVIDERS: JSON.stringify([batchDescription(vendor.url)]), ...overrides,
  }, { apart: STAGES }))
  const prometheus = closeAfterAll(
    await startPrometheus({ services: environment.services.list(), hurried: true }))
  const watch = watchOf(prometheus.firing)
  await watch.untilQuiet()
  // Whatever was caused is over before the next is.
  afterEach(watch.untilQuiet)
  return {
    ...watch,
    environment,
    vendor,
    job: createJobs(),
    serviceOf: name => pidOf(environment.services.dataDir, name),
    partOf: name => pidOf(testStack().dataDir, name),
  }
}

/** Watches other services, or others of these, for as long as something is done. */
export async function watching (
  services: Parameters<typeof startPrometheus>[0]['services'],
  work: (watch: Watch) => Promise<void>
): Promise<void> {
  const prometheus = await startPrometheus({ services, hurried: true })
  try {
    await work(watchOf(prometheus.firing))
  } finally {
    await prometheus.stop()
  }
}

type Firing = () => Promise<readonly string[]>

function watchOf (firing: Firing): Watch {
  const untilFiring: Watch['untilFiring'] = async (...names) => {
    const missing = new Set(names)
    await until(firing, found => {
      for (const name of found) missing.delete(name)
      return missing.size === 0
    }, () => `did not fire: ${[...missing]}`)
  }
  const untilOver: Watch['untilOver'] = (...names) =>
    until(firing, found => !names.some(name => found.includes(name)), () => `not over: ${names}`)
  const untilQuiet = async () => {
    let polls = 0
    await until(firing, found => {
      polls = found.every(name => AT_ANY_TIME.includes(name)) ? polls + 1 : 0
      return polls === 2
    }, () => 'some alert still fires')
  }
  return { untilFiring, untilOver, untilQuiet }
}

async function until (
  firing: Firing, isSo: (alerts: readonly string[]) => boolean, complaint: () => string
): Promise<void> {
  await eventually(async () => {
    const alerts = await firing()
    if (!isSo(alerts)) throw new Error(`${complaint()}; what fires: ${alerts}`)
  }, { everyMs: POLL_MS })
}

/** Jobs of contacts that no other job of the file has. */
function createJobs (): Causing['job'] {
  let serial = 2_000
  const next = () => `+1415${String(5_500_000 + serial++)}`
  return (service, { rows = 20, ...more } = {}) =>
    ({ service, inputs: Array.from({ length: rows }, next), ...more })
}
