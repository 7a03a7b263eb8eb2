import type { StageName } from '../../../services/topology.ts'
import { type KafkaProxy, startKafkaProxy, type What } from '../../support/kafka/proxy.ts'
import type { KafkaApi } from '../../support/kafka/wire.ts'
import type { Fault, Scene } from '../fault.ts'

type Round = {
  readonly api: KafkaApi
  readonly what: What
  /** Stages that send such requests when they start; default: all that join groups. */
  readonly of?: readonly StageName[]
}

const GO_ON_WITHIN_MS = 90_000
/** Larger than the answer to a fetch that brings nothing. */
const FETCHED_BYTES = 2_000

/** Every kind of request between a client and a broker, with the fault that is worst for it. */
const ROUNDS: readonly Round[] = [
  { api: 'Produce', what: 'lose answer' },
  { api: 'Produce', what: 'lose request' },
  { api: 'Produce', what: 'cut in request' },
  { api: 'Produce', what: 'cut before answer' },
  { api: 'Fetch', what: 'lose answer' },
  { api: 'Fetch', what: 'cut before answer' },
  { api: 'OffsetCommit', what: 'lose answer' },
  { api: 'OffsetCommit', what: 'cut before answer' },
  { api: 'Heartbeat', what: 'lose answer' },
]

/** These happen only when a service joins its groups. */
const JOINS: readonly Round[] = [
  { api: 'JoinGroup', what: 'lose answer' },
  { api: 'SyncGroup', what: 'lose answer' },
  { api: 'FindCoordinator', what: 'lose answer' },
  { api: 'OffsetFetch', what: 'lose answer' },
  { api: 'Metadata', what: 'lose answer' },
  {
    api: 'InitProducerId', what: 'lose answer', of: ['normalize', 'lookup', 'verify', 'settle'],
  },
]

const JOINING: readonly StageName[] = [
  'normalize', 'lookup', 'verify', 'settle', 'deliver', 'ledger',
]

type Disturb = (scene: Scene, proxy: KafkaProxy, round: Round) => Promise<boolean>

/** A scenario of rounds, with all services behind one frame-aware proxy. */
function lossyKafka (
  { name, about, rounds, disturb }: Pick<Fault, 'name' | 'about'> & {
    readonly rounds: readonly Round[], readonly disturb: Disturb,
  }
): Fault {
  let proxy: KafkaProxy | undefined
  return {
    name,
    kind: 'link',
    about,
    prepare: async ({ addresses }) => {
      const opened = await startKafkaProxy({ brokers: addresses.KAFKA_BROKERS.split(',') })
      proxy = opened
      return { links: { KAFKA_BROKERS: opened.addresses.join(',') }, close: () => opened.close() }
    },
    inject: async scene => {
      if (proxy === undefined) throw new Error('the proxy is not open')
      const recoveryMs: number[] = []
      const breaches: string[] = []
      for (const round of rounds) {
        const label = `${round.what} ${round.api}`
        if (!await disturb(scene, proxy, round)) breaches.push(`nothing happened: ${label}`)
        const disturbedMs = Date.now()
        const endMs = await scene.load.nextEnd(disturbedMs, GO_ON_WITHIN_MS)
        if (endMs === undefined) breaches.push(`no job ended any more: ${label}`)
        recoveryMs.push((endMs ?? Infinity) - disturbedMs)
        scene.say(`${label}: a new job ended after ${recoveryMs.at(-1)} ms`)
      }
      const counts = Object.entries(proxy.injected())
      const injected = counts.reduce((sum, [, count]) => sum + count, 0)
      const note = counts.map(([what, count]) => `${count} x ${what}`).join(', ')
      return { injected, recoveryMs, breaches, note }
    },
  }
}

/** Resolves to true once a fault has happened, to false when it has not within a while. */
async function within (done: Promise<void>, ms: number): Promise<boolean> {
  const late = AbortSignal.timeout(ms)
  const { promise, resolve } = Promise.withResolvers<boolean>()
  late.addEventListener('abort', () => resolve(false))
  return await Promise.race([done.then(() => true), promise])
}

/** Three of the next twenty or so requests of the kind, of any service. */
const ofAnyService: Disturb = async ({ random }, proxy, { api, what }) => {
  const faults = [1, 2, 3].map(() => proxy.inject({
    api,
    what,
    nth: 1 + Math.floor(random() * 7),
    ...api === 'Fetch' && { answerBytes: FETCHED_BYTES },
  }))
  const happened = await within(Promise.all(faults.map(({ done }) => done)).then(() => {}), 30_000)
  for (const fault of faults) fault.end()
  return happened || faults.some(({ count }) => count() > 0)
}

/** The first and a later one of the requests that a service sends when it recovers from a kill. */
const ofStartingService: Disturb = async (
  { environment, random }, proxy, { api, what, of = JOINING }
) => {
  const stage = of[Math.floor(random() * of.length)] ?? 'normalize'
  const first = proxy.inject({ api, what })
  const later = proxy.inject({ api, what, nth: 2 + Math.floor(random() * 4) })
  environment.services.kill(`${stage}-1`, 'SIGKILL')
  const happened = await within(first.done, 30_000)
  later.end()
  return happened
}

/** Requests and responses between services and Kafka that are lost, under the whole service. */
export const kafkaRequests: readonly Fault[] = [
  lossyKafka({
    name: 'kafka-lost',
    about: 'answers and requests of sends, fetches, commits and heartbeats are lost or cut off',
    rounds: ROUNDS,
    disturb: ofAnyService,
  }),
  lossyKafka({
    name: 'kafka-lost-joins',
    about: 'services are killed, and the first answers are lost that they need to come back',
    rounds: JOINS,
    disturb: ofStartingService,
  }),
]
