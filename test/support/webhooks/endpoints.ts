import { encodeTime } from 'ulid'
import type { WebhookEndpoint } from '../../../services/webhooks/endpoints.ts'
import type { IngestDeps } from '../../../services/ingest/deps.ts'

export const ENDPOINT_ID = 'we_01jd3v8zj7m5n2k4q6r8s0t1w3'

/** The id of an endpoint that was created at a time, in Unix ms; a name of up to 16 letters. */
export const endpointIdAt = (createdAtMs: number, name: string) =>
  `we_${encodeTime(createdAtMs, 10).toLowerCase()}${name.padStart(16, '0')}`

/** An enabled endpoint for all events. */
export const endpointOf = (more: Partial<WebhookEndpoint> = {}): WebhookEndpoint => ({
  id: ENDPOINT_ID,
  url: 'https://hooks.example.com/all',
  events: ['*'],
  description: '',
  enabled: true,
  createdAtMs: Date.parse('2026-08-11T10:00:00.000Z'),
  updatedAtMs: Date.parse('2026-08-11T10:00:00.000Z'),
  secret: `whsec_${Buffer.alloc(32, 1).toString('base64')}`,
  secretBefore: '',
  secretBeforeUntilMs: 0,
  ...more,
})

/** The endpoints of each tenant, in memory. */
export function endpointsDouble (
  initial: Readonly<Record<string, readonly WebhookEndpoint[]>> = {}
): IngestDeps['endpoints'] {
  const lists = new Map(Object.entries(initial))
  const listOf = (tenant: string) => lists.get(tenant) ?? []
  const replace = (tenant: string, id: string, change: Partial<WebhookEndpoint>) => {
    const list = listOf(tenant).map(one => one.id === id ? { ...one, ...change } : one)
    lists.set(tenant, list)
    return list.find(one => one.id === id)
  }
  let made = 0
  return {
    list: async tenant => listOf(tenant),
    create: async (tenant, settings, max) => {
      const list = listOf(tenant)
      if (list.length >= max) return undefined
      const endpoint = endpointOf({ ...settings, id: `we_${++made}` })
      lists.set(tenant, [...list, endpoint])
      return endpoint
    },
    update: async (tenant, id, change) => replace(tenant, id, change),
    rotate: async (tenant, id) => replace(tenant, id, { secret: 'whsec_new' }),
    remove: async (tenant, id) => {
      const gone = listOf(tenant).find(one => one.id === id)
      lists.set(tenant, listOf(tenant).filter(one => one.id !== id))
      return gone
    },
  }
}
