import type { ApiKeys } from '../../accounts/api-keys.ts'
import type { Organizations } from '../../accounts/organizations.ts'
import type { WebhookSecrets } from '../../accounts/webhook-secrets.ts'
import type { Sleep } from '../../lib/retry.ts'
import type { ReadMovements } from './movements.ts'
import type { Once } from './once.ts'
import type { Flows } from './pipeline/flows.ts'
import type { RestClients } from './rest-clients.ts'
import type { Session, Sessions } from './sessions.ts'
import type { SignInCodes } from './sign-in-codes.ts'

/** Who may see a page: `anybody` who is signed in. Without it: everybody. */
export type Access = 'customer' | 'operator' | 'anybody'

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly access?: Access
    /** Answered to a script, which is told of failures as JSON. */
    readonly forScript?: true
  }
  interface FastifyRequest {
    visitor: Visitor | undefined
    /** It came over HTTPS, here or at a proxy that is trusted. */
    isHttps: boolean
  }
}

/** A browser that is signed in. */
export type Visitor = { readonly id: string, readonly session: Session }

/** What the pages are made from; doubles stand in for it in tests. */
export type PageParts = {
  readonly sessions: Sessions
  readonly signInCodes: SignInCodes
  readonly rest: Pick<RestClients, 'of' | 'forget'>
  readonly organizations: Pick<Organizations, 'find' | 'setPolicy'>
  readonly apiKeys: Pick<ApiKeys, 'create' | 'list' | 'revoke' | 'roll'>
  readonly webhookSecrets: Pick<WebhookSecrets, 'rotate' | 'active'>
  readonly movements: ReadMovements
  /** Tells a form that is sent for the first time from one that is sent again. */
  readonly once: Once
  readonly flows: () => Promise<Flows>
  readonly ready: () => boolean
  /** Waits between two looks at jobs; by the time of this machine when left out. */
  readonly sleep?: Sleep
}
