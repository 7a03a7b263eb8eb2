import Type from 'typebox'
import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { createPartners } from '../accounts/partners.ts'
import { createAccountRecords } from '../accounts/records.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import { commonConfig, loadConfig, pick, rootKeys } from '../runtime/platform/config.ts'
import { connectCommandRedis } from '../runtime/platform/redis.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import { eraseOrganization, type OrganizationErasure } from './erase-organization.ts'
import { organizationToRead, shippingWarning, type Options } from './options.ts'
import { withStores } from './stores.ts'

const MINUTE_MS = 60_000

const config = Type.Object(pick(commonConfig, ['REDIS_CACHE_URL', ...rootKeys.partners]))

/**
 * `org erase` on the stack in `env`; `onProgress` gets each step in words.
 * @throws UsageError for invalid options, an unknown organization, or jobs that do not end in time.
 */
export async function runEraseOrganization (
  env: Environment, { org = '', waitMinutes = '' }: Options, onProgress: (line: string) => void
): Promise<OrganizationErasure> {
  const minutes = Number(waitMinutes)
  if (waitMinutes === '' || !Number.isFinite(minutes) || minutes < 0) {
    throw new UsageError(`--wait-minutes must be a number of at least 0, not "${waitMinutes}".`)
  }
  const settings = loadConfig(config, env)
  const cache = await connectCommandRedis('REDIS_CACHE_URL', settings)
  try {
    return await withStores(env, async stores => {
      const state = stores.redis
      const keys = connectOrganizationKeys('partners', settings, { state })
      const partners = createPartners({ redis: state, keys })
      const organizations = createOrganizations(state)
      const orgId = await organizationToRead({ organizations }, { org })
      const erasure = await eraseOrganization({ ...stores, cache, partners }, orgId, {
        deadlineMs: Date.now() + minutes * MINUTE_MS, onProgress,
      })
      return { ...erasure, ...await shippingWarning(createAccountRecords(state)) }
    })
  } finally {
    cache.disconnect()
  }
}
