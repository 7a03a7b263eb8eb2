import { CHUNK_ROWS } from '../../../services/jobs/submit.ts'
import { startAll } from '../../support/stacks/services.ts'
import { mixedPhones, median, withDeadline } from '../jobs.ts'
import type { Hop } from '../peers/hop.ts'
import { startPlainHop } from '../peers/plain-hop.ts'
import { connectSealedHop } from '../peers/sealed-hop.ts'

export type HopFigures = { readonly wallMs: number, readonly ratio: number }

export type PeersFigures = {
  /** Mean of one run before and one after the rounds. */
  readonly bareLoopMs: number
  readonly kafkajs: HopFigures
  readonly platformatic: HopFigures
  /** The service `normalize` alone, one instance. */
  readonly sealed: HopFigures
}

type PeersOptions = {
  readonly env: Readonly<Record<string, string>>
  readonly overrides: Readonly<Record<string, string>>
  readonly rows: number
  readonly bareLoopMs: () => number
  readonly log: (line: string) => void
}

const WARM_UP_ROUNDS = 2
const ROUNDS = 5

/**
 * Measures one hop from topic to topic with each Kafka client, and with the product's own
 * `normalize`. Beside it runs only `ledger`, which ships the keys of the organization and is idle.
 */
export async function measurePeers (options: PeersOptions): Promise<PeersFigures> {
  const { env, overrides, rows, bareLoopMs, log } = options
  log(`peers: ${ROUNDS} rounds of ${rows} rows through kafkajs, @platformatic/kafka and normalize`)
  const services = await startAll({ env, stages: ['normalize', 'ledger'], overrides })
  const hops: Hop[] = []
  try {
    const before = bareLoopMs()
    await startHops(hops, options)
    const [kafkajs = NaN, platformatic = NaN, sealed = NaN] = await medianTimes(hops)
    const bareMs = (before + bareLoopMs()) / 2
    const figuresOf = (wallMs: number) => ({ wallMs, ratio: wallMs / bareMs })
    return {
      bareLoopMs: bareMs,
      kafkajs: figuresOf(kafkajs),
      platformatic: figuresOf(platformatic),
      sealed: figuresOf(sealed),
    }
  } finally {
    await Promise.all(hops.map(hop => hop.close()))
    await services.stop()
  }
}

/** Appends to a list, so that the caller closes the hops that started when another one fails. */
async function startHops (hops: Hop[], { env, rows }: PeersOptions): Promise<void> {
  const inputs = mixedPhones(rows)
  const chunks = Array.from({ length: Math.ceil(inputs.length / CHUNK_ROWS) }, (_, chunk) =>
    inputs.slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS))
  const brokers = (env.KAFKA_BROKERS ?? '').split(',')
  for (const name of ['kafkajs', 'platformatic']) {
    hops.push(await startPlainHop({ name, brokers, chunks }))
  }
  hops.push(await connectSealedHop(env, inputs))
}

/**
 * Returns the median time of each hop. The hops alternate, so that a slow period of the machine
 * affects all of them.
 */
async function medianTimes (hops: readonly Hop[]): Promise<readonly number[]> {
  const times = hops.map((): number[] => [])
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
    for (const [index, hop] of hops.entries()) {
      const ms = await withDeadline(`a round of ${hop.name}`, hop.round())
      if (round >= WARM_UP_ROUNDS) times[index]?.push(ms)
    }
  }
  return times.map(median)
}
