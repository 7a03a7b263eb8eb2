import { STAGES } from '../../../services/topology.ts'
import type { Fault, Scene } from '../fault.ts'

export const RECOVER_SERVICE_MS = 15_000

/** The time from a moment until a service works again, by what shows that of it. */
export async function recoveryOf (
  { world, log, load }: Pick<Scene, 'world' | 'log' | 'load'>, name: string, atMs: number
): Promise<number> {
  const withinMs = 4 * RECOVER_SERVICE_MS
  if (!name.startsWith('ingest')) {
    return await world.untilWorking(name, { atMs, withinMs }) ?? Infinity
  }
  // Keys whose requests ended with the process are its own until they expire, and all clients may
  // wait for one: somebody new asks.
  const asking = log.post(load.request(1))
  const accepted = await log.nextAccepted(atMs, withinMs)
  await asking
  return accepted === undefined ? Infinity : accepted - atMs
}

/** Stages that every job of the usual load passes. */
const ALWAYS_BUSY = STAGES.filter(stage => !['feed', 'handback'].includes(stage))

/** SIGKILL at any moment. */
const sigkill: Fault = {
  name: 'sigkill',
  kind: 'process',
  about: 'SIGKILL of each service, at any moment of the load',
  quick: false,
  recoverWithinMs: RECOVER_SERVICE_MS,
  inject: async scene => {
    const { world, load, say, random } = scene
    const recoveryMs: number[] = []
    for (const stage of ALWAYS_BUSY) {
      await load.untilEnded(1 + Math.floor(random() * 3))
      const atMs = Date.now()
      world.services.kill(`${stage}-1`, 'SIGKILL')
      recoveryMs.push(await recoveryOf(scene, `${stage}-1`, atMs))
      say(`${stage} works again after ${recoveryMs.at(-1)} ms`)
    }
    return { injected: recoveryMs.length, recoveryMs }
  },
}

export const kills: readonly Fault[] = [sigkill]
