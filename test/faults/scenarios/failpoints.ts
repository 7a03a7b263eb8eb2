import { setTimeout as sleep } from 'node:timers/promises'
import { type Failpoint, FAILPOINTS } from '../../../services/runtime/platform/failpoint.ts'
import { createClient } from '../../../services/client/client.ts'
import { createDemo } from '../../../services/admin/demo.ts'
import { withWorkspace } from '../../../services/admin/deps.ts'
import type { Fault, Injected, Scene } from '../fault.ts'
import { OF_BATCHES } from './batch-vendor.ts'
import { RECOVER_SERVICE_MS, recoveryOf } from './kills.ts'
import { commandOn } from '../../support/admin.ts'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import { runAudit } from '../../../services/admin/audit/command.ts'
import { mixedPhones } from '../../bench/jobs.ts'
import { createTestPartner, feedContacts } from '../../support/feeds/partner.ts'

const topUp = commandOn('topup')

/** Some of every stage, for the quick run. */
const QUICK: readonly Failpoint[] = [
  'settle.stored', 'ledger.appended', 'submit.claimed', 'normalize.produce', 'lookup.accepted',
  'verify.kept', 'deliver.sent', 'feed.taken', 'publish.sent', 'submit.sent', 'settle.tallied',
  'outbox.shipped', 'verification.answering', 'lists.shipped',
]

/** More at a time would be another fault: a machine that is too small. */
const LANES = { full: 3, quick: 9 }
/** Far beyond the slowest case on a busy machine. */
const REACHED_WITHIN_MS = 240_000

/** In the quick run these are another process's, so that none waits for the one before. */
const OF_SECOND: readonly Failpoint[] = ['settle.tallied']
const QUICK_SCALE = { settle: 2 }

/** Which process passes it. */
export function instanceOf (point: Failpoint, number = 1): string {
  const [folder = ''] = point.split('.')
  const owners: Readonly<Record<string, string>> = {
    submit: 'ingest',
    verification: 'ingest',
    erase: 'ingest',
    finish: 'settle',
    outbox: 'ledger',
    erasing: 'ledger',
    access: 'ledger',
    lists: 'ledger',
  }
  return `${owners[folder] ?? folder}-${number}`
}

type Hit =
  | { readonly kind: 'hit', readonly recoveryMs?: number }
  | { readonly kind: 'missed', readonly breach: string }

/** Returns when the process runs again; with `measured` when it works again. */
async function hit (
  scene: Scene, point: Failpoint, { name, measured }: { name: string, measured: boolean }
): Promise<Hit> {
  const { environment: { services }, random, say } = scene
  const provoke = provokedBy(point)
  const passing = provoke === undefined ? 1 + Math.floor(random() * 3) : 1
  services.arm(name, point, `kill@${passing}`)
  const provoking = provoke?.(scene)
  const fired = await services.untilFired(name, REACHED_WITHIN_MS)
  await provoking
  if (fired === undefined) {
    services.arm(name, point, '')
    return {
      kind: 'missed', breach: `${point} was not reached within ${REACHED_WITHIN_MS} ms`,
    }
  }
  if (!measured) {
    const runsAgain = () => ![undefined, fired.pid].includes(services.pid(name))
    while (!runsAgain()) await sleep(20)
    return { kind: 'hit' }
  }
  const recoveryMs = await recoveryOf(scene, name, fired.atMs)
  say(`${point}@${passing}: ${name} works again after ${recoveryMs} ms`)
  return { kind: 'hit', recoveryMs }
}

/** From then on jobs follow a change of contact lists. */
const LISTS_FOLLOWED_MS = 2_000

/** How to reach a point that the load does not pass. */
function provokedBy (point: Failpoint): ((scene: Scene) => Promise<void>) | undefined {
  if (point.startsWith('outbox')) return provokeTakeover
  if (point.startsWith('lists')) return provokeListChange
  // The access log has an entry of each erasure.
  return /^(?:eras|access)/.test(point) ? provokeErasure : undefined
}

/** The job is of another organization, because the results of the load's jobs are compared. */
async function provokeErasure ({ environment }: Scene): Promise<void> {
  const { stack, services } = environment
  const { keys } = await createDemo(stack.env)
  const [baseUrl = ''] = services.baseUrls()
  const client = createClient({ baseUrl, apiKey: keys.test, retries: 50 })
  const { id } = await client.createJob({
    service: 'phone-validation', inputs: ['+12127365000'],
  })
  await client.waitForEnd(id)
  await client.eraseJob(id)
}

/** What the killed ledger has sent counts: the entries are there, and in the answers of jobs. */
async function provokeListChange ({ environment }: Scene): Promise<void> {
  const { stack, services } = environment
  const { keys } = await createDemo(stack.env)
  const [baseUrl = ''] = services.baseUrls()
  const client = createClient({ baseUrl, apiKey: keys.test, retries: 50 })
  await client.changeContactLists({ action: 'suppress', entries: ['+12127365000'] })
  await sleep(LISTS_FOLLOWED_MS)
  const { id } = await client.createJob({ service: 'phone-validation', inputs: ['+12127365000'] })
  const { reasons } = await client.waitForEnd(id)
  if (reasons?.['suppressed'] !== 1) {
    throw new Error(`a suppressed number ended as ${JSON.stringify(reasons)}`)
  }
}

