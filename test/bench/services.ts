import { provision } from '../../deploy/provision.ts'
import { startStack } from '../../deploy/local/stack.ts'
import { loadSecrets } from '../../deploy/local/launcher/secrets.ts'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { createClient } from '../../services/client/client.ts'
import { createDemo } from '../../services/workspace/demo.ts'
import { withWorkspace } from '../../services/workspace/parts.ts'
import { startAll } from '../support/services.ts'
import type { Setting } from './measure.ts'

type Setup = {
  /** Folder of the stack's data. */
  readonly dataDir: string
  /** How many of normalize and of verify. */
  readonly instances: number
  /** More environment for every service. */
  readonly overrides: Readonly<Record<string, string>>
}

/** What is measured is the pipeline: clients that ask far more often than customers may. */
const WIDE_LIMITS = {
  LIMIT_POST_BURST: '100000', LIMIT_POST_SUSTAINED: '100000', LIMIT_GET: '100000',
}

/** 100,000 USD. */
const PLENTY = { id: 'bench', amountMicros: 100_000_000_000, reason: 'benchmark' }

/** All services on an embedded stack for one piece of work; both end whatever happens. */
export async function withServices<T> (
  { dataDir, instances, overrides }: Setup,
  work: (running: Pick<Setting, 'client' | 'processes'>) => Promise<T>
): Promise<T> {
  const stack = await startStack({ dataDir, say: line => console.log(line) })
  try {
    const env = { ...stack.addresses, ...loadSecrets(dataDir) }
    await provision(env)
    const { orgId, keys } = await createDemo(env)
    await withWorkspace(env, ({ wallet }) => wallet.topUp(tenantOf(orgId, 'live'), PLENTY))
    const scale = { normalize: instances, verify: instances }
    const services = await startAll({ env, scale, overrides: { ...WIDE_LIMITS, ...overrides } })
    try {
      const client = createClient({ baseUrl: services.baseUrl, apiKey: keys.live })
      const infrastructure = stack.parts.map(part => ({ name: part.spec.name, pid: part.pid() }))
      return await work({ client, processes: [...services.list(), ...infrastructure] })
    } finally {
      await services.stop()
    }
  } finally {
    await stack.stop()
  }
}
