import type { Redis } from 'ioredis'
import type { VerificationBody } from '../../schemas/api/verifications.ts'
import type { Journal } from '../../schemas/types.ts'
import { OutcomeWaiter, subscribeToJobs } from '../../services/jobs/job-waiter.ts'
import type { SubmitterOptions } from '../../services/jobs/submit.ts'
import { createOutbox } from '../../services/money/wallet.ts'
import { createEmitter } from '../../services/runtime/engine/stage.ts'
import type { RawMessage } from '../../services/runtime/kafka/bus.ts'
import { topicName, watchJobPartitions } from '../../services/runtime/platform/topics.ts'
import { sleep } from '../../services/runtime/platform/retry.ts'
import { LANES, type TopicName } from '../../services/topology.ts'
import { type Cancelling, startCancelling } from './cancels.ts'
import { type Chaos, createChaos } from './chaos.ts'
import {
  type Answered, type Followed, followerOn, request, type Requested, verifierOn,
} from './clients.ts'
import type { Environment } from './environment.ts'
import type { ScenarioOutput } from './evidence.ts'
import { chooseOptions, chunkRowsOf, fund, idsOf, inputsOf, jobsIn } from './inputs.ts'
import { type Faults, type Pipeline, startPipeline } from './pipeline.ts'
import { type Recovery, type RecoveryOptions, startRecovery } from './recovery.ts'
import { redisLike } from './stages.ts'
import { startTakeover } from './takeover.ts'

/** Connections of one run: that of the scenario, and those of the stages. */
export type Setting = {
  readonly redis: Redis
  readonly cache: Redis
  readonly connect: Environment['connect']
  readonly subscriber: Environment['subscriber']
  readonly losses: Environment['losses']
}

const SHIPPED_EVERY_MS = 50

/**
 * One run: two tenants send jobs, some concurrently, while stages crash before any effect, sends
 * arrive twice, the provider fails and the cache loses entries. Afterwards every topic is replayed
 * from its beginning.
 */
export async function runScenario (
  seed: number, faults: Faults, setting: Setting
): Promise<ScenarioOutput> {
  const { redis, cache, subscriber, losses } = setting
  const chaos = createChaos(seed)
  await Promise.all([redis.flushall(), cache.flushall()])
  const tenants = [`org_a${seed}.live`, `org_b${seed}.live`]
  const funded = await fund(redis, tenants, chaos)
  const pipeline = await startPipeline({ ...setting, chaos, faults, seed })
  const recovery = faults.stateLosses === 0
    ? undefined
    : await expectLosses({ ...setting, chaos, funded, pipeline }, seed, faults.stateLosses)
  // An accepted job that is never announced keeps its sender waiting for all that time.
  const acceptWithinMs = faults.corruption + faults.keyLoss > 0 ? 1_000 : 60_000
  const { options, awaitRows, stop } =
    await submitterOn({ pipeline, subscriber, seed, chaos, acceptWithinMs })
  const losing = recovery && (() => lossesSoFar(recovery, losses))
  const cancelling = startCancelling({
    seed, pipeline, connect: setting.connect, check: () => losing?.(),
  })
  const isFaultFree = Object.values(faults).every(fault => fault === 0)
  const takingOver = isFaultFree
    ? startTakeover(pipeline, setting.connect('state', 'reaper'), tenants)
    : undefined
  const follow = followerOn(pipeline, chaos)
  const requested =
    await sendAll(options, { seed, chaos, tenants, cache, losing, awaitRows, follow, cancelling })
  await cancelling.ended()
  const { repeats } = await endAll({ pipeline, recovery, chaos, acceptWithinMs })
  await takingOver?.stop()
  stop()
  return {
    seed,
    pipeline,
    tenants,
    funded,
    requested,
    repeats: isFaultFree ? repeats : [],
    cancels: cancelling.byJob,
    ...lossesOf(recovery, setting),
  }
}

/** Plans losses of the state Redis once the journal has every entry written before. */
async function expectLosses (
  options: RecoveryOptions & Pick<Setting, 'redis'>, seed: number, number: number
): Promise<Recovery> {
  const recovery = startRecovery(options)
  const outbox = createOutbox(options.redis)
  while ((await outbox.tenantsWithPending()).length > 0) await sleep(SHIPPED_EVERY_MS)
  options.losses.plan(seed, number)
  return recovery
}

function lossesSoFar (recovery: Recovery, { kinds }: Environment['losses']): number {
  recovery.check()
  return kinds.length
}

const lossesOf = (recovery: Recovery | undefined, { losses }: Setting) => ({
  losses: losses.kinds,
  deaths: recovery?.deaths() ?? 0,
  salvaged: recovery?.salvaged() ?? [],
})

type Sending = {
  readonly seed: number
  readonly chaos: Chaos
  readonly tenants: readonly string[]
  readonly cache: Redis
  /** How often Redis was lost by now, where it may be. Throws when it cannot be recovered. */
  readonly losing: (() => number) | undefined
  /** What a client that waits for the rows of its job gets. */
  readonly awaitRows: (answered: Answered) => Promise<VerificationBody | undefined>
  /** What a client that reads the rows of its job meanwhile gets. */
  readonly follow: (answered: Answered) => Promise<Followed | undefined>
  readonly cancelling: Cancelling
}

