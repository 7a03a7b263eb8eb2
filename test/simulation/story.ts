import type { Redis } from 'ioredis'
import { createEmitter } from '../../services/lib/emit.ts'
import { createOutcomes } from '../../services/jobs/outcomes.ts'
import { createSubmitter, type Submitted } from '../../services/jobs/submit.ts'
import { createAdmission } from '../../services/money/gate.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { mixedPhones } from '../bench/inputs.ts'
import { createChaos, type Chaos } from './chaos.ts'
import { redisLike } from './early-stages.ts'
import type { World } from './world.ts'
import { startPipeline, type Faults, type Pipeline } from './pipeline.ts'

export type Sent = {
  readonly tenant: string
  readonly inputs: readonly string[]
  readonly forceFresh: boolean
  readonly outcome: Submitted
}

/** What a run did, for the oracle. */
export type Evidence = {
  readonly seed: number
  readonly pipeline: Pipeline
  readonly tenants: readonly string[]
  readonly sent: readonly Sent[]
}

/** Connections of one run: that of whoever tells the story, and those the stages ask for. */
export type Setting = {
  readonly redis: Redis
  readonly cache: Redis
  readonly connect: World['connect']
  readonly subscriber: Redis
}

/** Most stories are short, as many short ones find more than a few long ones; some are not. */
const LONG_STORY_EVERY = 8
/** Enough for the lane of big jobs. */
const MANY_ROWS = 1_001
/** A run with such jobs takes as long as twenty others, so only every so many-th has any. */
const BIG_JOBS_EVERY = 100
/** Longer than any job waits for chunks that may never come. */
const PATIENCE_MS = 600_000

const mostRowsOf = (seed: number) => seed % LONG_STORY_EVERY === 0 ? 60 : 16
const hasBigJobs = (seed: number) => seed % BIG_JOBS_EVERY === BIG_JOBS_EVERY / 2

/**
 * Rows a chunk holds: few, as only jobs of several chunks can lose one of them, and many jobs are
 * to have some. At times as many as in the product.
 */
function chunkRowsOf (seed: number, chaos: Chaos): number | undefined {
  if (hasBigJobs(seed)) return 200 + chaos.below(400)
  return chaos.happens(0.3) ? undefined : 1 + chaos.below(mostRowsOf(seed) / 2)
}

function inputsOf (seed: number, chaos: Chaos): readonly string[] {
  const isBig = hasBigJobs(seed) && chaos.happens(0.4)
  const rows = isBig ? MANY_ROWS + chaos.below(400) : 1 + chaos.below(mostRowsOf(seed))
  // Few serial numbers, so that jobs meet each other's numbers in the cache.
  return mixedPhones(rows, chaos.below(40))
}

async function submitterOn (
  pipeline: Pipeline, { redis, subscriber }: Setting,
  { seed, chaos, patienceMs }: {
    readonly seed: number, readonly chaos: Chaos, readonly patienceMs: number
  }
) {
  const { store, keys, wire, bus } = pipeline
  const outcomes = await createOutcomes({ store, subscriber, clock: redisLike, pollMs: 20 })
  const submitter = createSubmitter({
    store,
    keys,
    outcomes,
    emitter: createEmitter({ wire, producerOf: name => bus.producer(`ingest.${name}`) }),
    clock: redisLike,
    tokenVersion: '1',
    chunkRows: chunkRowsOf(seed, chaos),
    acceptWithinMs: chaos.happens(0.1) ? 1 + chaos.below(40) : patienceMs,
  })
  return { submitter, stop: outcomes.stop, redis }
}

/** A cache that forgets: some of its keys are gone between two jobs. */
async function forgetSome (cache: Redis, chaos: Chaos): Promise<void> {
  const keys = await cache.keys('c:*')
  const gone = keys.toSorted().filter(() => chaos.happens(0.3))
  if (gone.length > 0) await cache.del(...gone)
}

/**
 * One run: two tenants send jobs, some at the same time, while stages die before any effect, sends
 * arrive twice, the provider fails and the cache forgets. Afterwards everything is read again from
 * its beginning, and what was left over is swept up.
 */
export async function tell (seed: number, faults: Faults, setting: Setting): Promise<Evidence> {
  const chaos = createChaos(seed)
  await Promise.all([setting.redis.flushall(), setting.cache.flushall()])
  const tenants = [`org_a${seed}.live`, `org_b${seed}.live`]
  const wallet = createWallet(setting.redis)
  await Promise.all(tenants.map(createAdmission(setting.redis)))
  for (const tenant of tenants) {
    const amountMicros = 50_000 + chaos.below(400_000)
    await wallet.topUp(tenant, { id: 'start', amountMicros, reason: 'simulation' })
  }
  const pipeline = await startPipeline({ ...setting, chaos, faults })
  // An accepted job that is never announced keeps its sender waiting for all that time.
  const patienceMs = faults.rot + faults.keyLoss > 0 ? 1_000 : 60_000
  const { submitter, stop } = await submitterOn(pipeline, setting, { seed, chaos, patienceMs })
  const sent: Promise<Sent>[] = []
  const jobs = 2 + chaos.below(seed % LONG_STORY_EVERY === 0 ? 4 : 2)
  for (let job = 0; job < jobs; job++) {
    const sending = send(submitter.submit, { tenant: chaos.pick(tenants), seed, chaos })
    sent.push(sending)
    if (chaos.happens(0.5)) await sending
    if (chaos.happens(0.3)) await forgetSome(setting.cache, chaos)
  }
  const all = await Promise.all(sent)
  await pipeline.idle()
  pipeline.calm()
  pipeline.pass(PATIENCE_MS)
  await pipeline.idle()
  if (chaos.happens(0.5)) await replayEverything(pipeline)
  stop()
  return { seed, pipeline, tenants, sent: all }
}

async function send (
  submit: (submission: never) => Promise<Submitted>,
  { tenant, seed, chaos }: {
    readonly tenant: string, readonly seed: number, readonly chaos: Chaos
  }
): Promise<Sent> {
  const inputs = inputsOf(seed, chaos)
  const forceFresh = chaos.happens(0.2)
  const submission = {
    tenant,
    inputs,
    forceFresh,
    service: 'phone-validation',
    country: 'US',
    metadata: { run: 'x' },
    webhookUrl: '',
    idempotencyKey: '',
    fingerprint: 'f',
  }
  return { tenant, inputs, forceFresh, outcome: await submit(submission as never) }
}

async function replayEverything (pipeline: Pipeline): Promise<void> {
  const stages = ['normalize', 'lookup', 'verify', 'settle', 'ledger']
  const groups = stages.flatMap(stage => [
    stage, `${stage}.small`, `${stage}.bulk`, `${stage}.small.phone-validation`,
    `${stage}.bulk.phone-validation`,
  ])
  for (const group of groups) pipeline.bus.replay(group)
  await pipeline.idle()
}
