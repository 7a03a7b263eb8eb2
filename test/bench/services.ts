import { provision } from '../../deploy/provision.ts'
import { startStack } from '../../deploy/local/stack.ts'
import { loadSecrets } from '../../deploy/local/launcher/secrets.ts'
import type { Processes } from '../../deploy/local/launcher/layout.ts'
import type { Scale } from '../../deploy/local/launcher/scale.ts'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { createClient } from '../../services/client/client.ts'
import { createDemo } from '../../services/admin/demo.ts'
import { withWorkspace } from '../../services/admin/deps.ts'
import { startAll } from '../support/stacks/services.ts'
import type { BenchContext, Process } from './run.ts'

type Env = Readonly<Record<string, string>>

export type BenchStack = {
  /** Addresses and secrets in the environment of a service. */
  readonly env: Env
  readonly infrastructure: readonly Process[]
  /** Live keys of two organizations. */
  readonly keys: readonly [first: string, other: string]
}

/** Running services and their clients; the context without the size of the load. */
export type RunningContext = Omit<BenchContext, 'rows' | 'bareLoopMs' | 'log'>

type Setup = {
  readonly scale: Scale
  readonly processes: Processes
  /** Additional environment of every service. */
  readonly overrides: Env
}

/** Customer limits above any load of the benchmark: it measures the pipeline, not the limits. */
export const RAISED_LIMITS = {
  LIMIT_POST_BURST: '100000',
  LIMIT_POST_SUSTAINED: '100000',
  LIMIT_GET: '100000',
  MAX_ACTIVE_JOBS: '1000',
  MAX_PREFLIGHTS: '1000',
  MAX_PREFLIGHT_ROWS: '10000000',
}

/** The default limits on how much of the pipeline one customer may use. */
export const DEFAULT_LIMITS = {
  MAX_ACTIVE_JOBS: '10', MAX_PREFLIGHTS: '10', MAX_PREFLIGHT_ROWS: '100000',
}

/** 100,000 USD. */
export const TOP_UP = { id: 'bench', amountMicros: 100_000_000_000, reason: 'benchmark' }

/** Runs work on an embedded stack with two organizations. Always stops the stack. */
export async function withStack<T> (
  dataDir: string, work: (stack: BenchStack) => Promise<T>
): Promise<T> {
  const stack = await startStack({ dataDir, say: line => console.log(line) })
  try {
    const env = { ...stack.addresses, ...loadSecrets(dataDir) }
    await provision(env)
    const infrastructure = stack.parts.map(part => ({ name: part.spec.name, pid: part.pid() }))
    const keys = [await createFundedKey(env), await createFundedKey(env)] as const
    return await work({ env, infrastructure, keys })
  } finally {
    await stack.stop()
  }
}

/** Runs work on all services on a stack. Always stops the services. */
export async function withServices<T> (
  { env, infrastructure, keys: [apiKey, otherKey] }: BenchStack, setup: Setup,
  work: (running: RunningContext) => Promise<T>
): Promise<T> {
  const services = await startAll({
    env, ...setup, overrides: { ...RAISED_LIMITS, ...setup.overrides },
  })
  const { baseUrl } = services
  const access = { baseUrl, apiKey }
  try {
    return await work({
      access,
      client: createClient(access),
      otherClient: createClient({ baseUrl, apiKey: otherKey }),
      services,
      infrastructure,
      scale: setup.scale,
    })
  } finally {
    await services.stop()
  }
}

/** Creates an organization with enough balance for all jobs; returns its live key. */
export async function createFundedKey (env: Env): Promise<string> {
  const { orgId, keys } = await createDemo(env)
  await withWorkspace(env, ({ wallet }) => wallet.topUp(tenantOf(orgId, 'live'), TOP_UP))
  return keys.live
}
