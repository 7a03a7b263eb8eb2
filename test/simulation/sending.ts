import type { Redis } from 'ioredis'
import type { VerificationBody } from '../../schemas/api/verifications.ts'
import type { SubmitterOptions } from '../../services/jobs/submit.ts'
import type { Chaos } from './chaos.ts'
import { inputsOf, jobsIn } from './inputs.ts'
import { request, type Answered, type Requested } from './requests.ts'

export type Sending = {
  readonly seed: number
  readonly chaos: Chaos
  readonly tenants: readonly string[]
  readonly cache: Redis
  /** How often Redis was lost by now, where it may be. Throws when it cannot be recovered. */
  readonly losing: (() => number) | undefined
  /** What a client that waits for the rows of its job gets. */
  readonly awaitRows: (answered: Answered) => Promise<VerificationBody | undefined>
}

/** Some jobs, one after another or several at the same time; resolves when all are answered. */
export async function sendAll (
  options: SubmitterOptions, sending: Sending
): Promise<readonly Requested[]> {
  const { seed, chaos, cache, awaitRows } = sending
  const sent: Promise<Requested>[] = []
  const jobs = jobsIn(seed, chaos)
  for (let job = 0; job < jobs; job++) {
    const one = send(options, sending)
    sent.push(one.then(async request => ({ ...request, verified: await awaitRows(request) })))
    if (chaos.happens(0.5)) await one
    if (chaos.happens(0.3)) await forgetSome(cache, chaos)
  }
  return await Promise.all(sent)
}

async function send (
  options: SubmitterOptions, { tenants, seed, chaos, losing }: Sending
): Promise<Omit<Requested, 'verified'>> {
  const tenant = chaos.pick(tenants)
  const inputs = inputsOf(seed, chaos)
  const sent = { tenant, inputs, forceFresh: chaos.happens(0.2) }
  const submission = submissionOf(sent)
  const known = { losses: losing ?? (() => 0), once: losing === undefined }
  return { ...sent, ...await request(options, { submission, chaos, ...known }) }
}

const submissionOf = (sent: Pick<Requested, 'tenant' | 'inputs' | 'forceFresh'>) => ({
  ...sent,
  service: 'phone-validation',
  country: 'US',
  metadata: { run: 'x' },
  webhookUrl: '',
  idempotencyKey: '',
  fingerprint: 'f',
})

/** A cache that forgets: some of its keys are gone between two jobs. */
async function forgetSome (cache: Redis, chaos: Chaos): Promise<void> {
  const keys = await cache.keys('c:*')
  const gone = keys.toSorted().filter(() => chaos.happens(0.3))
  if (gone.length > 0) await cache.del(...gone)
}
