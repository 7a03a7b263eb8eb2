import { encodeTime } from 'ulid'
import type { WebhookEndpoint } from '../../../services/webhooks/endpoints.ts'

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