/** No other process ships entries of the workspace. */
async function provokeTakeover ({ environment, orgId }: Scene): Promise<void> {
  await withWorkspace(environment.stack.env, async parts => {
    await topUp(parts, { org: orgId, mode: 'live', usd: '1' })
  })
}

/** Takes points in turn, never two of one process at a time. */
export async function hitAll (scene: Scene, points: readonly Failpoint[]): Promise<readonly Hit[]> {
  const left = [...points]
  const busy = new Set<string>()
  const hits: Hit[] = []
  const nameOf = (point: Failpoint) =>
    instanceOf(point, !scene.full && OF_SECOND.includes(point) ? 2 : 1)
  const lane = async () => {
    while (left.length > 0) {
      const at = left.findIndex(point => !busy.has(nameOf(point)))
      const [point] = at < 0 ? [] : left.splice(at, 1)
      if (point === undefined) {
        await sleep(50)
        continue
      }
      const name = nameOf(point)
      busy.add(name)
      // A process that is to be killed again need not work again before that.
      const measured = scene.full || !left.some(other => nameOf(other) === name)
      hits.push(await hit(scene, point, { name, measured }))
      busy.delete(name)
    }
  }
  const lanes = scene.full ? LANES.full : LANES.quick
  await Promise.all(Array.from({ length: lanes }, lane))
  return hits
}

async function inject (scene: Scene): Promise<Injected> {
  const points = scene.full ? FAILPOINTS.filter(point => !OF_BATCHES.includes(point)) : QUICK
  const feed = await startFeedLoad({ ...scene.environment.stack.env }, scene.seed % 1_000 * 500)
  const hits = await hitAll(scene, points)
  return injectedBy(hits, await feed.stop())
}

/** What the hits were, with what else was seen to break. */
export function injectedBy (hits: readonly Hit[], breaches: readonly string[]): Injected {
  const injected = hits.filter(({ kind }) => kind === 'hit').length
  return {
    injected,
    recoveryMs: hits.flatMap(one => one.kind === 'hit' ? one.recoveryMs ?? [] : []),
    note: `${injected} of ${hits.length} points`,
    breaches: [...breaches, ...hits.flatMap(one => one.kind === 'missed' ? [one.breach] : [])],
  }
}

const atFailpoints: Fault = {
  name: 'failpoints',
  kind: 'process',
  about: 'SIGKILL of the process at each failpoint of each stage',
  quick: true,
  recoverWithinMs: RECOVER_SERVICE_MS,
  load: { webhookShare: 0.6 },
  scale: full => full ? {} : QUICK_SCALE,
  inject,
}

/** Longer than a session of a consumer group. */
const BLOCKED_MS = 8_000

const blocked: Fault = {
  name: 'blocked',
  kind: 'process',
  about: 'the event loop of each stage is blocked for 8 s, longer than its session timeout',
  quick: false,
  inject: async ({ environment: { services }, load, say }) => {
    const points = [
      'normalize.seal', 'lookup.produce', 'verify.after', 'settle.tallied', 'ledger.commit',
    ] as const
    for (const point of points) {
      services.arm(instanceOf(point), point, `block=${BLOCKED_MS}@2`)
      const fired = await services.untilFired(instanceOf(point), REACHED_WITHIN_MS)
      say(`${point}: ${fired === undefined ? 'not reached' : 'blocked'}`)
      if (fired === undefined) return { injected: 0 }
      await load.untilEnded(4)
    }
    return { injected: points.length }
  },
}

export const failpoints: readonly Fault[] = [atFailpoints, blocked]

type FeedLoad = {
  /** No further contacts; resolves with what broke: a contact without one result, or money. */
  readonly stop: () => Promise<readonly string[]>
}

const AT_ONCE = 30

/** A partner that sends contacts, some at a time, and waits for a result of each. */
async function startFeedLoad (
  env: Record<string, string>, firstSerial: number
): Promise<FeedLoad> {
  const partner = await createTestPartner(env, { usd: '500' })
  const breaches: string[] = []
  const stopping = new AbortController()
  let serial = firstSerial
  const run = async () => {
    while (!stopping.signal.aborted) {
      const inputs = mixedPhones(AT_ONCE, serial)
      serial += AT_ONCE
      const contacts = inputs.map((input, index) =>
        ({ input, reference: `contact-${serial}-${index}`, countryCode: undefined }))
      const { results } = await feedContacts(partner, contacts)
      const answered = new Set(results.map(({ reference }) => reference))
      const without = contacts.filter(({ reference }) => !answered.has(reference))
      if (without.length > 0 || results.length !== contacts.length) {
        breaches.push(`feed: ${results.length} results of ${contacts.length} contacts, ` +
          `${without.length} of them without any`)
      }
    }
  }
  const running = run().catch(error => { breaches.push(`feed: ${String(error)}`) })
  return {
    stop: async () => {
      stopping.abort()
      await running
      const only = [tenantOf(partner.org, 'live')]
      const { breaches: found } = await runAudit(env, { only, waitMs: 240_000 })
      return [...breaches, ...found.map(breach => `feed: ${JSON.stringify(breach)}`)]
    },
  }
}
