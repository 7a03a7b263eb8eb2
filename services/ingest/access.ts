import type { FastifyInstance, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { AccessLog } from '../accounts/access-log/access-log.ts'
import type { AccessEvent } from '../accounts/access-log/entry.ts'
import { recordRequests } from '../accounts/access-log/requests.ts'
import { WORKSPACE_KEY } from '../accounts/key-store.ts'
import { ApiException } from './errors.ts'

/** Fields of bodies that an entry repeats; an address of a webhook may be secret. */
const FIELDS = ['events', 'enabled']

function detailsIn (body: unknown): Readonly<Record<string, string>> {
  if (typeof body !== 'object' || body === null) return {}
  return Object.fromEntries(Object.entries(body).filter(([name]) => FIELDS.includes(name))
    .map(([name, value]) => [name, String(value)]))
}

/** How long the entry of a page of results covers later pages, for the same key and job. */
const PAGES_MS = 3_600_000
const MAX_DOWNLOADS = 10_000

/**
 * Records the requests of API keys in the access log. A later page of results needs no entry of its
 * own after that of another page; the cursor alone proves nothing, as a client can make one up.
 */
export function recordApiRequests (app: FastifyInstance, log: AccessLog): void {
  const downloads = new LRUCache<string, true>({ max: MAX_DOWNLOADS, ttl: PAGES_MS })
  const nameOf = ({ actor, target }: AccessEvent) => `${actor.id} ${target}`
  recordRequests(app, {
    log: {
      ...log,
      append: async event => {
        const id = await log.append(event)
        const isDownload = event.action === 'results.downloaded' && event.outcome === 'done'
        if (isDownload) downloads.set(nameOf(event), true)
        return id
      },
    },
    isExempt: ({ query }, event) => event.action === 'results.downloaded' &&
      (query as { readonly cursor?: string }).cursor !== undefined && downloads.has(nameOf(event)),
    isRefusal: error => error instanceof ApiException && error.fault.code === 'insufficient_scope',
    requesterOf: ({ caller, body }: FastifyRequest) => {
      // The workspace page records the person behind its own requests.
      if (caller === undefined || caller.keyId === WORKSPACE_KEY) return undefined
      const { org: organization, keyId: id, mode } = caller
      return { organization, actor: { kind: 'key', id }, details: { mode, ...detailsIn(body) } }
    },
  })
}
