import Type, { type Static } from 'typebox'
import { createOrganizations } from '../../accounts/organizations.ts'
import type { Connections } from '../../engine/connections.ts'
import type { ServiceContext } from '../../platform/run.ts'
import {
  createLimiter, type Limiter, type RateLimits, createLocalLimiter, createRedisLimiter,
} from './limiter.ts'

const whole = (value: number, description: string) =>
  Type.Integer({ default: value, minimum: 1, description })

/** Settings of the rate limits; defaults are the values of the public interface. */
export const limitFields = {
  LIMIT_POST_BURST: whole(100,
    'Burst of POST requests per organization, live and test together.'),
  LIMIT_POST_BURST_SECONDS: whole(1, 'Seconds to refill the burst of POST requests.'),
  LIMIT_POST_SUSTAINED: whole(1_000, 'Sustained POST requests per organization.'),
  LIMIT_POST_SUSTAINED_SECONDS: whole(60, 'Seconds to refill the sustained POST requests.'),
  LIMIT_GET: whole(200, 'Burst of GET requests per organization.'),
  LIMIT_GET_SECONDS: whole(1, 'Seconds to refill the burst of GET requests.'),
  MAX_PREFLIGHTS: whole(10, 'Maximum number of concurrent preflights of a tenant per lane and ' +
    'instance; further requests wait.'),
  MAX_PREFLIGHT_ROWS: whole(100_000,
    'Maximum number of rows of these preflights, unless one alone has more.'),
}

type Settings = Static<ReturnType<typeof Type.Object<typeof limitFields>>>

/** The rate limits of a configuration. */
export function limitsOf (settings: Settings): RateLimits {
  return {
    post: [
      { capacity: settings.LIMIT_POST_BURST, seconds: settings.LIMIT_POST_BURST_SECONDS },
      { capacity: settings.LIMIT_POST_SUSTAINED, seconds: settings.LIMIT_POST_SUSTAINED_SECONDS },
    ],
    get: [{ capacity: settings.LIMIT_GET, seconds: settings.LIMIT_GET_SECONDS }],
  }
}

/** The rate limits of the configuration or of the policy of an organization, in the cache Redis. */
export function limiterOf (
  { cache, state, log, metrics }:
  Pick<Connections, 'cache' | 'state'> & Pick<ServiceContext, 'log' | 'metrics'>,
  settings: Settings
): Limiter {
  const { cachedOrgPolicy } = createOrganizations(state)
  const defaults = limitsOf(settings)
  const limits = (org: string) => {
    const { postBurst, postSustained, gets } = cachedOrgPolicy(org)
    if ((postBurst ?? postSustained ?? gets) === undefined) return defaults
    return limitsOf({
      ...settings,
      LIMIT_POST_BURST: postBurst ?? settings.LIMIT_POST_BURST,
      LIMIT_POST_SUSTAINED: postSustained ?? settings.LIMIT_POST_SUSTAINED,
      LIMIT_GET: gets ?? settings.LIMIT_GET,
    })
  }
  const shared = createRedisLimiter(cache, limits)
  return createLimiter({ shared, local: createLocalLimiter(limits), log, metrics })
}
