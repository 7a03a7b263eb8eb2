import { LRUCache } from 'lru-cache'
import type { HostMemory } from '../../../services/verify/mailboxes/memory.ts'
import type { Mailbox } from '../../../services/verify/mailboxes/replies.ts'

/** A memory of one test without limits: what the real one limits is shown on a real Redis. */
export function createOpenMemory (): HostMemory {
  const rests = new LRUCache<string, Mailbox>({ max: 1_000 })
  const accepting = new Set<string>()
  const catchAlls = new LRUCache<string, boolean>({ max: 1_000, ttl: 24 * 3_600_000 })
  const limits = new Map<string, number>()
  return {
    begin: async (_party, wanted) => ({ session: 'session', recipients: wanted }),
    more: async (_party, _session, wanted) => ({ recipients: wanted, waitMs: 0 }),
    end: async (_party, _session, { restMs = 0 }) => restMs,
    exchange: async (name, egress) => ({
      limit: limits.get(name),
      restMs: rests.getRemainingTTL(`${name} ${egress}`),
      why: rests.get(`${name} ${egress}`),
      acceptsAny: false,
      hasAccepted: accepting.has(`${name} ${egress}`),
    }),
    note: async (name, { limit, accepted }) => {
      if (limit !== undefined) limits.set(name, limit)
      if (accepted !== undefined) accepting.add(`${name} ${accepted}`)
    },
    rest: async (name, egress, { why, restMs }) => {
      rests.set(`${name} ${egress}`, why, { ttl: restMs })
    },
    catchAll: async (exchange, domain) => catchAlls.get(`${exchange} ${domain}`),
    rememberCatchAll: async (exchange, domain, isCatchAll) => {
      catchAlls.set(`${exchange} ${domain}`, isCatchAll)
    },
    owners: async () => [],
  }
}
