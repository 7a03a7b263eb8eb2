import { MAX_FRESHNESS_DAYS } from '../../../accounts/policy.ts'
import type { Visit } from '../context.ts'
import { html, type Html } from '../html.ts'
import { customerPage, tokenField } from '../layout.ts'

type Shown = {
  readonly hasSecret: boolean
  readonly mark: string
  readonly notice: Html | undefined
}

/** The freshness policy and the webhook secret, which both modes share. */
export function settingsView (visit: Visit, { hasSecret, mark, notice }: Shown): Html {
  const { mode } = visit.tenant
  const { freshnessDays } = visit.organization.policy
  const token = tokenField(visit.visitor.session)
  return customerPage(visit, 'settings', {
    title: 'Settings',
    body: html`
      <h1>Settings</h1>
      ${notice}
      <p class="hint">They count for live and test mode alike.</p>
      <section><h2>Freshness</h2>
        <p>A contact that was verified within so many days is answered from your cache, free of
          charge. With 0 every contact is checked live.</p>
        <form class="card" method="post" action="/${mode}/settings/freshness">${token}
          <label>Days a record counts as fresh
            <input type="number" name="days" min="0" max="${MAX_FRESHNESS_DAYS}" step="1" required
              value="${freshnessDays}" aria-describedby="days-hint"></label>
          <p class="hint" id="days-hint">A whole number from 0 to ${MAX_FRESHNESS_DAYS}.</p>
          <button class="button" type="submit">Save</button>
        </form>
      </section>
      <section><h2>Webhook secret</h2>
        <p>Events are signed with it; receivers check the signature. ${hasSecret
          ? 'You have one. A new one takes over at once, and for 24 hours events carry ' +
            'signatures of both.'
          : 'You have none yet.'}</p>
        <form class="card" method="post" action="/${mode}/settings/webhook-secret">${token}
          <input type="hidden" name="once" value="${mark}">
          <button class="button" type="submit">${hasSecret
            ? 'Make a new secret'
            : 'Make the first secret'}</button>
        </form>
      </section>`,
  })
}
