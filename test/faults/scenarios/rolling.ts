import { setTimeout as sleep } from 'node:timers/promises'
import { createDemo } from '../../../services/admin/demo.ts'
import { STAGES } from '../../../services/topology.ts'
import { createClientLog, type ClientLog } from '../client-log.ts'
import type { Fault, Scene } from '../fault.ts'
import { verify } from '../oracle.ts'

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
export async function untilEnd (
  { environment: { services }, full }: Scene, name: string, sinceMs: number
) {
  const giveUpAt = sinceMs + (full ? ENDS_WITHIN_MS.full : ENDS_WITHIN_MS.quick)
  for (; Date.now() < giveUpAt; await sleep(20)) {
    const found = services.ends().find(end => end.name === name && end.atMs >= sinceMs)
    if (found !== undefined) return found
  }
  return undefined
}

/** SIGTERM, and the time until the one that follows is ready. */
async function restart (scene: Scene, name: string): Promise<Restart> {
  const atMs = Date.now()
  scene.environment.services.kill(name, 'SIGTERM')
  const end = await untilEnd(scene, name, atMs)
  if (end === undefined) return { tookMs: Infinity, how: 'did not end' }
  const isReady = await untilReady(scene, name)
  const tookMs = isReady ? Date.now() - atMs : Infinity
  scene.say(`${name}: ${end.how} after ${end.atMs - atMs} ms, ready after ${tookMs} ms`)
  return { tookMs, how: end.how }
}

async function untilReady ({ environment: { services } }: Scene, name: string): Promise<boolean> {
  for (const giveUpAt = Date.now() + READY_WITHIN_MS; Date.now() < giveUpAt; await sleep(50)) {
    if (await services.isReady(name)) return true
  }
  return false
}

/** The verdict on the big jobs; ends and dead letters are verified with the small ones. */
async function breachesOf ({ environment, receiver }: Scene, { orgId, log }: Bulk) {
  const { breaches } = await verify({
    log,
    receiver,
    orgId,
    env: environment.stack.env,
    allows: {},
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
