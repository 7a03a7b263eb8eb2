import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Organization } from '../../accounts/organizations.ts'
import { isMode } from '../../accounts/tenant.ts'
import type { Client } from '../../client/client.ts'
import { zoneOf } from './format.ts'
import { PageFault } from './page-fault.ts'
import type { PageParts, Visitor } from './page-parts.ts'
import type { Tenant } from './rest-clients.ts'

export type { PageParts, Visitor } from './page-parts.ts'

/** A customer's request: whose data it is about, and how to show it. */
export type Visit = {
  readonly tenant: Tenant
  readonly organization: Organization
  readonly visitor: Visitor
  readonly zone: string
  readonly client: Client
}

/** The zone of the viewer, as the browser told. */
export function zoneIn (request: FastifyRequest): string {
  return zoneOf(request.cookies.zone)
}

/** Reads whose page is asked for; throws PageFault 404 for a mode that is none. */
export async function visitOf (parts: PageParts, request: FastifyRequest): Promise<Visit> {
  const { visitor } = request
  const { mode = '' } = request.params as { readonly mode?: string }
  if (visitor?.session.holder.kind !== 'customer' || !isMode(mode)) throw new PageFault('not_found')
  const { orgId } = visitor.session.holder
  const organization = await parts.organizations.find(orgId)
  if (organization === undefined) throw new PageFault('not_found')
  const tenant = { orgId, mode }
  return {
    tenant, organization, visitor, zone: zoneIn(request), client: await parts.rest.of(tenant),
  }
}

/** The visit and what was sent, for routes of customers. */
export type Exchange = {
  readonly visit: Visit
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

/** Makes a handler of a page of customers, with the visit read first. */
export function forCustomer (
  parts: PageParts, handle: (exchange: Exchange) => Promise<FastifyReply>
) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
    handle({ visit: await visitOf(parts, request), request, reply })
}

/** A text field of a form; '' when it was not sent. */
export function field (request: FastifyRequest, name: string): string {
  const form = request.body
  return form instanceof URLSearchParams ? form.get(name) ?? '' : ''
}
