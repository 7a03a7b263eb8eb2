import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { SCOPES, type KeySummary } from '../../../accounts/api-keys.ts'
import { field, forCustomer, type Exchange, type PageParts, type Visit } from '../context.ts'
import { noticeIn } from '../notices.ts'
import { PageFault } from '../page-fault.ts'
import { askView, keysView, keyState, madeView } from '../views/keys.ts'
import { sendPage } from './sign-in.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const HINT = 'Send it as "Authorization: Bearer KEY". The page and its server keep only a hash.'

/** Keys: the list, a new one, roll and revoke. */
export function keyRoutes (parts: PageParts): readonly RouteOptions[] {
  const route = (
    method: 'GET' | 'POST', url: string, handle: (exchange: Exchange) => Promise<FastifyReply>
  ): RouteOptions =>
    ({ method, url, config: { access: 'customer' }, handler: forCustomer(parts, handle) })
  const ask = (doing: 'roll' | 'revoke') => async ({ visit, request, reply }: Exchange) => {
    const key = await activeKey(parts, visit, request)
    return sendPage(reply, askView(visit, { key, doing, mark: parts.once.mark() }))
  }
  return [
    route('GET', '/:mode/keys', async ({ visit, request, reply }) => {
      const { orgId, mode } = visit.tenant
      const keys = (await parts.apiKeys.list(orgId)).filter(key => key.mode === mode)
      return sendPage(reply, keysView(visit, {
        keys, mark: parts.once.mark(), nowMs: Date.now(), notice: noticeIn(request),
      }))
    }),
    route('POST', '/:mode/keys', exchange => createKey(parts, exchange)),
    route('GET', '/:mode/keys/:key/roll', ask('roll')),
    route('GET', '/:mode/keys/:key/revoke', ask('revoke')),
    route('POST', '/:mode/keys/:key/roll', exchange => rollKey(parts, exchange)),
    route('POST', '/:mode/keys/:key/revoke', async ({ visit, request, reply }) => {
      const { orgId, mode } = visit.tenant
      const key = await activeKey(parts, visit, request)
      await parts.apiKeys.revoke(orgId, key.id)
      return reply.redirect(`/${mode}/keys?notice=key-revoked`, 303)
    }),
  ]
}

async function createKey (
  parts: PageParts, { visit, request, reply }: Exchange
): Promise<FastifyReply> {
  const { orgId, mode } = visit.tenant
  const chosen = request.body instanceof URLSearchParams ? request.body.getAll('scope') : []
  const scopes = SCOPES.filter(scope => chosen.includes(scope))
  if (scopes.length === 0) {
    throw new PageFault('bad_form', 'A key that may do nothing is of no use. Go back and choose ' +
      'what it may do.')
  }
  const days = daysOf(field(request, 'days'))
  if (!await parts.once.use(field(request, 'once'))) {
    return reply.redirect(`/${mode}/keys?notice=key-once`, 303)
  }
  const { secret } = await parts.apiKeys.create({
    orgId, mode, scopes, ...(days === 0 ? {} : { expiresAtMs: Date.now() + days * DAY_MS }),
  })
  return sendPage(reply, madeView(visit, {
    title: `Your new ${mode} key`, secret, hint: HINT, section: 'keys',
  }))
}

async function rollKey (
  parts: PageParts, { visit, request, reply }: Exchange
): Promise<FastifyReply> {
  const { orgId, mode } = visit.tenant
  const key = await activeKey(parts, visit, request)
  const hours = daysOf(field(request, 'hours'))
  if (!await parts.once.use(field(request, 'once'))) {
    return reply.redirect(`/${mode}/keys?notice=key-once`, 303)
  }
  const fresh = await parts.apiKeys.roll(orgId, key.id, hours * HOUR_MS)
  if (fresh === undefined) throw new PageFault('not_found')
  return sendPage(reply, madeView(visit, {
    title: `The key that replaces …${key.last4}`,
    secret: fresh.secret,
    hint: HINT,
    section: 'keys',
  }))
}

/** The key of the path, of this organization and mode; throws PageFault 404 unless it works. */
async function activeKey (
  parts: PageParts, { tenant }: Visit, request: FastifyRequest
): Promise<KeySummary> {
  const { key: id } = request.params as { readonly key?: string }
  const key = (await parts.apiKeys.list(tenant.orgId)).find(one => one.id === id)
  if (key?.mode !== tenant.mode || keyState(key, Date.now()) !== 'active') {
    throw new PageFault('not_found', 'There is no such key, or it has ended. Go back to the keys.')
  }
  return key
}

/** A small whole number of a form; '' is 0, and anything else a fault. */
function daysOf (text: string): number {
  if (!/^\d{0,3}$/.test(text)) throw new PageFault('bad_form')
  return Number(text)
}
