import type { FastifyReply, RouteOptions } from 'fastify'
import { MAX_FRESHNESS_DAYS } from '../../../accounts/policy.ts'
import { field, forCustomer, type Exchange, type PageParts } from '../context.ts'
import { noticeIn } from '../notices.ts'
import { PageFault } from '../page-fault.ts'
import { madeView } from '../views/keys.ts'
import { settingsView } from '../views/settings.ts'
import { sendPage } from './sign-in.ts'

/** The settings of an organization. */
export function settingsRoutes (parts: PageParts): readonly RouteOptions[] {
  const route = (
    method: 'GET' | 'POST', url: string, handle: (exchange: Exchange) => Promise<FastifyReply>
  ): RouteOptions =>
    ({ method, url, config: { access: 'customer' }, handler: forCustomer(parts, handle) })
  return [
    route('GET', '/:mode/settings', async ({ visit, request, reply }) => {
      const secrets = await parts.webhookSecrets.active(visit.tenant.orgId)
      return sendPage(reply, settingsView(visit, {
        hasSecret: secrets.length > 0, mark: parts.once.mark(), notice: noticeIn(request),
      }))
    }),
    route('POST', '/:mode/settings/freshness', async ({ visit, request, reply }) => {
      const text = field(request, 'days')
      const days = /^\d{1,2}$/.test(text) ? Number(text) : NaN
      if (!(days <= MAX_FRESHNESS_DAYS)) {
        throw new PageFault('bad_form',
          `Freshness is a whole number of days from 0 to ${MAX_FRESHNESS_DAYS}. Go back and ` +
          'change it.')
      }
      await parts.organizations.setPolicy(visit.tenant.orgId, { freshnessDays: days })
      return reply.redirect(`/${visit.tenant.mode}/settings?notice=policy-saved`, 303)
    }),
    route('POST', '/:mode/settings/webhook-secret', async ({ visit, request, reply }) => {
      if (!await parts.once.use(field(request, 'once'))) {
        return reply.redirect(`/${visit.tenant.mode}/settings?notice=secret-once`, 303)
      }
      return sendPage(reply, madeView(visit, {
        title: 'Your new webhook secret',
        secret: await parts.webhookSecrets.rotate(visit.tenant.orgId),
        hint: 'Give it to your receivers within 24 hours; until then events carry signatures of ' +
          'the secret before, too.',
        section: 'settings',
      }))
    }),
  ]
}
