import { setTimeout as delay } from 'node:timers/promises'
import type { Scale } from '../../../deploy/local/launcher/scale.ts'
import { ApiError } from '../../../services/client/client.ts'
import { atARate } from '../at-a-rate.ts'
import { phones, timeJob } from '../jobs.ts'
import type { Setting } from '../setting.ts'
import { quantile } from '../spread.ts'

export type ScaleStep = {
  readonly normalize: number
  readonly verify: number
  readonly rowsPerSecond: number
}

export type ScalingFigures = {
  /** Some big jobs at once through the whole service, with one and two instances. */
  readonly steps: readonly ScaleStep[]
  /** POST of a 100-row job: the same stream with the groups left alone, then scaled out and in. */
  readonly steady: PostFigures
  readonly moving: PostFigures
}

export type PostFigures = {
  readonly posts: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Answers 503. */
  readonly unavailable: number
  /** Any other answer that is no success. */
  readonly otherRefusals: number
}

const STEPS = [
  { normalize: 1, verify: 1 }, { normalize: 2, verify: 1 },
  { normalize: 1, verify: 2 }, { normalize: 2, verify: 2 },
]
const JOBS_AT_ONCE = 3
const MOVED = ['normalize', 'lookup', 'verify', 'settle']
const POST_EVERY_MS = 200
const STEADY_MS = 20_000
const STANDS_MS = 3_000

/** Throughput with one and two instances, and what clients notice while groups change. */
export async function measureScaling (setting: Setting): Promise<ScalingFigures> {
  const { services, scale, rows, show } = setting
  const steps: ScaleStep[] = []
  for (const step of STEPS) {
    show(`scaling: normalize ${step.normalize}, verify ${step.verify}, ` +
      `${JOBS_AT_ONCE} jobs of ${rows} rows at once`)
    await services.setScale({ ...scale, ...step })
    await jobsAtOnce(setting)
    steps.push({ ...step, rowsPerSecond: await jobsAtOnce(setting) })
  }
  await services.setScale(scale)
  show('scaling: a stream of 100-row jobs, the groups left alone')
  const steady = await duringStream(setting, () => delay(STEADY_MS))
  show(`scaling: the same while ${MOVED.join(', ')} go to two instances and back`)
  const moving = await duringStream(setting, () => moveGroups(setting))
  return { steps, steady, moving }
}

/** Rows a second. */
async function jobsAtOnce ({ client, rows }: Setting): Promise<number> {
  const inputs = Array.from({ length: JOBS_AT_ONCE }, () => phones(rows))
  const startedAt = performance.now()
  await Promise.all(inputs.map(own => timeJob(client, own)))
  return rows * JOBS_AT_ONCE / (performance.now() - startedAt) * 1_000
}

async function moveGroups ({ services, scale }: Setting): Promise<void> {
  for (const stage of MOVED) {
    const more: Scale = { ...scale, [stage]: (scale[stage] ?? 1) + 1 }
    await services.setScale(more)
    await delay(STANDS_MS)
    await services.setScale(scale)
    await delay(STANDS_MS)
  }
}

type Post = { readonly ms: number, readonly status: number }

/** Fresh 100-row jobs at a fixed rate while some work is done. */
async function duringStream (
  { impatient }: Setting, work: () => Promise<unknown>
): Promise<PostFigures> {
  return postFigures(await atARate(POST_EVERY_MS, {
    until: work(), work: () => postOf(impatient, phones(100)),
  }))
}

async function postOf (
  client: Setting['client'], inputs: readonly string[]
): Promise<Post> {
  const sentAt = performance.now()
  const request = { service: 'phone-validation', inputs, countryCode: 'US' }
  const status = await client.createJob(request).then(() => 202, statusOf)
  return { ms: performance.now() - sentAt, status }
}

/** No answer at all counts as one with status 0. */
function statusOf (error: unknown): number {
  return error instanceof ApiError ? error.status : 0
}

/** Times of all answers, refusals included, and how many of those there were. */
export function postFigures (posts: readonly Post[]): PostFigures {
  const times = posts.map(({ ms }) => ms)
  const unavailable = posts.filter(({ status }) => status === 503).length
  const accepted = posts.filter(({ status }) => status === 202).length
  return {
    posts: posts.length,
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
    unavailable,
    otherRefusals: posts.length - accepted - unavailable,
  }
}
