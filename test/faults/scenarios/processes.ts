import { setTimeout as sleep } from 'node:timers/promises'
import { STAGES } from '../../../services/topology.ts'
import type { Fault, Scene } from '../fault.ts'
import { recoveryOf, RECOVER_SERVICE_MS } from './kills.ts'
import { rolling, scaleOf, untilEnd } from './rolling.ts'

/** Stages on the engine that every job of the usual load passes. */
const WORKERS = ['normalize', 'lookup', 'verify', 'settle', 'deliver', 'ledger']

/** A process takes over only after the session of the suspended one has ended. */
const STOPPED_MS = 20_000

const frozenOf = (full: boolean) => full ? WORKERS : ['settle']

const zombies: Fault = {
  name: 'zombies',
  kind: 'process',
  about: 'one of two processes of each stage is stopped (SIGSTOP) and continued when others ' +
    'have done its work',
  quick: true,
  recoverWithinMs: RECOVER_SERVICE_MS,
  scale: full => scaleOf(frozenOf(full), 2),
  inject: async ({ environment: { services }, load, full, say }: Scene) => {
    const stages = frozenOf(full)
    await load.untilEnded(2)
    // Some of what is under way then is the zombie's to finish, some of what comes after too.
    const fromMs = Date.now() - 500
    const atMs = Date.now()
    for (const stage of stages) services.kill(`${stage}-1`, 'SIGSTOP')
    const ended = await load.allEnded(fromMs, atMs + 1_500, 4 * STOPPED_MS)
    say(`others took over after ${ended === undefined ? '?' : ended - atMs} ms`)
    if (full) await sleep(Math.max(0, atMs + STOPPED_MS - Date.now()))
    for (const stage of stages) services.kill(`${stage}-1`, 'SIGCONT')
    await load.untilEnded(full ? 6 : 2)
    return { injected: stages.length, recoveryMs: [ended === undefined ? Infinity : ended - atMs] }
  },
}

const EVERY_MS = 3_000
const STORM_MS = 36_000

const storm: Fault = {
  name: 'rebalance-storm',
  kind: 'process',
  about: 'instances of every stage join and leave every 3 s',
  quick: false,
  inject: async ({ environment: { services }, load, random, say }) => {
    let joined = 0
    let left = 0
    const before = load.ended()
    for (const endsAt = Date.now() + STORM_MS; Date.now() < endsAt;) {
      const scale = Object.fromEntries(WORKERS.map(stage =>
        [stage, 1 + Math.floor(random() * 3)]))
      const known = services.names().length
      const changing = services.setScale(scale)
      await Promise.all([changing, sleep(EVERY_MS)])
      const change = services.names().length - known
      if (change > 0) joined += change
      else left -= change
    }
    const during = load.ended() - before
    say(`${joined} more, ${left} fewer; ${during} jobs ended meanwhile`)
    await services.setScale({})
    await services.untilReady()
    await load.untilEnded(3)
    const breaches = during === 0 ? ['no job ended during the storm'] : []
    return { injected: joined + left, breaches, note: `${during} jobs ended meanwhile` }
  },
}

const drains: Fault = {
  name: 'sigterm',
  kind: 'process',
  about: 'SIGTERM of each service under load: it drains and exits with 0 within 25 s',
  quick: false,
  inject: async scene => {
    const { environment: { services }, load, say } = scene
    const recoveryMs: number[] = []
    const breaches: string[] = []
    for (const stage of STAGES) {
      const name = `${stage}-1`
      await load.untilEnded(1)
      const atMs = Date.now()
      services.kill(name, 'SIGTERM')
      const end = await untilEnd(scene, name, atMs)
      say(`${name}: ${end?.how ?? 'did not end'} after ${(end?.atMs ?? Infinity) - atMs} ms`)
      if (end?.how !== 'exit code 0') breaches.push(`${name}: ${end?.how ?? 'did not end'}`)
      if (['feed', 'publish'].includes(stage)) await services.untilReady()
      else recoveryMs.push(await recoveryOf(scene, name, end?.atMs ?? atMs))
    }
    return { injected: STAGES.length, recoveryMs, breaches }
  },
}

export const processes: readonly Fault[] = [zombies, storm, drains, rolling]
