import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import { runAudit } from '../../../services/admin/audit/run.ts'
import { createDemo } from '../../../services/admin/demo.ts'
import { withWorkspace } from '../../../services/admin/deps.ts'
import {
  type Client, createClient, hasEnded, type JobStatusResource,
} from '../../../services/client/client.ts'
import { type Failpoint, FAILPOINTS } from '../../../services/runtime/platform/failpoint.ts'
import { mixedPhones } from '../../bench/jobs.ts'
import { COMMON } from '../environment.ts'
import type { Fault, Injected, Scene } from '../fault.ts'
import { RECOVER_SERVICE_MS, recoveryOf } from './processes.ts'
import { commandOn } from '../../support/admin.ts'
import { createTestPartner, feedContacts } from '../../support/feeds/partner.ts'
import { type FakeVendors, presetAt, startFakeVendors } from '../../support/vendors/fake-vendors.ts'

const topUp = commandOn('topup')

/** Some of every stage, for the quick run. */
const QUICK: readonly Failpoint[] = [
  'settle.stored', 'ledger.appended', 'submit.claimed', 'normalize.produce', 'lookup.accepted',
  'verify.kept', 'deliver.sent', 'feed.taken', 'publish.sent', 'submit.sent', 'settle.tallied',
  'outbox.shipped', 'verification.answering', 'lists.shipped',
]

