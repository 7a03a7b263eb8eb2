import Type from 'typebox'
import { createOrganizations } from '../accounts/organizations.ts'
import { commonConfig, loadConfig, pick } from '../lib/config.ts'
import { connectRedis } from '../lib/redis.ts'
import { UsageError } from '../lib/run-command.ts'
import type { Environment } from './environment.ts'
import { organizationOf } from './options.ts'
import { createSignInCodes, SIGN_IN_WITHIN_MS, type Holder } from './page/sign-in-codes.ts'

const config = Type.Object({
  ...pick(commonConfig, ['REDIS_STATE_URL']),
  PAGE_URL: Type.String({
    default: 'http://127.0.0.1:8090',
    pattern: '^https?://[^/]+$',
    description: 'Where people reach the workspace page.',
  }),
})

/** Whom a link is for: an organization, or those who run the pipeline. */
export type SignInOptions = { readonly org?: string, readonly operator?: string | true }

/** Makes a link to sign in with, once, within ten minutes. */
export async function makeSignInLink (env: Environment, options: SignInOptions) {
  if ((options.org === undefined) === (options.operator === undefined)) {
    throw new UsageError('Say who signs in: either --org <id> or --operator. ' +
      'The id of the demonstration is orgId in .local/stack.json.')
  }
  const settings = loadConfig(config, env)
  const redis = connectRedis(settings.REDIS_STATE_URL)
  try {
    const holder: Holder = options.org === undefined
      ? { kind: 'operator' }
      : {
          kind: 'customer',
          orgId: await organizationOf(
            { organizations: createOrganizations(redis) }, { org: options.org }),
        }
    const code = await createSignInCodes(redis).create(holder)
    return {
      url: `${settings.PAGE_URL}/sign-in/link#${code}`,
      expiresAt: new Date(Date.now() + SIGN_IN_WITHIN_MS).toISOString(),
      note: 'It signs one browser in, once. Hand it over as you would a password.',
    }
  } finally {
    redis.disconnect()
  }
}
