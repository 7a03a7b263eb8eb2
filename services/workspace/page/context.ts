import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import type { AccessStores } from '../../access-log/copy.ts'
import type { ApiKeys } from '../../accounts/api-keys.ts'
import type { Organization, Organizations } from '../../accounts/organizations.ts'
import { isMode } from '../../accounts/tenant.ts'
import type { WebhookSecrets } from '../../accounts/webhook-secrets.ts'
import type { Client } from '../../client/client.ts'
import type { Sleep } from '../../platform/retry.ts'
import type { JournalCopy } from '../../money/journal-copy.ts'
import { zoneOf } from './html.ts'
import { PageError } from './page-error.ts'
import type { PipelineStatus } from './pipeline/figures.ts'
import type { RestClients, Tenant } from './rest-clients.ts'
import type { Nonces, Session, Sessions, SignInCodes } from './sessions.ts'

/** Who may open a page: `any` means any signed-in user. Without it, everybody. */
type Access = 'customer' | 'operator' | 'any'

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly access?: Access
    /** Called by a script of the page, so errors are JSON. */
    readonly forScript?: true
  }
  interface FastifyRequest {
    visitor: Visitor | undefined
    /** The request arrived over HTTPS, here or at a trusted proxy. */
    isHttps: boolean
  }
}

/** A signed-in browser; `id` is the secret in its cookie. */
export type Visitor = { readonly id: string, readonly session: Session }

/** The dependencies of all pages; tests pass doubles. */
export type PageDeps = AccessStores & {
  readonly sessions: Sessions
  readonly signInCodes: SignInCodes
  readonly nonces: Nonces
  readonly rest: Pick<RestClients, 'of'>
  readonly organizations: Pick<Organizations, 'find' | 'setPolicy'>
  readonly apiKeys: Pick<ApiKeys, 'create' | 'list' | 'revoke' | 'roll'>
  readonly webhookSecrets: Pick<WebhookSecrets, 'rotate' | 'active'>
  readonly journal: Pick<JournalCopy, 'readNewest'>
  readonly pipelineStatus: () => Promise<PipelineStatus>
  readonly ready: () => boolean
  /** Waits between two polls of running jobs; the real clock by default. */
  readonly sleep?: Sleep
}

/** The request of a customer: the tenant it concerns, and how to show times. */
export type Visit = {
  readonly tenant: Tenant
  readonly organization: Organization
  readonly visitor: Visitor
  readonly zone: string
  readonly client: Client
}

/** A request of a customer with its reply. */
export type Exchange = {
  readonly visit: Visit
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

type Handle = (exchange: Exchange) => Promise<FastifyReply>

/** Makes a handler that resolves the visit first; it throws PageError 404 for other users. */
export function forCustomer (deps: PageDeps, handle: Handle) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
    handle({ visit: await visitOf(deps, request), request, reply })
}

/** Makes a function that defines a route for customers by method, URL and handler. */
export function customerRoutes (deps: PageDeps) {
  return (method: 'GET' | 'POST', url: string, handle: Handle): RouteOptions =>
    ({ method, url, config: { access: 'customer' }, handler: forCustomer(deps, handle) })
}

async function visitOf (deps: PageDeps, request: FastifyRequest): Promise<Visit> {
  const { visitor } = request
  const { mode = '' } = request.params as { readonly mode?: string }
  if (visitor?.session.subject.kind !== 'customer' || !isMode(mode)) {
    throw new PageError('not_found')
  }
  const { orgId } = visitor.session.subject
  const organization = await deps.organizations.find(orgId)
  if (organization === undefined) throw new PageError('not_found')
  const tenant = { orgId, mode }
  const zone = zoneOf(request.cookies.zone)
  return { tenant, organization, visitor, zone, client: await deps.rest.of(tenant) }
}

/** A text field of a form; '' when it was not sent. */
export function field (request: FastifyRequest, name: string): string {
  const form = request.body
  return form instanceof URLSearchParams ? form.get(name) ?? '' : ''
}
