import type { Redis } from 'ioredis'
import type { PageConfig } from './config.ts'
import { createOnce } from './once.ts'
import { createFlows } from './pipeline/flows.ts'
import { createRestClients } from './rest-clients.ts'
import { createSessions } from './sessions.ts'
import { createSignInCodes } from './sign-in-codes.ts'

/** The parts of the page's own, on the Redis that keeps state. */
export function connectedParts (redis: Redis, settings: PageConfig) {
  const rest = createRestClients({ redis, apiUrl: settings.API_URL })
  return {
    rest,
    sessions: createSessions({
      redis, times: { idleMs: settings.SESSION_IDLE_MS, wholeMs: settings.SESSION_MS },
    }),
    signInCodes: createSignInCodes(redis),
    once: createOnce(redis),
    flows: createFlows({
      targets: settings.METRICS_TARGETS, targetsFile: settings.METRICS_TARGETS_FILE,
    }),
    close: () => rest.close(),
  }
}

/** Where the page listens. */
export function listensAt ({ HOST: host, PORT_HTTP: port }: PageConfig) {
  return { host, port }
}
