import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import type { AccessAction } from '../accounts/access-log/entry.ts'
import type { Organization } from '../accounts/organizations.ts'
import type { Person, Role } from '../accounts/people.ts'
import { isMode } from '../accounts/tenant.ts'
import type { Client } from '../client/client.ts'
import type { PageDeps } from './deps.ts'
import { zoneOf } from './html.ts'
import { PageError } from './page-error.ts'
import type { Tenant } from './rest-clients.ts'
import { type Access, mayDo, type Permission } from './roles.ts'
import type { Session } from '../accounts/sessions.ts'

export type { PageDeps }

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Called by a script of the page, so errors are JSON. */
    readonly forScript?: true
    /** Who may send the request; a route of the page without it fails the start. */
    readonly access?: Access
  }
  interface FastifyRequest {
    visitor: Visitor | undefined
    /** The request arrived over HTTPS, here or at a trusted proxy. */
    isHttps: boolean
  }
}

/** A signed-in browser; `id` is the secret in its cookie, and a link names no person. */
export type Visitor = {
  readonly id: string
  readonly session: Session
  readonly person?: Person
}

/** The role of a visitor; a link has the rights of an owner. */
export function roleOf ({ person }: Visitor): Role {
  return person?.role ?? 'owner'
}

/** Whether a visitor has a permission. */
export function may (visitor: Visitor, permission: Permission): boolean {
  return mayDo(roleOf(visitor), permission)
}

/** How long after an authentication people, and after its use a link, may change secrets. */
const RECENT_MS = { person: 300_000, link: 600_000 } as const

/** Whether the authentication of a visitor is recent enough to change secrets. */
export function isRecent ({ session, person }: Visitor, nowMs: number): boolean {
  const ageMs = nowMs - session.authenticatedAtMs
  return ageMs <= RECENT_MS[person === undefined ? 'link' : 'person']
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

type CustomerRoute = { readonly access: Access, readonly records?: AccessAction | null }

/** Makes a function that defines a route for customers by method, URL, access and handler. */
export function customerRoutes (deps: PageDeps) {
  return (
    method: 'GET' | 'POST', url: string, config: CustomerRoute, handle: Handle
  ): RouteOptions => ({ method, url, config, handler: forCustomer(deps, handle) })
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
