import type { FastifyInstance } from 'fastify'
import type { AccessLog } from '../accounts/access-log/access-log.ts'
import { type AccessActor, INSTALLATION } from '../accounts/access-log/entry.ts'
import {
  recordRequests, type Requester, type RouteActions,
} from '../accounts/access-log/requests.ts'
import type { Visitor } from './context.ts'
import { PageError } from './page-error.ts'
import { type SignedIn, secretDigest } from '../accounts/sessions.ts'

/** What requests are recorded as. A new route that changes or downloads something needs a line. */
export const PAGE_ACTIONS: RouteActions = {
  // Recorded once the code of the link is known.
  'POST /sign-in': null,
  'POST /sign-out': 'session.ended',
  // As for the REST interface, a job is in the journal.
  'POST /:mode/upload/quote': null,
  'POST /:mode/upload/job': null,
  'GET /:mode/jobs/:id/results.csv': 'results.downloaded',
  'GET /:mode/jobs/:id/valid.csv': 'results.downloaded',
  'POST /:mode/jobs/:id/cancel': 'job.cancelled',
  'POST /:mode/jobs/:id/erase': 'job.erased',
  'POST /:mode/jobs/:id/deliveries/:delivery/resend': 'delivery.resent',
  'GET /:mode/usage.csv': 'usage.downloaded',
  'POST /:mode/keys': 'key.created',
  'POST /:mode/keys/:key/roll': 'key.rolled',
  'POST /:mode/keys/:key/revoke': 'key.revoked',
  'POST /:mode/settings/freshness': 'policy.changed',
  'POST /:mode/settings/webhook-secret': 'webhook_secret.rotated',
  'POST /:mode/webhooks': 'webhook_endpoint.created',
  'POST /:mode/webhooks/:endpoint/enabled': 'webhook_endpoint.changed',
  'POST /:mode/webhooks/:endpoint/delete': 'webhook_endpoint.deleted',
  'POST /:mode/webhooks/:endpoint/secret': 'webhook_endpoint.secret_rotated',
  'POST /:mode/webhooks/low-balance': 'policy.changed',
  'POST /:mode/people': 'person.added',
  'POST /:mode/people/:person/role': 'person.changed',
  'POST /:mode/people/:person/sign-out': 'person.signed_out',
  'POST /:mode/people/:person/remove': 'person.removed',
  // The session of the other organization is recorded as it starts.
  'POST /:mode/account/organization': null,
  'POST /:mode/account/sign-out-everywhere': 'person.signed_out',
  'GET /:mode/access-log.csv': 'access_log.exported',
}

/** Records the requests of signed-in browsers in the access log. */
export function recordPageRequests (app: FastifyInstance, log: AccessLog): void {
  recordRequests(app, {
    log,
    actions: PAGE_ACTIONS,
    isRefusal: error => error instanceof PageError && error.content.status === 403,
    requesterOf: ({ visitor, params, body }) => {
      if (visitor === undefined) return undefined
      const { mode } = (params ?? {}) as { readonly mode?: string }
      const details = { ...mode !== undefined && { mode }, ...detailsIn(body) }
      return { ...requesterOf(visitor), details }
    },
  })
}

/** Fields of forms that an entry repeats: no names, and no addresses of people and webhooks. */
const FIELDS = [
  'scope', 'networks', 'days', 'hours', 'role', 'enabled', 'event', 'usd', 'cache',
]

function detailsIn (form: unknown): Readonly<Record<string, string>> {
  if (!(form instanceof URLSearchParams)) return {}
  return Object.fromEntries(FIELDS.filter(name => form.has(name)).map(name =>
    [name, form.getAll(name).join(',')]))
}

/** Who is signed in, for the access log. */
export function requesterOf (
  { id, session: { subject } }: Pick<Visitor, 'id' | 'session'>
): Requester {
  return { organization: organizationOf(subject), actor: actorOf(id, subject) }
}

function organizationOf (subject: SignedIn): string {
  return subject.kind === 'customer' ? subject.orgId : INSTALLATION
}

const SHOWN_DIGITS = 16

/** A link names no person; the beginning of the digest of its session names the browser. */
function actorOf (sessionId: string, subject: SignedIn): AccessActor {
  const person = subject.kind === 'customer' ? subject.person : undefined
  if (person !== undefined) return { kind: 'person', id: person.id }
  return { kind: 'link', id: secretDigest(sessionId).slice(0, SHOWN_DIGITS) }
}
