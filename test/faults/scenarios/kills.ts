import { readdirSync, readFileSync } from 'node:fs'
import { STAGES } from '../../../services/topology.ts'
import type { Fault, Injected, Scene } from '../fault.ts'
import { openStack } from '../stack.ts'

export const RECOVER_SERVICE_MS = 15_000

/** The time from a moment until a service works again, by what shows that of it. */
export async function recoveryOf (
  { environment, log, load }: Pick<Scene, 'environment' | 'log' | 'load'>,
  name: string, atMs: number
): Promise<number> {
  const withinMs = 4 * RECOVER_SERVICE_MS
  if (!name.startsWith('ingest')) {
    return await environment.untilWorking(name, { atMs, withinMs }) ?? Infinity
  }
  // Keys whose requests ended with the process are its own until they expire, and all clients may
  // wait for one: a new group reads.
  const asking = log.post(load.request(1))
  const accepted = await log.nextAccepted(atMs, withinMs)
  await asking
  return accepted === undefined ? Infinity : accepted - atMs
}

/** Stages that every job of the usual load passes. */
const ALWAYS_BUSY = STAGES.filter(stage => !['feed', 'publish'].includes(stage))

async function killEach (scene: Scene): Promise<Injected> {
  const { environment, load, say, random } = scene
  const recoveryMs: number[] = []
  for (const stage of ALWAYS_BUSY) {
    await load.untilEnded(1 + Math.floor(random() * 3))
    const atMs = Date.now()
    environment.services.kill(`${stage}-1`, 'SIGKILL')
    recoveryMs.push(await recoveryOf(scene, `${stage}-1`, atMs))
    say(`${stage} works again after ${recoveryMs.at(-1)} ms`)
  }
  return { injected: recoveryMs.length, recoveryMs }
}

/** SIGKILL at any moment. */
const sigkill: Fault = {
  name: 'sigkill',
  kind: 'process',
  about: 'SIGKILL of each service, at any moment of the load',
  quick: false,
  recoverWithinMs: RECOVER_SERVICE_MS,
  inject: killEach,
}

/** The Redis that comes back has everything compared with the journal, by its own user too. */
const secure: Fault = {
  name: 'secure',
  kind: 'process',
  about: 'SIGKILL of each service and of the state Redis, with TLS and a Kafka user a stage',
  quick: false,
  recoverWithinMs: RECOVER_SERVICE_MS,
  stack: () => openStack({ secure: true }),
  inject: async scene => {
    const { environment, load } = scene
    const killed = await killEach(scene)
    await environment.stack.part('redis-state').crash()
    await load.untilEnded(2)
    const denied = readdirSync(environment.logDir).filter(file =>
      readFileSync(`${environment.logDir}/${file}`, 'utf8').includes('AUTHORIZATION_FAILED'))
    const breaches = denied.map(file => `the brokers denied something, as ${file} says`)
    return { ...killed, injected: killed.injected + 1, breaches }
  },
}

export const kills: readonly Fault[] = [sigkill, secure]
