import { cpSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { createDemo } from '../../services/admin/demo.ts'
import { seededRandom } from '../support/random.ts'
import { createClientLog } from './client-log.ts'
import type { Fault, Injected, Outcome, Scene } from './fault.ts'
import { LIGHT, startLoad, USUAL } from './load.ts'
import { countDead, verify } from './oracle.ts'
import { startReceiver } from './receiver.ts'
import { openStack, type FaultStack } from './stack.ts'
import { type Environment, openEnvironment } from './environment.ts'

type RunOptions = {
  readonly seed: number
  readonly full: boolean
  readonly say: (line: string) => void
}

export type Runner = {
  readonly run: (fault: Fault, options: RunOptions) => Promise<Outcome>
  readonly close: () => Promise<void>
}

/** Runs faults one after another on one stack, with new services after a breach. */
export function createRunner (): Runner {
  const environments = createEnvironments()
  return {
    run: async (fault, options) => {
      const missing = await fault.missing?.()
      if (missing !== undefined) return skipped(fault, options, missing)
      const alone = fault.stack !== undefined || fault.prepare !== undefined
      try {
        const outcome = alone
          ? await environments.apart(fault, options)
          : await runIn(await environments.shared(fault.scale?.(options.full)), fault, options)
        if (outcome.breaches.length > 0) await environments.close()
        return outcome
      } catch (error) {
        await environments.close().catch(() => {})
        const { stack: text = '', cause } = error as Error
        const failed = `could not be run: ${text}${cause === undefined ? '' : String(cause)}`
        return { ...skipped(fault, options, ''), breaches: [failed] }
      }
    },
    close: environments.close,
  }
}

/** The stack and the services that faults share, started on first use. */
function createEnvironments () {
  let stack: FaultStack | undefined
  let environment: Environment | undefined
  const closeEnvironment = async (signal?: 'SIGKILL') => {
    await environment?.stop(signal)
    environment = undefined
  }
  const close = async () => {
    await closeEnvironment('SIGKILL')
    await stack?.close()
    stack = undefined
  }
  const shared = async (scale: Readonly<Record<string, number>> = {}): Promise<Environment> => {
    stack ??= await openStack()
    environment ??= await openEnvironment(stack, { scale })
    await environment.services.setScale(scale)
    await environment.services.untilReady()
    return environment
  }
  /** Services or stack of its own, where a fault asks for them. */
  const apart = async (fault: Fault, options: RunOptions): Promise<Outcome> => {
    await closeEnvironment()
    const own = await fault.stack?.()
    const on = own ?? (stack ??= await openStack())
    const { close: closePrepared, ...settings } = await fault.prepare?.(on) ?? {}
    const opened = await openEnvironment(on, settings)
    try {
      return await runIn(opened, fault, options)
    } finally {
      await opened.stop()
      await closePrepared?.()
      await own?.close()
    }
  }
  return { shared, apart, close }
}

function skipped (fault: Fault, { seed, full }: RunOptions, why: string): Outcome {
  const nothing = { injected: 0, seconds: 0, jobs: 0, rows: 0, answers: {}, held: [], breaches: [] }
  return { fault, seed, full, ...nothing, ...why !== '' && { skipped: why } }
}

async function runIn (
  environment: Environment, fault: Fault, options: RunOptions
): Promise<Outcome> {
  const startedAt = Date.now()
  const { seed, full, say } = options
  const random = seededRandom(seed)
  const { env } = environment.stack
  const { orgId, keys } = await createDemo(env)
  const receiver = await startReceiver()
  const log = createClientLog({
    baseUrls: environment.services.baseUrls, apiKey: keys.live, random,
  })
  const deadBefore = await countDead(environment.stack)
  const endsBefore = environment.services.ends().length
  const plan = { ...USUAL, ...full ? {} : LIGHT, ...fault.load }
  // Numbers end with six digits of the serial: other runs may share them, another tenant's cache.
  const load = startLoad({ log, receiver, random, plan, firstSerial: seed * 1_000 % 900_000 })
  const scene: Scene = { environment, load, log, receiver, orgId, random, seed, full, say }
  try {
    await load.untilEnded(2)
    const injected = await fault.inject(scene)
    await load.stop()
    const injectedMs = Date.now() - startedAt
    const verdict = await verify({
      log,
      receiver,
      env,
      orgId,
      ends: environment.services.ends().slice(endsBefore),
      deadLetters: async () => await countDead(environment.stack) - deadBefore,
    })
    say(`done in ${injectedMs} ms, verified in ${Date.now() - startedAt - injectedMs} ms`)
    const breaches = [...verdict.breaches, ...injectionBreaches(fault, injected, full)]
    if (breaches.length > 0) say(`logs of the services: ${copyOfLogs(environment)}`)
    return {
      fault,
      seed,
      full,
      ...injected,
      seconds: (Date.now() - startedAt) / 1_000,
      jobs: new Set(log.promised.map(({ id }) => id)).size,
      rows: log.promised.reduce((sum, { request }) => sum + request.inputs.length, 0),
      answers: countBy(log.answers.map(({ status }) => status)),
      held: verdict.held,
      breaches,
    }
  } finally {
    await Promise.race([load.stop(), sleep(5_000)])
    await receiver.close()
  }
}

/** The services remove their own with their data. */
function copyOfLogs ({ logDir }: Environment): string {
  const folder = mkdtempSync(`${tmpdir()}/verification-jobs-failed-`)
  cpSync(logDir, folder, { recursive: true })
  return folder
}

/** Times are checked where the machine does nothing else, so not in the quick run of CI. */
function injectionBreaches (fault: Fault, injected: Injected, full: boolean): readonly string[] {
  const recoverWithinMs = full ? fault.recoverWithinMs ?? Infinity : Infinity
  const late = (injected.recoveryMs ?? []).filter(ms => !(ms <= recoverWithinMs))
  return [
    ...injected.breaches ?? [],
    ...injected.injected === 0 ? ['nothing was injected'] : [],
    ...late.length === 0
      ? []
      : [`recovery took ${late.join(', ')} ms, at most ${recoverWithinMs} allowed`],
  ]
}

function countBy (values: readonly number[]): Record<number, number> {
  const counts: Record<number, number> = {}
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1
  return counts
}
