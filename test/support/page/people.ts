import { createApiKeys } from '../../../services/accounts/api-keys.ts'
import type { Role } from '../../../services/accounts/people.ts'
import { openRedis } from '../redis/open-redis.ts'
import { secretDigest, type Session } from '../../../services/accounts/sessions.ts'
import { createOrganizationWith } from '../organizations.ts'
import { reserveProvider } from './openid-provider.ts'
import { startAlone } from '../stacks/services.ts'
import { testStack } from '../stacks/stack.ts'
import { peopleIn } from './stored-people.ts'

/**
 * The page and the interface on the suite's stack, with an OpenID provider that is not started yet,
 * and an organization of its own.
 */
export async function startPeopleEnvironment () {
  const { env, servicesDir } = testStack()
  const provider = await reserveProvider()
  const services = await startAlone({
    env, stages: ['ingest', 'page'], overrides: provider.settings, servicesDir,
  })
  const redis = openRedis(env.REDIS_STATE_URL ?? '')
  const [people, apiKeys] = [peopleIn(env, redis), createApiKeys(redis)]
  const { orgId } = await createOrganizationWith(env, { availableMicros: 1_000_000 })
  let started: Awaited<ReturnType<typeof provider.start>> | undefined
  return {
    orgId,
    people,
    pageUrl: services.pageUrl,
    startProvider: async () => { started = await provider.start(services.pageUrl) },
    providerOutput: () => started?.output() ?? '',

    /** Adds a person as an operator does. */
    add: async (email: string, role: Role) => {
      const made = await people.add(orgId, { email, role, createdBy: 'operator' })
      if (made === undefined) throw new Error(`there is no organization ${orgId}`)
      return made
    },

    /** The id of a person of the organization. */
    idOf: async (email: string) =>
      (await people.list(orgId)).find(person => person.email === email)?.id,

    /** The keys of the organization, the newest first. */
    keys: async () => (await apiKeys.list(orgId)).toReversed(),

    /** Makes the authentication of a session older. */
    age: async (sessionId: string, ms: number) => {
      const key = `page:session:${secretDigest(sessionId)}`
      const session = JSON.parse(await redis.get(key) ?? '') as Session
      const aged = { ...session, authenticatedAtMs: session.authenticatedAtMs - ms }
      await redis.set(key, JSON.stringify(aged), 'KEEPTTL')
    },

    stop: async () => {
      await started?.stop()
      redis.disconnect()
      await services.stop()
    },
  }
}
