import type { AccessStores } from '../accounts/access-log/copy.ts'
import type { ApiKeys } from '../accounts/api-keys.ts'
import type { Organizations } from '../accounts/organizations.ts'
import type { People } from '../accounts/people.ts'
import type { WebhookSecrets } from '../webhooks/secrets.ts'
import type { JournalCopy } from '../money/journal-copy.ts'
import type { Sleep } from '../runtime/platform/retry.ts'
import type { IdentityProvider } from './identity-provider.ts'
import type { PipelineStatus } from './pipeline/figures.ts'
import type { RestClients } from './rest-clients.ts'
import type { Nonces, Sessions, SignInCodes } from '../accounts/sessions.ts'

/** The dependencies of all pages; tests pass doubles. */
export type PageDeps = AccessStores & {
  readonly sessions: Sessions
  readonly signInCodes: SignInCodes
  readonly nonces: Nonces
  readonly rest: Pick<RestClients, 'of'>
  readonly organizations: Pick<Organizations, 'find' | 'setPolicy' | 'isErased'>
  readonly people: People
  /** Without it only links sign in. */
  readonly identityProvider?: IdentityProvider
  readonly apiKeys: Pick<ApiKeys, 'create' | 'list' | 'revoke' | 'roll'>
  readonly webhookSecrets: Pick<WebhookSecrets, 'rotate' | 'active'>
  readonly journal: Pick<JournalCopy, 'readNewest'>
  readonly pipelineStatus: () => Promise<PipelineStatus>
  readonly ready: () => boolean
  /** Waits between two polls of running jobs; the real clock by default. */
  readonly sleep?: Sleep
}
