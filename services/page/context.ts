import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type AccessAction, describeAccess } from '../accounts/access-log/access-log.ts'
import type { AccessStores } from '../accounts/access-log/copy.ts'
import type { ApiKeys } from '../accounts/api-keys.ts'
import type { Organization, Organizations } from '../accounts/organizations.ts'
import { type People, type Person, type Role, ROLES } from '../accounts/people.ts'
import type { Nonces, Session, Sessions, SignInCodes } from '../accounts/sessions.ts'
import { isMode } from '../accounts/tenant.ts'
import { ApiError, type Client } from '../client/client.ts'
import { cutPage, type JournalCopy } from '../money/journal.ts'
import { parseZone } from './html.ts'
import type { IdentityProvider } from './identity-provider.ts'
import { PageError } from './page-error.ts'
import type { PipelineStatus } from './pipeline/figures.ts'
import type { RestClients, Tenant } from './rest-clients.ts'
import type { Sleep } from '../runtime/platform/retry.ts'
import type { WebhookSecrets } from '../webhooks/secrets.ts'

/** The dependencies of all pages. */
export type PageDeps = AccessStores & {
  readonly sessions: Sessions
  readonly signInCodes: SignInCodes
  readonly nonces: Nonces
  readonly rest: Pick<RestClients, 'of'>
  readonly organizations: Organizations
  readonly people: People
  /** Without it only links sign in. */
  readonly identityProvider?: IdentityProvider
  readonly apiKeys: ApiKeys
  readonly webhookSecrets: WebhookSecrets
  readonly journal: Pick<JournalCopy, 'readNewest'>
  readonly pipelineStatus: () => Promise<PipelineStatus>
  /** Where customers ask for money and help; '' for nowhere. */
  readonly supportUrl: string
  /** Waits between two polls of running jobs; the real clock by default. */
  readonly sleep?: Sleep
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Called by a script of the page, so errors are JSON. */
    readonly forScript?: true
    /** Who may send the request; a route of the page without it fails the start. */
    readonly access?: Access
    /** The name of a page `/:mode/<section>` in the navigation, in the order of the routes. */
    readonly navigation?: string
  }
  interface FastifyInstance {
    /** The sections of the page; those of a visitor are in the navigation. */
    sections: readonly Section[]
  }
  interface FastifyRequest {
    visitor: Visitor | undefined
    /** The request arrived over HTTPS, here or at a trusted proxy. */
    isHttps: boolean
  }
}

/** A page of the navigation, with the pages and forms below it. */
export type Section = {
  /** The part of the path behind the mode. */
  readonly path: string
  readonly title: string
  /** Who sees it. */
  readonly permission: Permission
  /** What its pages and forms need, beside that. */
  readonly permissions: readonly Permission[]
}

/** The sections of some routes, in their order. */
export function listSections (routes: readonly RouteOptions[]): readonly Section[] {
  const parts = routes.flatMap(({ url, config }) => {
    const { access, navigation: title } = config ?? {}
    return access !== undefined && isPermission(access)
      ? [{ path: sectionPath(url), title, permission: access }]
      : []
  })
  return parts.flatMap(({ path, title, permission }) => title === undefined
    ? []
    : [{
        path,
        title,
        permission,
        permissions: parts.filter(part => part.path === path).map(part => part.permission),
      }])
}

const sectionPath = (url: string) => url.split('/')[2] ?? ''

/** What the roles may do on the page. */
const PERMISSIONS = {
  'overview.view': ['owner', 'developer', 'finance', 'read-only'],
  'usage.view': ['owner', 'developer', 'finance', 'read-only'],
  'jobs.view': ['owner', 'developer', 'read-only'],
  'jobs.change': ['owner', 'developer'],
  'results.view': ['owner', 'developer'],
  'balance.view': ['owner', 'finance'],
  'keys.view': ['owner', 'developer'],
  'keys.change': ['owner', 'developer'],
  'webhooks.view': ['owner', 'developer'],
  'webhooks.change': ['owner', 'developer'],
  'secrets.change': ['owner', 'developer'],
  'settings.view': ['owner', 'developer'],
  'settings.change': ['owner'],
  'access_log.view': ['owner'],
  'people.view': ['owner'],
  'people.change': ['owner'],
} as const satisfies Readonly<Record<string, readonly Role[]>>

