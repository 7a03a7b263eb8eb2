import type { Redis } from 'ioredis'
import { createEmitter } from '../../services/lib/emit.ts'
import { createOutcomes } from '../../services/jobs/outcomes.ts'
import { createSubmitter, type Submitted } from '../../services/jobs/submit.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { mixedPhones } from '../bench/inputs.ts'
import { createChaos, type Chaos } from './chaos.ts'
import { redisLike } from './early-stages.ts'
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

export type Setting = {
  readonly redis: Redis
  readonly cache: Redis
  /** A connection of its own for the nudges of one run. */
  readonly subscriber: Redis
}

const MANY_ROWS = 2_300
/** Longer than any job waits for chunks that may never come. */
const PATIENCE_MS = 600_000

/** Only jobs of several chunks can lose one of them: where chunks rot, many have. */
function inputsOf (chaos: Chaos, { rot }: Faults): readonly string[] {
  const rows = chaos.happens(rot > 0 ? 0.5 : 0.06) ? MANY_ROWS : 1 + chaos.below(60)
  // Few serial numbers, so that jobs meet each other's numbers in the cache.
  return mixedPhones(rows, chaos.below(40))
}

async function submitterOn (
  pipeline: Pipeline, { redis, subscriber }: Setting,
  { chaos, patienceMs }: { readonly chaos: Chaos, readonly patienceMs: number }
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
  for (const tenant of tenants) {
    const amountMicros = 50_000 + chaos.below(400_000)
    await wallet.topUp(tenant, { id: 'start', amountMicros, reason: 'simulation' })
  }
  const pipeline = await startPipeline({ ...setting, chaos, faults })
  // An accepted job that is never announced keeps its sender waiting for all that time.
  const patienceMs = faults.rot + faults.keyLoss > 0 ? 1_000 : 60_000
  const { submitter, stop } = await submitterOn(pipeline, setting, { chaos, patienceMs })
  const sent: Promise<Sent>[] = []
  for (let job = 0; job < 2 + chaos.below(4); job++) {
    const sending = send(submitter.submit, { tenant: chaos.pick(tenants), chaos, faults })
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
  { tenant, chaos, faults }: {
    readonly tenant: string, readonly chaos: Chaos, readonly faults: Faults
  }
): Promise<Sent> {
  const inputs = inputsOf(chaos, faults)
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
