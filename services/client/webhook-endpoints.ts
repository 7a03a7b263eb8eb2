import type { AttemptBody, ResentBody } from '../../schemas/api/deliveries.ts'
import type {
  CreateEndpointBody, EndpointBody, EndpointDeliveriesBody, EndpointWithSecretBody,
  UpdateEndpointBody,
} from '../../schemas/api/webhook-endpoints.ts'
import { paginate, queryString } from './pages.ts'
import { jsonOf, type Transport } from './transport.ts'

const MAX_ATTEMPTS_PAGE = 100
const ADDRESS = '/webhook-endpoints'

/** The webhook endpoints of an organization, in the mode of the key. */
export function createWebhookEndpointsApi (send: Transport) {
  return {
    /** The secret is in this result only. A retry after a lost response is left to the caller. */
    createWebhookEndpoint: (body: CreateEndpointBody) =>
      jsonOf<EndpointWithSecretBody>(send(ADDRESS, { method: 'POST', body, repeatable: false })),

    webhookEndpoints: async () =>
      (await jsonOf<{ readonly data: readonly EndpointBody[] }>(send(ADDRESS))).data,

    webhookEndpoint: (id: string) => jsonOf<EndpointBody>(send(`${ADDRESS}/${id}`)),

    /** Changes the given settings only. */
    updateWebhookEndpoint: (id: string, body: UpdateEndpointBody) =>
      jsonOf<EndpointBody>(send(`${ADDRESS}/${id}`, { method: 'PATCH', body })),

    deleteWebhookEndpoint: (id: string) =>
      jsonOf<{ readonly id: string, readonly deleted: true }>(
        send(`${ADDRESS}/${id}`, { method: 'DELETE' })),

    /** The old secret signs beside the new one for a day. A second call would drop it earlier. */
    rotateWebhookEndpointSecret: (id: string) =>
      jsonOf<EndpointWithSecretBody>(send(`${ADDRESS}/${id}/rotate-secret`, {
        method: 'POST', repeatable: false,
      })),

    /** The public keys that verify events, the newest first: `publicKey` of `verifyWebhook`. */
    webhookKeys: async () =>
      (await jsonOf<{ readonly data: readonly { readonly key: string }[] }>(send('/webhook-keys')))
        .data.map(({ key }) => key),

    /** Iterates over the delivery attempts to an endpoint, those of the newest jobs first. */
    endpointDeliveries: (id: string): AsyncIterable<AttemptBody> =>
      paginate(async cursor => await jsonOf<EndpointDeliveriesBody>(
        send(`${ADDRESS}/${id}/deliveries${queryString({ limit: MAX_ATTEMPTS_PAGE, ...cursor })}`)),
      'after'),
  }
}

/** Webhook deliveries of a job. */
export function createDeliveriesApi (send: Transport) {
  return {
    /** The delivery attempts of the job's event, newest first. */
    deliveries: async (id: string) =>
      (await jsonOf<{ readonly data: readonly AttemptBody[] }>(send(`/jobs/${id}/deliveries`)))
        .data,

    /** Resends an event. Never retries after a lost response: that could send the event twice. */
    resend: (id: string, deliveryId: string) =>
      jsonOf<ResentBody>(send(`/jobs/${id}/deliveries/${deliveryId}/resend`, {
        method: 'POST', repeatable: false,
      })),
  }
}
