import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { createDemo } from '../../../services/admin/demo.ts'
import { STAGES } from '../../../services/topology.ts'
import { type ClientLog, createClientLog } from '../client-log.ts'
import type { Fault, Injected, Scene } from '../fault.ts'
import { verify } from '../oracle.ts'
import { openStack } from '../stack.ts'
import { poll } from '../poll.ts'

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

/** The Redis that comes back has everything compared with the journal, by its own user too. */
const secure: Fault = {
  name: 'secure',
  kind: 'process',
  about: 'SIGKILL of each service and of the state Redis, with TLS and a Kafka user a stage',
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

/** What is restarted under which jobs; the usual load's small ones run all the time. */
const FULL = { stages: STAGES, jobs: 10, rows: 20_000, atOnce: 1 }
/** Services are restarted in parallel, the instances of each one in turn. */
const QUICK = { stages: ['ingest', 'lookup', 'settle'], jobs: 2, rows: 2_000, atOnce: 3 }

const READY_WITHIN_MS = 60_000
/** Times are checked where the machine does nothing else. */
const ENDS_WITHIN_MS = { full: 30_000, quick: 240_000 }

/** The number of instances of each of these stages. */
export const scaleOf = (stages: readonly string[], count: number) =>
  Object.fromEntries(stages.map(stage => [stage, count]))

/** The organization of the big jobs, and what its clients saw. */
type Bulk = { readonly orgId: string, readonly log: ClientLog }

async function openBulk ({ environment, random }: Scene): Promise<Bulk> {
  const { orgId, keys } = await createDemo(environment.stack.env)
  const { baseUrls } = environment.services
  return { orgId, log: createClientLog({ baseUrls, apiKey: keys.live, random }) }
}

/** Whether some of its jobs have not ended; one that is not answered for is taken to run. */
async function isUnderWay ({ client, promised }: ClientLog): Promise<boolean> {
  const running = await Promise.all(promised.map(async ({ id }) => {
    const status = await client.job(id).then(job => job.status, () => 'unknown')
    return !['completed', 'cancelled', 'failed'].includes(status)
  }))
  return running.includes(true)
}

type Restart = { readonly tookMs: number, readonly how: string }

/** How an instance ended since a moment; undefined when it has not in time. */
async function untilEnd (
  { environment: { services }, full }: Scene, name: string, sinceMs: number
) {
  return await poll(
    () => services.ends().find(end => end.name === name && end.atMs >= sinceMs),
    full ? ENDS_WITHIN_MS.full : ENDS_WITHIN_MS.quick)
}

/** SIGTERM, and the time until the one that follows is ready. */
async function restart (scene: Scene, name: string): Promise<Restart> {
  const atMs = Date.now()
  scene.environment.services.kill(name, 'SIGTERM')
  const end = await untilEnd(scene, name, atMs)
  if (end === undefined) return { tookMs: Infinity, how: 'did not end' }
  const isReady = await poll(async () =>
    await scene.environment.services.isReady(name) || undefined, READY_WITHIN_MS, 50)
  const tookMs = isReady ? Date.now() - atMs : Infinity
  scene.say(`${name}: ${end.how} after ${end.atMs - atMs} ms, ready after ${tookMs} ms`)
  return { tookMs, how: end.how }
}

/** The verdict on the big jobs; ends and dead letters are verified with the small ones. */
async function breachesOf ({ environment, receiver }: Scene, { orgId, log }: Bulk) {
  const { breaches } = await verify({
    log,
    receiver,
    orgId,
    env: environment.stack.env,
    ends: [],
    deadLetters: async () => 0,
  })
  return breaches.map(text => `of the big jobs: ${text}`)
}

/** Requests without an answer, by why: 3 ECONNREFUSED. */
function failuresOf (logs: readonly ClientLog[]): string {
  const failed = logs.flatMap(({ answers }) => answers.flatMap(({ failure }) => failure ?? []))
  const counted = Map.groupBy(failed, failure => failure)
  return [...counted].map(([failure, all]) => `${all.length} ${failure}`).join(', ') || 'none'
}

async function inject (scene: Scene) {
  const { load, log, full, say } = scene
  const { stages, jobs, rows, atOnce } = full ? FULL : QUICK
  const bulk = await openBulk(scene)
  const post = () => bulk.log.post(load.request(rows))
  await Promise.all(Array.from({ length: jobs }, post))
  say(`${jobs} jobs of ${rows} rows are under way`)
  const restarts = new Map<string, Restart>()
  const left = [...stages]
  const lane = async () => {
    for (let stage = left.shift(); stage !== undefined; stage = left.shift()) {
      for (const name of [`${stage}-1`, `${stage}-2`]) {
        // None is restarted while there is nothing to lose.
        if (!await isUnderWay(bulk.log)) await post()
        restarts.set(name, await restart(scene, name))
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
  // Nothing is restarted any longer, so further jobs would only make their judges wait.
  await load.stop()
  const breaches = await breachesOf(scene, bulk)
  const wrong = [...restarts].filter(([, { how }]) => how !== 'exit code 0')
  return {
    injected: restarts.size,
    recoveryMs: [...restarts.values()].map(({ tookMs }) => tookMs),
    breaches: [...breaches, ...wrong.map(([name, { how }]) => `${name}: ${how}`)],
    note: `beside ${bulk.log.promised.length} jobs of ${rows} rows; requests tried again: ` +
      failuresOf([log, bulk.log]),
  }
}

/** Every service is replaced while it works, as an upgrade does it. */
export const rolling: Fault = {
  name: 'rolling-restart',
  kind: 'process',
  about: 'two instances of every service: each in turn is stopped and started again, under ' +
    'ten jobs of 20,000 rows and the small ones of another tenant',
  quick: true,
  recoverWithinMs: 30_000,
  load: { bulkShare: 0 },
  scale: full => scaleOf((full ? FULL : QUICK).stages, 2),
  inject,
}

export const processes: readonly Fault[] = [secure, zombies, storm, rolling]