export type Permission = keyof typeof PERMISSIONS

/** Permissions that also need a recent authentication. */
const RECENT: ReadonlySet<string> =
  new Set<Permission>(['keys.change', 'secrets.change', 'people.change'])

/**
 * Who may send a request: those with a permission, every signed-in browser, people who signed in
 * through the provider, operators of the pipeline, or everybody.
 */
export type Access = Permission | 'signed-in' | 'person' | 'operator' | 'everybody'

/** Whether a role has a permission. */
function mayDo (role: Role, permission: Permission): boolean {
  return (PERMISSIONS[permission] as readonly Role[]).includes(role)
}

/** Whether an access is a permission of roles; others are no matter of roles. */
export function isPermission (access: Access): access is Permission {
  return Object.hasOwn(PERMISSIONS, access)
}

/** Whether an access needs a recent authentication. */
export function needsRecent (access: Access): boolean {
  return RECENT.has(access)
}

/** The roles with a permission, for a sentence: `owner or developer`. */
export function rolesWith (permission: Permission): string {
  return PERMISSIONS[permission].join(' or ')
}

/** What each role may do, as a table with a heading, for the documentation. */
export function roleTable (): readonly (readonly string[])[] {
  const permissions = Object.keys(PERMISSIONS) as Permission[]
  return [['permission', ...ROLES], ...permissions.map(name => [
    `\`${name}\`${needsRecent(name) ? ' *' : ''}`,
    ...ROLES.map(role => mayDo(role, name) ? 'yes' : '-'),
  ])]
}

/** A signed-in browser; `id` is the secret in its cookie, and a link names no person. */
export type Visitor = {
  readonly id: string
  readonly session: Session
  readonly person?: Person
}

/** The role of a visitor; a link has the rights of an owner. */
export function visitorRole ({ person }: Visitor): Role {
  return person?.role ?? 'owner'
}

/** Whether a visitor has a permission. */
export function may (visitor: Visitor, permission: Permission): boolean {
  return mayDo(visitorRole(visitor), permission)
}

/** How long after an authentication people, and after its use a link, may change secrets. */
const RECENT_MS = { person: 300_000, link: 600_000 } as const

/** Whether the authentication of a visitor is recent enough to change secrets. */
export function isRecent ({ session, person }: Visitor): boolean {
  const ageMs = Date.now() - session.authenticatedAtMs
  return ageMs <= RECENT_MS[person === undefined ? 'link' : 'person']
}

/** The request of a customer: the tenant it concerns, and how to show times. */
export type Visit = {
  readonly tenant: Tenant
  readonly organization: Organization
  /** Those in which a person has signed in; empty for a link. */
  readonly organizations: readonly MemberOf[]
  readonly visitor: Visitor
  readonly zone: string
  readonly client: Client
  /** The path of the section that is open, and all sections. */
  readonly section: string
  readonly sections: readonly Section[]
  /** The name of the message about the last action, in `?notice=`. */
  readonly notice: unknown
  /** Makes what lets a form take effect at most once. */
  readonly createNonce: () => string
}

/** An organization of a person. */
type MemberOf = { readonly orgId: string, readonly name: string, readonly role: Role }

