import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import {
  createClient, hasEnded, type Client, type JobStatusResource,
} from '../../../services/client/client.ts'
import { FAILPOINTS } from '../../../services/runtime/platform/failpoint.ts'
import { runAudit } from '../../../services/admin/audit/command.ts'
import { createDemo } from '../../../services/admin/demo.ts'
import { COMMON } from '../environment.ts'
import type { Fault, Scene } from '../fault.ts'
import { OF_BATCHES } from './batch-vendor.ts'
import { hitAll, injectedBy } from './failpoints.ts'
import { RECOVER_SERVICE_MS } from './kills.ts'

/** What a synchronous request passes, by the first part of the failpoints. */
const PASSED = [
  'submit', 'verification', 'normalize', 'lookup', 'verify', 'settle', 'finish', 'ledger',
]
const POINTS = FAILPOINTS.filter(point =>
  PASSED.includes(point.split('.', 1)[0] ?? '') && !OF_BATCHES.includes(point))

/** What the demonstration organization has at first. */
const CREDIT_MICROS = 1_000_000_000
/** Far beyond the slowest job on a busy machine. */
const ENDED_WITHIN_MS = 240_000

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
      const audit = await runAudit(stack.env, { only, waitMs: ENDED_WITHIN_MS })
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
  quick: false,
  recoverWithinMs: RECOVER_SERVICE_MS,
  load: { waitShare: 1, smallRows: 10, bulkShare: 0 },
  inject: async scene => {
    const hasty = await startHasty(scene)
    const hits = await hitAll(scene, POINTS)
    const breaches = (await hasty.stop()).map(text => `not repeated: ${text}`)
    return injectedBy(hits, breaches)
  },
}

export const synchronousRequests: readonly Fault[] = [synchronous]