/** Some jobs, one after another or several at the same time; resolves when all are answered. */
async function sendAll (
  options: SubmitterOptions, sending: Sending
): Promise<readonly Requested[]> {
  const { seed, chaos, cache, awaitRows, follow } = sending
  const sent: Promise<Requested>[] = []
  const jobs = jobsIn(seed, chaos)
  for (let job = 0; job < jobs; job++) {
    const one = send(options, sending)
    sent.push(one.then(async request => {
      const [verified, followed] = await Promise.all([awaitRows(request), follow(request)])
      return { ...request, verified, followed }
    }))
    if (chaos.happens(0.5)) await one
    if (chaos.happens(0.3)) await forgetSome(cache, chaos)
  }
  return await Promise.all(sent)
}

async function send (
  options: SubmitterOptions, { tenants, seed, chaos, losing, cancelling }: Sending
): Promise<Omit<Requested, 'verified' | 'followed'>> {
  const tenant = chaos.pick(tenants)
  const inputs = inputsOf(seed, chaos)
  const forceFresh = chaos.happens(0.2)
  const sent = { tenant, inputs, forceFresh, options: chooseOptions(seed, chaos) }
  const submission = { ...submissionOf(sent), ...cancelling.chooseDeadline() }
  const { onClaimed } = cancelling
  const known = { losses: losing ?? (() => 0), once: losing === undefined }
  return { ...sent, ...await request(options, { submission, chaos, onClaimed, ...known }) }
}

const submissionOf = (
  { options, ...sent }: Pick<Requested, 'tenant' | 'inputs' | 'forceFresh' | 'options'>
) => ({
  ...sent,
  ...options.length > 0 && { options },
  references: idsOf(sent.inputs),
  ids: true,
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

type SubmitterOn = {
  readonly pipeline: Pipeline
  readonly subscriber: Environment['subscriber']
  readonly seed: number
  readonly chaos: Chaos
  readonly acceptWithinMs: number
}

/** What a submitter is made of; `stop` ends its waits. */
async function submitterOn (
  { pipeline, subscriber, seed, chaos, acceptWithinMs }: SubmitterOn
) {
  const { store, keys, messageCodec, bus } = pipeline
  const notifications = await subscribeToJobs(subscriber())
  const outcomes = new OutcomeWaiter({ store, notifications, clock: redisLike, pollMs: 20 })
  const options = {
    store,
    keys,
    outcomes,
    emitter: createEmitter({
      messageCodec, producerOf: name => bus.producer(`ingest.${name}`),
    }),
    clock: redisLike,
    tokenVersion: '1',
    chunkRows: chunkRowsOf(seed, chaos),
    partitionsOf: watchJobPartitions(bus),
    liveness: unsure(chaos),
    acceptWithinMs: chaos.happens(0.1) ? 1 + chaos.below(40) : acceptWithinMs,
  }
  return { options, awaitRows: verifierOn(pipeline, notifications), stop: () => outcomes.stop() }
}

/** Every request is of a process of its own, which others take for gone without a reason. */
function unsure (chaos: Chaos): NonNullable<SubmitterOptions['liveness']> {
  return {
    get own () { return `process-${chaos.below(1_000_000)}` },
    isGone: async () => chaos.happens(0.3),
  }
}

type Ending = {
  readonly pipeline: Pipeline
  /** Where Redis may be lost. */
  readonly recovery: Recovery | undefined
  readonly chaos: Chaos
  /** How long a claim waits. */
  readonly acceptWithinMs: number
}

/** Longer than any job waits for chunks that may never come. */
const ALL_DEADLINES_MS = 600_000

/**
 * Completes everything under way; at times all topics are read again from the start. Returns the
 * messages that were sent more than once until then.
 */
async function endAll (
  { pipeline, recovery, chaos, acceptWithinMs }: Ending
): Promise<{ readonly repeats: readonly string[] }> {
  await pipeline.idle()
  const repeats = await findRepeats(pipeline)
  pipeline.stopFaults()
  pipeline.pass(ALL_DEADLINES_MS)
  await pipeline.idle()
  // Some losses come when all is done.
  if (recovery !== undefined && chaos.happens(0.5)) await recovery.endOfLosses()
  if (chaos.happens(0.5)) await replayEverything(pipeline)
  await recovery?.endOfLosses()
  await recovery?.stop()
  // Claims of an old file end by the clock of Redis.
  if (recovery !== undefined) await sleep(acceptWithinMs)
  await pipeline.idle()
  return { repeats }
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

const SERVICE = 'phone-validation'
const ROW_TOPICS = [
  'rows.submitted', 'rows.normalized', 'rows.to-verify', 'rows.completed',
] as const satisfies readonly TopicName[]

/** The messages that were sent more than once: in a run without faults there are none. */
async function findRepeats ({ bus, codec }: Pipeline): Promise<readonly string[]> {
  const seen = new Set<string>()
  const repeats: string[] = []
  const add = (identity: string) => {
    if (seen.has(identity)) repeats.push(identity)
    seen.add(identity)
  }
  for (const topic of ROW_TOPICS) {
    for (const lane of LANES) {
      for (const message of bus.messages(topicName(topic, { lane, service: SERVICE }))) {
        add(identify(message))
      }
    }
  }
  for (const { topic, key } of bus.messages('jobs.settled')) add(`${topic} ${String(key)}`)
  for (const { topic, value } of bus.messages('wallet.journal')) {
    const { tenant, seq } = await codec.decode('wallet.journal', value as Buffer) as Journal
    add(`${topic} ${tenant} ${seq}`)
  }
  return repeats
}

/** Headers name the rows of a message, of which no two messages of a topic have the same. */
function identify ({ topic, key, headers }: RawMessage): string {
  const named = Object.entries(headers).filter(([name]) => name !== 'mac').toSorted()
  return `${topic} ${String(key)} ${JSON.stringify(named)}`
}