/** A request of a customer with its reply. */
export type Exchange = {
  readonly visit: Visit
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

type CustomerRoute = {
  readonly access: Access
  readonly records?: AccessAction | null
  readonly navigation?: string
  readonly forScript?: true
}

/**
 * Makes a function that defines a route for customers by method, URL, access and handler. Its
 * handler gets the visit, and other users PageError 404.
 */
export function customerRoutes (deps: PageDeps) {
  return (
    method: 'GET' | 'POST', url: string, config: CustomerRoute,
    handle: (exchange: Exchange) => Promise<FastifyReply>
  ): RouteOptions => ({
    method,
    url,
    config,
    handler: async (request: FastifyRequest, reply: FastifyReply) =>
      handle({ visit: await resolveVisit(deps, request), request, reply }),
  })
}

async function resolveVisit (deps: PageDeps, request: FastifyRequest): Promise<Visit> {
  const { visitor } = request
  const { mode = '' } = request.params as { readonly mode?: string }
  if (visitor?.session.subject.kind !== 'customer' || !isMode(mode)) {
    throw new PageError('not_found')
  }
  const { orgId } = visitor.session.subject
  const organization = await deps.organizations.find(orgId)
  if (organization === undefined) throw new PageError('not_found')
  const tenant = { orgId, mode }
  return {
    tenant,
    organization,
    organizations: await readOrganizations(deps, visitor),
    visitor,
    zone: parseZone(request.cookies.zone),
    client: await deps.rest.of(tenant),
    section: sectionPath(request.routeOptions.url ?? ''),
    sections: request.server.sections,
    notice: (request.query as { readonly notice?: unknown }).notice,
    createNonce: deps.nonces.create,
  }
}

async function readOrganizations (
  { people, organizations }: PageDeps, { person }: Visitor
): Promise<readonly MemberOf[]> {
  if (person === undefined) return []
  const memberships = await people.membershipsOf({ ...person, email: '' })
  return await Promise.all(memberships.map(async ({ orgId, person: { role } }) =>
    ({ orgId, role, name: (await organizations.find(orgId))?.name ?? orgId })))
}

/** A text field of a form; '' when it was not sent. */
export function field (request: FastifyRequest, name: string): string {
  return choicesIn(request, name)[0] ?? ''
}

/** All values of a field of a form. */
export function choicesIn ({ body }: FastifyRequest, name: string): readonly string[] {
  return body instanceof URLSearchParams ? body.getAll(name) : []
}

/**
 * Does what a form asks for, unless it was sent before as it is: undefined then, and the access log
 * says so. A form that is refused has done nothing, so it may be sent again as it is.
 */
export async function doOnce<T> (
  { nonces }: PageDeps, request: FastifyRequest, action: () => Promise<T>
): Promise<T | undefined> {
  const nonce = field(request, 'nonce')
  const form = `${nonce} ${String(request.body)}`
  if (nonce === '' || !await nonces.use(form)) {
    describeAccess(request, { outcome: 'refused' })
    return undefined
  }
  try {
    return await action()
  } catch (error) {
    if (isRefusal(error)) await nonces.free(form)
    throw error
  }
}

/** Nothing was done; of other errors nobody knows. */
const isRefusal = (error: unknown) => error instanceof PageError
  ? error.content.status < 500
  : error instanceof ApiError && error.status < 500

const ENTRIES_PER_PAGE = 50

/** A page of a numbered log, newest first. */
export type LogPage<Entry> = {
  readonly entries: readonly Entry[]
  /** The number in `?before=` of the next page; undefined on the last page. */
  readonly older: number | undefined
}

type LogRange = { readonly limit: number, readonly before: number | undefined }

/** Reads the page of a log that `?before=` names. */
export async function readLogPage<Entry extends { readonly seq: number }> (
  { query }: FastifyRequest, read: (range: LogRange) => Promise<readonly Entry[]>
): Promise<LogPage<Entry>> {
  const { before } = query as { readonly before?: unknown }
  const entries = await read({
    // One more shows whether there is a next page.
    limit: ENTRIES_PER_PAGE + 1,
    before: /^\d{1,15}$/.test(String(before)) ? Number(before) : undefined,
  })
  const shown = cutPage(entries, ENTRIES_PER_PAGE)
  return {
    entries: shown, older: entries.length > shown.length ? shown.at(-1)?.seq : undefined,
  }
}

/** Sends a CSV file as a download. */
export function sendCsv (reply: FastifyReply, name: string, content: unknown): FastifyReply {
  return reply.type('text/csv; charset=utf-8')
    .header('content-disposition', `attachment; filename="${name}"`)
    .send(content)
}
