import { setTimeout as delay } from 'node:timers/promises'
import type { Scale } from '../../../deploy/local/launcher/scale.ts'
import { ApiError } from '../../../services/client/client.ts'
import { atConstantRate, freshPhones, timeJob, quantile } from '../jobs.ts'
import type { BenchContext } from '../run.ts'

export type PostFigures = ReturnType<typeof postFigures>

const STEPS = [
  { normalize: 1, verify: 1 }, { normalize: 2, verify: 1 },
  { normalize: 1, verify: 2 }, { normalize: 2, verify: 2 },
]
const CONCURRENT_JOBS = 3
const SCALED_STAGES = ['normalize', 'lookup', 'verify', 'settle']
const POST_EVERY_MS = 200
const STEADY_MS = 20_000
const SETTLE_MS = 3_000

/** Measures throughput by instances, and the latency of POST while consumer groups rebalance. */
export async function measureScaling (context: BenchContext) {
  const { services, scale, rows, log } = context
  const steps = []
  for (const step of STEPS) {
    log(`scaling: normalize ${step.normalize}, verify ${step.verify}, ` +
      `${CONCURRENT_JOBS} concurrent jobs of ${rows} rows`)
    await services.setScale({ ...scale, ...step })
    // Warms up the new instances.
    await measureThroughput(context)
    steps.push({ ...step, rowsPerSecond: await measureThroughput(context) })
  }
  await services.setScale(scale)
  log('scaling: 100-row jobs at a constant rate, stable groups')
  const steady = await measurePosts(context, () => delay(STEADY_MS))
  log(`scaling: the same while ${SCALED_STAGES.join(', ')} are scaled out and in`)
  const rebalancing = await measurePosts(context, () => scaleOutAndIn(context))
  return { steps, steady, rebalancing }
}

/** Runs concurrent large jobs; returns rows per second. */
async function measureThroughput ({ client, rows }: BenchContext): Promise<number> {
  const inputs = Array.from({ length: CONCURRENT_JOBS }, () => freshPhones(rows))
  const startedAt = performance.now()
  await Promise.all(inputs.map(job => timeJob(client, job)))
  return rows * CONCURRENT_JOBS / (performance.now() - startedAt) * 1_000
}

async function scaleOutAndIn ({ services, scale }: BenchContext): Promise<void> {
  for (const stage of SCALED_STAGES) {
    const scaledOut: Scale = { ...scale, [stage]: (scale[stage] ?? 1) + 1 }
    await services.setScale(scaledOut)
    await delay(SETTLE_MS)
    await services.setScale(scale)
    await delay(SETTLE_MS)
  }
}

type Post = { readonly ms: number, readonly status: number }

/** Posts fresh 100-row jobs at a constant rate while some work is done. */
async function measurePosts (
  { clientWithoutRetries }: BenchContext, work: () => Promise<unknown>
): Promise<PostFigures> {
  return postFigures(await atConstantRate(POST_EVERY_MS, {
    until: work(), work: () => timePost(clientWithoutRetries, freshPhones(100)),
  }))
}

async function timePost (
  client: BenchContext['client'], inputs: readonly string[]
): Promise<Post> {
  const sentAt = performance.now()
  const request = { service: 'phone-validation', inputs, countryCode: 'US' }
  const status = await client.createJob(request).then(() => 202, statusOf)
  return { ms: performance.now() - sentAt, status }
}

/** Returns 0 for a request without a response. */
function statusOf (error: unknown): number {
  return error instanceof ApiError ? error.status : 0
}

/** Percentiles of all latencies, refusals included, and the number of refusals. */
function postFigures (posts: readonly Post[]) {
  const times = posts.map(({ ms }) => ms)
  const unavailable = posts.filter(({ status }) => status === 503).length
  const accepted = posts.filter(({ status }) => status === 202).length
  return {
    posts: posts.length,
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
    /** Responses 503. */
    unavailable,
    /** Other responses than 202 and 503, and requests without a response. */
    otherRefusals: posts.length - accepted - unavailable,
  }
}
