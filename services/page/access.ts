import type { FastifyInstance } from 'fastify'
import type { AccessLog } from '../accounts/access-log/access-log.ts'
import { type AccessActor, INSTALLATION } from '../accounts/access-log/entry.ts'
import { recordRequests, type Requester } from '../accounts/access-log/requests.ts'
import type { Visitor } from './context.ts'
import { PageError } from './page-error.ts'
import { type SignedIn, secretDigest } from '../accounts/sessions.ts'

/** Records the requests of signed-in browsers in the access log, as their routes say. */
export function recordPageRequests (app: FastifyInstance, log: AccessLog): void {
  recordRequests(app, {
    log,
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
