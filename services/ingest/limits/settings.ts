import Type, { type Static } from 'typebox'
import { createOrganizations } from '../../accounts/organizations.ts'
import type { Deps } from '../../engine/deps.ts'
import type { ServiceContext } from '../../platform/run.ts'
import { createLimiter, type Limiter, type Limits } from './limiter.ts'
import { createLocalLimiter } from './local-limiter.ts'
import { createRedisLimiter } from './redis-limiter.ts'

const whole = (value: number, description: string) =>
  Type.Integer({ default: value, minimum: 1, description })

/** What can be set about the limits; defaults are the values of the public interface. */
export const limitFields = {
  LIMIT_POST_BURST: whole(100,
    'POST requests an organization may send at once, live and test together.'),
  LIMIT_POST_BURST_SECONDS: whole(1, 'Seconds in which the burst of POST requests fills again.'),
  LIMIT_POST_SUSTAINED: whole(1_000, 'POST requests an organization may send over a longer time.'),
  LIMIT_POST_SUSTAINED_SECONDS: whole(60, 'Seconds in which that number of requests fills again.'),
  LIMIT_GET: whole(200, 'GET requests an organization may send at once.'),
  LIMIT_GET_SECONDS: whole(1, 'Seconds in which the number of GET requests fills again.'),
  MAX_PREFLIGHTS: whole(10, 'Preflights of a tenant that an instance has under way at once in ' +
    'each lane; further requests wait for their turn.'),
  MAX_PREFLIGHT_ROWS: whole(100_000, 'Rows they have together at most, but for one alone.'),
}

type Settings = Static<ReturnType<typeof Type.Object<typeof limitFields>>>

/** The limits a configuration asks for. */
export function limitsOf (settings: Settings): Limits {
  return {
    post: [
      { capacity: settings.LIMIT_POST_BURST, seconds: settings.LIMIT_POST_BURST_SECONDS },
      { capacity: settings.LIMIT_POST_SUSTAINED, seconds: settings.LIMIT_POST_SUSTAINED_SECONDS },
    ],
    get: [{ capacity: settings.LIMIT_GET, seconds: settings.LIMIT_GET_SECONDS }],
  }
}

/** The limits by the configuration or the organization's policy, kept in the cache Redis. */
export function limiterOf (
  { cache, state, log, metrics }:
  Pick<Deps, 'cache' | 'state'> & Pick<ServiceContext, 'log' | 'metrics'>,
  settings: Settings
): Limiter {
  const { orgPolicyNow } = createOrganizations(state)
  const usual = limitsOf(settings)
  const limits = (org: string) => {
    const { postBurst, postSustained, gets } = orgPolicyNow(org)
    if ((postBurst ?? postSustained ?? gets) === undefined) return usual
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