/** Reached only with a vendor that takes batches. */
const OF_BATCHES: readonly Failpoint[] = [
  'verify.intended', 'verify.submitted', 'verify.recorded',
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
async function hitAll (scene: Scene, points: readonly Failpoint[]): Promise<readonly Hit[]> {
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
function injectedBy (hits: readonly Hit[], breaches: readonly string[]): Injected {
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

/** What a synchronous request passes, by the first part of the failpoints. */
const PASSED = [
  'submit', 'verification', 'normalize', 'lookup', 'verify', 'settle', 'finish', 'ledger',
]
const SYNCHRONOUS = FAILPOINTS.filter(point =>
  PASSED.includes(point.split('.', 1)[0] ?? '') && !OF_BATCHES.includes(point))

/** What the demonstration organization has at first. */
const CREDIT_MICROS = 1_000_000_000

/** A request that is not repeated, and the job of its answer, if it had one. */
type Sent = { readonly label: string, readonly job: string | undefined }

/**
 * A client of an organization of its own that sends synchronous requests and never repeats one.
 * The clients of the load repeat theirs.
 */
async function startHasty ({ environment: { stack, services }, seed, load }: Scene) {
  const { orgId, keys } = await createDemo(stack.env)
  const [baseUrl = ''] = services.baseUrls()
  const client = createClient({ baseUrl, apiKey: keys.live, retries: 0 })
  const stopping = new AbortController()
  const sent: Sent[] = []
  const run = async () => {
    while (!stopping.signal.aborted) {
      const label = randomUUID()
      const body = { ...load.request(1), forceFresh: true, metadata: { label } }
      const job = await client.verify(body, { wait: 5 }).then(({ id }) => id, () => undefined)
      sent.push({ label, job })
      if (job === undefined) await sleep(100)
    }
  }
  const running = run()
  return {
    /** Resolves with what was charged wrongly. */
    stop: async (): Promise<readonly string[]> => {
      stopping.abort()
      await running
      // By then every request is decided: it has a job, or it never will.
      await sleep(Number(COMMON['ACCEPT_WITHIN_MS']))
      const only = [tenantOf(orgId, 'live')]
      const audit = await runAudit(stack.env, { only, waitMs: REACHED_WITHIN_MS })
      return [
        ...audit.breaches.map(breach => JSON.stringify(breach)),
        ...await chargesOf(createClient({ baseUrl, apiKey: keys.live, retries: 20 }), sent),
      ]
    },
  }
}

/** Each request must have one job or none, and the wallet must have lost what those jobs cost. */
async function chargesOf (client: Client, sent: readonly Sent[]): Promise<readonly string[]> {
  const jobs: JobStatusResource[] = []
  for await (const job of client.jobs()) jobs.push(job)
  const byLabel = Map.groupBy(jobs, ({ metadata }) => metadata['label'])
  const charged = jobs.reduce((sum, { chargedMicros }) => sum + chargedMicros, 0)
  const { balanceMicros, reservedMicros } = await client.balance()
  const spent = CREDIT_MICROS - balanceMicros
  return [
    ...sent.flatMap(({ label, job }) => {
      const ids = (byLabel.get(label) ?? []).map(({ id }) => id)
      const isRight = job === undefined ? ids.length <= 1 : ids.join() === job
      return isRight ? [] : [`a request was answered with ${job} and has the jobs ${ids.join()}`]
    }),
    ...jobs.filter(job => !hasEnded(job)).map(({ id, status }) => `${id} is still ${status}`),
    ...spent === charged && reservedMicros === 0
      ? []
      : [`${charged} micros are charged for jobs, the wallet lost ${spent} and has ` +
        `${reservedMicros} reserved`],
  ]
}

const synchronous: Fault = {
  name: 'synchronous',
  kind: 'process',
  about: 'SIGKILL at each failpoint that a synchronous request passes: charged once or not at all',
  recoverWithinMs: RECOVER_SERVICE_MS,
  load: { waitShare: 1, smallRows: 10, bulkShare: 0 },
  inject: async scene => {
    const hasty = await startHasty(scene)
    const hits = await hitAll(scene, SYNCHRONOUS)
    const breaches = (await hasty.stop()).map(text => `not repeated: ${text}`)
    return injectedBy(hits, breaches)
  },
}

export const failpoints: readonly Fault[] = [atFailpoints, blocked, synchronous]

/** Between the first step of a batch and the last of its answers. */
const BATCH_POINTS: readonly Failpoint[] = [
  'verify.begun', 'verify.claimed', ...OF_BATCHES, 'verify.checked', 'verify.kept',
  'verify.produce', 'verify.after', 'verify.commit',
]
const PASSES = 3
/** Between two kills: a message at which a process ends five times in a row is taken for poison. */
const COMMITS = 5

/** The vendors of the environment under test; a scenario runs alone. */
let vendors: FakeVendors | undefined

export const batchVendor: Fault = {
  name: 'batch-vendor',
  kind: 'process',
  about: 'SIGKILL of verify at each failpoint between rows given to a vendor as a batch and its ' +
    'answers: no batch is bought twice',
  load: { service: 'whatsapp', emailShare: 0, smallRows: 60, bulkRows: 1_200 },
  prepare: async () => {
    const started = await startFakeVendors()
    vendors = started
    const preset = presetAt(started.url, 'http:checknumber', { id: 1 }) as { batch: object }
    return {
      close: async () => started.stop(),
      env: {
        HTTP_PROVIDERS: JSON.stringify([{ ...preset, batch: { ...preset.batch, pollMs: 1_000 } }]),
        PROVIDERS: JSON.stringify({
          whatsapp: ['http:1'],
          'phone-validation': ['numbering-plan'],
          'email-validation': ['email-domain'],
        }),
      },
    }
  },
  inject: async ({ environment: { services }, load, random, say }) => {
    const missed: string[] = []
    for (const point of BATCH_POINTS) {
      services.arm('verify-1', point, `kill@${1 + Math.floor(random() * PASSES)}`)
      const fired = await services.untilFired('verify-1', REACHED_WITHIN_MS)
      if (fired === undefined) {
        missed.push(`${point} was not reached`)
        continue
      }
      say(`${point}: killed, ${vendors?.files.length ?? 0} batches bought so far`)
      while ([undefined, fired.pid].includes(services.pid('verify-1'))) await sleep(20)
      services.arm('verify-1', 'verify.commit', `block=0@${COMMITS}`)
      await services.untilFired('verify-1', REACHED_WITHIN_MS)
    }
    await load.untilEnded(5)
    const files = vendors?.files ?? []
    const twice = files.filter((file, at) => files.indexOf(file) !== at)
    return {
      injected: BATCH_POINTS.length - missed.length,
      note: `${files.length} batches bought`,
      breaches: [...missed, ...twice.map((file) => `${file} was bought twice`)],
    }
  },
}
