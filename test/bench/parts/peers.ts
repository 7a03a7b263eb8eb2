import { chunksOf } from '../../../services/jobs/chunks.ts'
import { startAll } from '../../support/services.ts'
import { inTime } from '../in-time.ts'
import { mixedPhones } from '../inputs.ts'
import type { Hop } from '../peers/hop.ts'
import { startPlainHop } from '../peers/plain-hop.ts'
import { connectSealedHop } from '../peers/sealed-hop.ts'
import { median } from '../spread.ts'

export type HopFigures = { readonly wallMs: number, readonly ratio: number }

export type PeersFigures = {
  /** Before and after the rounds, the mean of both. */
  readonly bareLoopMs: number
  readonly kafkajs: HopFigures
  readonly platformatic: HopFigures
  /** The service `normalize` alone, one instance. */
  readonly sealed: HopFigures
}

type Options = {
  readonly env: Readonly<Record<string, string>>
  readonly overrides: Readonly<Record<string, string>>
  readonly rows: number
  readonly bareLoopMs: () => number
  readonly show: (line: string) => void
}

const WARM_UP_ROUNDS = 2
const ROUNDS = 5

/**
 * One hop from topic to topic by each client, and by the product's own `normalize` with no other
 * service beside it. Rounds take turns, so that a slow moment of the machine meets them all.
 */
export async function measurePeers (options: Options): Promise<PeersFigures> {
  const { env, overrides, rows, bareLoopMs, show } = options
  show(`peers: ${ROUNDS} rounds of ${rows} rows through kafkajs, @platformatic/kafka and normalize`)
  const services = await startAll({ env, stages: ['normalize'], overrides })
  const hops: Hop[] = []
  try {
    const before = bareLoopMs()
    await startHops(hops, options)
    const [kafkajs = NaN, platformatic = NaN, sealed = NaN] = await inTurns(hops)
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

/** Into a list, so that those that were started are closed when another can't be. */
async function startHops (hops: Hop[], { env, rows }: Options): Promise<void> {
  const inputs = mixedPhones(rows)
  const chunks = chunksOf(inputs).map(chunk => chunk.inputs)
  const brokers = (env.KAFKA_BROKERS ?? '').split(',')
  for (const name of ['kafkajs', 'platformatic']) {
    hops.push(await startPlainHop({ name, brokers, chunks }))
  }
  hops.push(await connectSealedHop(env, inputs))
}

/** The median of each, in their order. */
async function inTurns (hops: readonly Hop[]): Promise<readonly number[]> {
  const times = hops.map((): number[] => [])
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
    for (const [index, hop] of hops.entries()) {
      const ms = await inTime(`a round of ${hop.name}`, hop.round())
      if (round >= WARM_UP_ROUNDS) times[index]?.push(ms)
    }
  }
  return times.map(median)
}
