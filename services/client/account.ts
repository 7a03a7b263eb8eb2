import type { Static } from 'typebox'
import type { BalanceBody } from '../../schemas/api/balance.ts'
import type { AttemptBody, ResentSchema } from '../../schemas/api/deliveries.ts'
import type { QuoteBody } from '../../schemas/api/quote.ts'
import type { ServicesBody } from '../../schemas/api/services.ts'
import type { JobRequest } from './request.ts'
import { bodyOf, type Transport } from './transport.ts'

type DeliveryList = { readonly data: readonly AttemptBody[] }
export type Resent = Static<typeof ResentSchema>

/** Money and services of the organization that the key belongs to. */
export function accountOf (send: Transport) {
  return {
    /** What a job of this body would be quoted; nothing is reserved and no job is made. */
    quote: (body: JobRequest) => bodyOf<QuoteBody>(send('/quotes', { method: 'POST', body })),

    balance: () => bodyOf<BalanceBody>(send('/balance')),

    /** The services with their prices for the mode of the key. */
    services: async () => (await bodyOf<ServicesBody>(send('/services'))).data,
  }
}

/** What became of the webhooks of a job. */
export function webhooksOf (send: Transport) {
  return {
    /** The tries to deliver the job's event, newest first. */
    deliveries: async (id: string) =>
      (await bodyOf<DeliveryList>(send(`/jobs/${id}/deliveries`))).data,

    /** Sends an event once more; a lost answer is not tried again, as it would be sent twice. */
    resend: (id: string, deliveryId: string) =>
      bodyOf<Resent>(send(`/jobs/${id}/deliveries/${deliveryId}/resend`, {
        method: 'POST', repeatable: false,
      })),
  }
}
