import type { RouteOptions } from 'fastify'
import { MAX_FRESHNESS_DAYS } from '../accounts/organizations.ts'
import {
  customerRoutes, field, isRepeated, may, type PageDeps, type Visit,
} from './context.ts'
import { html, type Html } from './html.ts'
import { secretView } from './keys.ts'
import { customerPage, findNotice, postForm, redirect, sendHtml } from './layout.ts'
import { PageError } from './page-error.ts'

/** The settings of an organization, which both modes share. */
export function settingsRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  return [
    route('GET', '/:mode/settings', {
      access: 'settings.view', navigation: 'Settings',
    }, async ({ visit, reply }) => {
      const secrets = await deps.webhookSecrets.active(visit.tenant.orgId)
      return sendHtml(reply, settingsView(visit, secrets.length > 0))
    }),
    route('POST', '/:mode/settings/freshness', {
      access: 'settings.change', records: 'policy.changed',
    }, async exchange => {
      const { visit, request } = exchange
      const text = field(request, 'days')
      const days = /^\d{1,2}$/.test(text) ? Number(text) : NaN
      if (!(days <= MAX_FRESHNESS_DAYS)) {
        throw new PageError('bad_form',
          `The freshness must be a whole number of days from 0 to ${MAX_FRESHNESS_DAYS}. Go back ` +
          'and change it.')
      }
      await deps.organizations.setPolicy(visit.tenant.orgId, { freshnessDays: days })
      return redirect(exchange, 'settings', 'policy-saved')
    }),
    route('POST', '/:mode/settings/webhook-secret', {
      access: 'secrets.change', records: 'webhook_secret.rotated',
    }, async exchange => {
      const { visit, request, reply } = exchange
      if (await isRepeated(deps, request)) return redirect(exchange, 'settings', 'secret-once')
      return sendHtml(reply, secretView(visit, {
        title: 'Your new webhook secret',
        secret: await deps.webhookSecrets.rotate(visit.tenant.orgId),
        hint: 'Configure it at your receivers within 24 hours; until then events are also signed ' +
          'with the previous secret, if there was one.',
      }))
    }),
  ]
}

/** The freshness policy and the webhook secret. */
function settingsView (visit: Visit, hasSecret: boolean): Html {
  const base = `/${visit.tenant.mode}/settings`
  const { freshnessDays } = visit.organization.policy
  return customerPage(visit, {
    title: 'Settings',
    body: html`
      <h1>Settings</h1>
      ${findNotice(visit)}
      <p class="hint">They apply to live and test mode.</p>
      ${may(visit.visitor, 'settings.change') && html`<section><h2>Freshness</h2>
        <p>A contact that was verified within this number of days is answered from your cache, free
          of charge. With 0 every contact is checked live.</p>
        ${postForm(visit, `${base}/freshness`, html`
          <label>Days a record counts as fresh
            <input type="number" name="days" min="0" max="${MAX_FRESHNESS_DAYS}" step="1" required
              value="${freshnessDays}" aria-describedby="days-hint"></label>
          <p class="hint" id="days-hint">A whole number from 0 to ${MAX_FRESHNESS_DAYS}.</p>
          <button class="button" type="submit">Save</button>`, { look: 'card' })}
      </section>`}
      <section><h2>Webhook secret</h2>
        <p>It signs events, and receivers check the signature. ${hasSecret
          ? 'You have one. A new secret replaces it at once, and for 24 hours events are signed ' +
            'with both.'
          : 'You have none yet.'}</p>
        ${postForm(visit, `${base}/webhook-secret`, html`
          <button class="button" type="submit">${hasSecret
            ? 'Create a new secret'
            : 'Create the first secret'}</button>`, { look: 'card', once: true })}
      </section>`,
  })
}
