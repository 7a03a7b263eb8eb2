import Type from 'typebox'
import { createPartners } from '../../accounts/partners.ts'
import { keysInTopic } from '../../jobs/job-keys.ts'
import { createJobStore } from '../../jobs/store.ts'
import type { Bus, RawMessage } from '../../lib/bus.ts'
import type { Environment } from '../../lib/command-environment.ts'
import { commonConfig, loadConfig, pick } from '../../lib/config.ts'
import { createKeyRing } from '../../lib/key-ring.ts'
import { connectRedis } from '../../lib/redis.ts'
import { createCodec, registrySource } from '../../lib/registry.ts'
import { createJobWire } from '../../records/job-wire.ts'
import { openContent, readEnvelope } from './content.ts'
import { standingOf, type Standing } from './standing.ts'

export type Inspector = {
  readonly envelope: (raw: RawMessage) => ReturnType<typeof readEnvelope>
  readonly standing: (tenant: string, job: string) => Promise<Standing>
  /** The content in clear, or why it can't be had; undefined unless asked to open. */
  readonly content: (raw: RawMessage) => Promise<unknown>
}

type Options = { readonly env: Environment, readonly bus: Bus, readonly open: boolean }

const config = Type.Object(pick(commonConfig, ['SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL']))
const ringConfig = Type.Object(pick(commonConfig, ['KEY_RING', 'KEY_ACTIVE']))

/** Connects what it takes to look into letters, and closes it whatever happens. */
export async function withInspector<T> (
  { env, bus, open }: Options, work: (inspector: Inspector) => Promise<T>
): Promise<T> {
  const settings = loadConfig(config, env)
  const ringSettings = open ? loadConfig(ringConfig, env) : undefined
  const codec = createCodec(registrySource(settings.SCHEMA_REGISTRY_URL))
  const state = connectRedis(settings.REDIS_STATE_URL)
  const store = createJobStore(state)
  const content = async (raw: RawMessage) => {
    if (ringSettings === undefined) return undefined
    const wire = createJobWire({ bus, codec, state }, ringSettings, keysInTopic({ bus, codec }))
    const partners = createPartners({ redis: state, ring: createKeyRing(ringSettings) })
    return await openContent({ codec, wire, partners }, raw)
  }
  try {
    return await work({
      envelope: raw => readEnvelope(codec, raw),
      standing: async (tenant, job) => standingOf(await store.outcome(tenant, job)),
      content,
    })
  } finally {
    state.disconnect()
  }
}
