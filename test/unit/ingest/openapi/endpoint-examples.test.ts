import { describe, expect, it } from 'vitest'
import Schema from 'typebox/schema'
import {
  CreateEndpointSchema, UpdateEndpointSchema,
} from '../../../../schemas/api/webhook-endpoints.ts'
import { ENDPOINT_REQUESTS } from '../../../../services/ingest/openapi/samples.ts'

describe('the examples of webhook endpoints', () => {
  it('are requests that the service takes', () => {
    const { createWebhookEndpoint, updateWebhookEndpoint } = ENDPOINT_REQUESTS
    expect(Schema.Check(CreateEndpointSchema, createWebhookEndpoint.endpoint)).toBe(true)
    expect(Schema.Check(UpdateEndpointSchema, updateWebhookEndpoint.disable)).toBe(true)
    expect(Schema.Check(UpdateEndpointSchema, { events: ['job.unknown'] })).toBe(false)
  })
})
