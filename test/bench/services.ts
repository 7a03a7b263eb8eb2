import { provision } from '../../deploy/provision.ts'
import { startStack } from '../../deploy/local/stack.ts'
import { loadSecrets } from '../../deploy/local/launcher/secrets.ts'
import type { Scale } from '../../deploy/local/launcher/scale.ts'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { createClient } from '../../services/client/client.ts'
import { createDemo } from '../../services/workspace/demo.ts'
import { withWorkspace } from '../../services/workspace/deps.ts'
import { startAll } from '../support/services.ts'
import type { Process, Setting } from './setting.ts'

type Env = Readonly<Record<string, string>>

export type BenchStack = {
  /** Addresses and secrets, as services take them. */
  readonly env: Env
  readonly infrastructure: readonly Process[]
  /** Live keys of two organizations. */
  readonly keys: readonly [own: string, neighbour: string]
}

export type Running =
  Omit<Setting, 'rows' | 'bareLoopMs' | 'show'>

type Setup = {
  readonly scale: Scale
  /** More environment for every service. */
  readonly overrides: Env
}

/** What is measured is the pipeline: clients that ask far more often than customers may. */
export const WIDE_LIMITS = {
  LIMIT_POST_BURST: '100000',
  LIMIT_POST_SUSTAINED: '100000',
  LIMIT_GET: '100000',
  MAX_ACTIVE_JOBS: '1000',
  MAX_PREFLIGHTS: '1000',
  MAX_PREFLIGHT_ROWS: '10000000',
}

/** How much of the pipeline a customer may take, as services have it by default. */
export const CUSTOMER_LIMITS = {
  MAX_ACTIVE_JOBS: '10', MAX_PREFLIGHTS: '10', MAX_PREFLIGHT_ROWS: '100000',
}

/** 100,000 USD. */
const PLENTY = { id: 'bench', amountMicros: 100_000_000_000, reason: 'benchmark' }

/** An embedded stack with two organizations for one piece of work; it ends whatever happens. */
export async function withStack<T> (
  dataDir: string, work: (stack: BenchStack) => Promise<T>
): Promise<T> {
  const stack = await startStack({ dataDir, say: line => console.log(line) })
  try {
    const env = { ...stack.addresses, ...loadSecrets(dataDir) }
    await provision(env)
    const infrastructure = stack.parts.map(part => ({ name: part.spec.name, pid: part.pid() }))
    return await work({ env, infrastructure, keys: [await richKey(env), await richKey(env)] })
  } finally {
    await stack.stop()
  }
}

/** All services on a stack for one piece of work; they end whatever happens. */
export async function withServices<T> (
  { env, infrastructure, keys: [own, other] }: BenchStack, { scale, overrides }: Setup,
  work: (running: Running) => Promise<T>
): Promise<T> {
  const services = await startAll({ env, scale, overrides: { ...WIDE_LIMITS, ...overrides } })
  const { baseUrl } = services
  const address = { baseUrl, apiKey: own }
  try {
    return await work({
      address,
      client: createClient(address),
      neighbour: createClient({ baseUrl, apiKey: other }),
      impatient: createClient({ ...address, retries: 0 }),
      services,
      infrastructure,
      scale,
    })
  } finally {
    await services.stop()
  }
}

/** The live key of a new organization that has money enough. */
export async function richKey (env: Env): Promise<string> {
  const { orgId, keys } = await createDemo(env)
  await withWorkspace(env, ({ wallet }) => wallet.topUp(tenantOf(orgId, 'live'), PLENTY))
  return keys.live
}
