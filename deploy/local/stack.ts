import { resolve } from 'node:path'
import { openAccess, signInEnv, type Access, type EnvOfStages } from './access.ts'
import { clickhousePart } from './clickhouse.ts'
import { kafkaParts } from './kafka.ts'
import { openPortBook, type PortBook } from './ports.ts'
import { redisPart } from './redis.ts'
import { registryPart } from './registry.ts'
import { chooseSource, type Addresses, type Source } from './source.ts'
import { supervise, type Supervised } from './supervise.ts'
import type { Say } from './parts.ts'
import type { ProcessSpec } from './process.ts'

/** The running infrastructure. */
export type Stack = {
  readonly source: Source['kind']
  readonly addresses: Addresses
  /** What its clients need besides, as whom to trust; nothing for most stacks. */
  readonly trust: Readonly<Record<string, string>>
  /** As whom the services of each stage sign in; nothing where everybody is let in. */
  readonly envByStage: EnvOfStages
  /** The embedded parts by name; empty for the other sources. */
  readonly parts: readonly Supervised[]
  /** Resolves when every part answers; starts the ones that wait to be restarted. */
  readonly untilReady: () => Promise<void>
  /** Ends what was started here; given addresses are left alone. Data stays in the folder. */
  readonly stop: () => Promise<void>
}

export type StackOptions = {
  readonly dataDir: string
  /** Chosen from the environment when left out. */
  readonly source?: Source
  readonly ports?: PortBook
  /** Of the embedded stack; `STACK_BROKERS`, or else one, when left out. */
  readonly brokers?: number
  readonly say?: Say
}

/**
 * Starts Kafka, the schema registry, both Redis and ClickHouse and waits until all answer.
 * Parts that die are started again on the same ports. When a part can't start, what was started
 * is stopped and the error holds the end of that part's log. In a folder of `makeSecure` all of
 * them want TLS and a password.
 */
export async function startStack (options: StackOptions): Promise<Stack> {
  const access = openAccess(resolve(options.dataDir))
  const source = options.source ?? chooseSource(process.env)
  if (access !== undefined && source.kind !== 'embedded') {
    throw new Error(`${options.dataDir} is for an embedded stack with passwords: leave out the ` +
      'addresses and STACK_SOURCE of another one, or give another folder.')
  }
  const say = options.say ?? (() => undefined)
  if (source.kind === 'given') return outerStack('given', source.addresses, async () => undefined)
  if (source.kind === 'containers') {
    const { startContainers } = await import('./containers.ts')
    const started = await startContainers(say)
    return outerStack('containers', started.addresses, started.stop)
  }
  const dataDir = resolve(options.dataDir)
  const brokers = options.brokers ?? Number(process.env.STACK_BROKERS ?? 1)
  const ports = options.ports ?? openPortBook(dataDir)
  return await startEmbedded({ dataDir, ports, say, brokers, access })
}

function outerStack (
  source: Source['kind'], addresses: Addresses, stop: () => Promise<void>
): Stack {
  return {
    source,
    addresses,
    trust: {},
    envByStage: {},
    parts: [],
    untilReady: async () => undefined,
    stop,
  }
}

type EmbeddedOptions = {
  dataDir: string, ports: PortBook, say: Say, brokers: number, access: Access | undefined,
}

async function startEmbedded (options: EmbeddedOptions): Promise<Stack> {
  const startedAt = performance.now()
  const { addresses, specs } = await describeDeps(options)
  const { access, dataDir } = options
  const how = access === undefined ? '' : ', with TLS and passwords'
  options.say(`starting ${specs.map((spec) => spec.name).join(', ')} in ${dataDir}${how}`)
  const parts = specs.map((spec) => supervise(spec))
  const stop = async () => { await Promise.all(parts.map((part) => part.stop())) }
  const untilReady = async () => {
    for (const part of parts) part.hurry()
    await Promise.all(parts.map((part) => part.untilReady()))
  }
  try {
    await untilReady()
  } catch (error) {
    await stop()
    throw error
  }
  options.say(`stack ready after ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
  const trust: Stack['trust'] =
    access === undefined ? {} : { NODE_EXTRA_CA_CERTS: access.files.authority }
  const envByStage = access === undefined ? {} : signInEnv(access, addresses)
  return { source: 'embedded', addresses, trust, envByStage, parts, untilReady, stop }
}

/** Parts are installed one after the other, so that two downloads never share a package manager. */
async function describeDeps (
  options: EmbeddedOptions
): Promise<{ addresses: Addresses, specs: readonly ProcessSpec[] }> {
  const state = await redisPart({ ...options, role: 'state' })
  const cache = await redisPart({ ...options, role: 'cache' })
  const registry = await registryPart(options)
  const kafka = await kafkaParts(options, options.brokers)
  const clickhouse = await clickhousePart(options)
  return {
    addresses: {
      KAFKA_BROKERS: kafka.brokers,
      SCHEMA_REGISTRY_URL: registry.url,
      REDIS_STATE_URL: state.url,
      REDIS_CACHE_URL: cache.url,
      CLICKHOUSE_URL: clickhouse.url,
    },
    specs: [
      ...kafka.specs,
      ...[registry, state, cache, clickhouse].map((part) => part.spec),
      ...registry.front === undefined ? [] : [registry.front],
    ],
  }
}
