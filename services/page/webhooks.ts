import type { FastifyReply, RouteOptions } from 'fastify'
import type { AttemptBody } from '../../schemas/api/deliveries.ts'
import { EVENT_TYPES } from '../../schemas/api/event.ts'
import type { EndpointBody } from '../../schemas/api/webhook-endpoints.ts'
import { describeAccess } from '../accounts/access-log/requests.ts'
import { usdOf, usdToMicros } from '../money/usd.ts'
import { customerRoutes, type Exchange, field, type PageDeps, type Visit } from './context.ts'
import { count, html, type Html, money, time } from './html.ts'
import { outcomeBadge } from './job-components.ts'
import { secretView } from './keys.ts'
import { customerPage, emptyState, noticeOf, sendHtml, table, tokenField } from './layout.ts'
import { PageError } from './page-error.ts'

const SHOWN_ATTEMPTS = 50
const HINT = 'Configure it at your receiver, which checks the signature of each event with it.'
const ENDPOINT_ID = /^we_[0-9a-z]{1,64}$/

/** The webhook endpoints of a mode: list, create, enable, rotate, delete; and the low balance. */
export function webhookRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  const change = (action: (exchange: Exchange, id: string) => Promise<unknown>, notice: string) =>
    async (exchange: Exchange) => {
      await action(exchange, endpointId(exchange))
      return exchange.reply.redirect(
        `/${exchange.visit.tenant.mode}/webhooks?notice=${notice}`, 303)
    }
  return [
    route('GET', '/:mode/webhooks', {
      access: 'webhooks.view',
    }, async ({ visit, request, reply }) => {
      const endpoints = await visit.client.webhookEndpoints()
      const shown = { endpoints, nonce: deps.nonces.create(), notice: noticeOf(request) }
      return sendHtml(reply, webhooksView(visit, shown))
    }),
    route('POST', '/:mode/webhooks', {
      access: 'secrets.change', records: 'webhook_endpoint.created',
    }, exchange => createEndpoint(deps, exchange)),
    route('GET', '/:mode/webhooks/:endpoint', { access: 'webhooks.view' },
      exchange => sendEndpoint(deps, exchange)),
    route('POST', '/:mode/webhooks/:endpoint/enabled', {
      access: 'webhooks.change', records: 'webhook_endpoint.changed',
    }, change(({ visit, request }, id) =>
      visit.client.updateWebhookEndpoint(id, { enabled: field(request, 'enabled') === 'true' }),
    'endpoint-saved')),
    route('POST', '/:mode/webhooks/:endpoint/delete', {
      access: 'webhooks.change', records: 'webhook_endpoint.deleted',
    }, change(({ visit }, id) =>
      visit.client.deleteWebhookEndpoint(id), 'endpoint-deleted')),
    route('POST', '/:mode/webhooks/:endpoint/secret', {
      access: 'secrets.change', records: 'webhook_endpoint.secret_rotated',
    }, exchange => rotateSecret(deps, exchange)),
    route('POST', '/:mode/webhooks/low-balance', {
      access: 'webhooks.change', records: 'policy.changed',
    }, async ({ visit, request, reply }) => {
      const text = field(request, 'usd').trim()
      await deps.organizations.setPolicy(visit.tenant.orgId, {
        lowBalanceMicros: text === '' ? 'default' : thresholdOf(text),
      })
      return reply.redirect(`/${visit.tenant.mode}/webhooks?notice=low-balance-saved`, 303)
    }),
  ]
}

function thresholdOf (text: string): number {
  try {
    return usdToMicros(text)
  } catch (error) {
    throw new PageError('bad_form', `${(error as Error).message} Go back and change it.`)
  }
}

/** The id in the path; throws PageError 404 for a text that is none. */
function endpointId ({ request }: Exchange): string {
  const { endpoint = '' } = request.params as { readonly endpoint?: string }
  if (!ENDPOINT_ID.test(endpoint)) throw new PageError('not_found')
  return endpoint
}

async function createEndpoint (
  deps: PageDeps, { visit, request, reply }: Exchange
): Promise<FastifyReply> {
  const chosen = request.body instanceof URLSearchParams ? request.body.getAll('event') : []
  const events = EVENT_TYPES.filter(type => chosen.includes(type))
  if (events.length === 0) {
    throw new PageError('bad_form', 'The endpoint has no events. Go back and choose at least one.')
  }
  if (!await deps.nonces.use(field(request, 'nonce'))) {
    describeAccess(request, { outcome: 'refused' })
    return reply.redirect(`/${visit.tenant.mode}/webhooks?notice=endpoint-once`, 303)
  }
  const { id, secret } = await visit.client.createWebhookEndpoint({
    url: field(request, 'url').trim(), events, description: field(request, 'description').trim(),
  })
  describeAccess(request, { target: id })
  return sendHtml(reply, secretView(visit, {
    title: 'The secret of your new endpoint', secret, hint: HINT, section: 'webhooks',
  }))
}

async function rotateSecret (
  deps: PageDeps, exchange: Exchange
): Promise<FastifyReply> {
  const { visit, request, reply } = exchange
  const id = endpointId(exchange)
  if (!await deps.nonces.use(field(request, 'nonce'))) {
    describeAccess(request, { outcome: 'refused' })
    return reply.redirect(`/${visit.tenant.mode}/webhooks?notice=endpoint-once`, 303)
  }
  const { secret } = await visit.client.rotateWebhookEndpointSecret(id)
  const hint = `${HINT} For 24 hours events are also signed with the previous secret.`
  return sendHtml(reply, secretView(visit, {
    title: 'The new secret of your endpoint', secret, hint, section: 'webhooks',
  }))
}

async function sendEndpoint (deps: PageDeps, exchange: Exchange): Promise<FastifyReply> {
  const { visit, reply } = exchange
  const id = endpointId(exchange)
  const endpoint = await visit.client.webhookEndpoint(id)
  const attempts: AttemptBody[] = []
  for await (const attempt of visit.client.endpointDeliveries(id)) {
    if (attempts.push(attempt) === SHOWN_ATTEMPTS) break
  }
  return sendHtml(reply, endpointView(visit, {
    endpoint, attempts, nonce: deps.nonces.create(),
  }))
}

type EndpointList = {
  readonly endpoints: readonly EndpointBody[]
  /** Makes the form create at most one endpoint. */
  readonly nonce: string
  readonly notice: Html | undefined
}

/** The endpoints of a mode, a form to create one, and the threshold of a low balance. */
export function webhooksView (visit: Visit, { endpoints, nonce, notice }: EndpointList): Html {
  const { mode } = visit.tenant
  return customerPage(visit, 'webhooks', {
    title: 'Webhooks',
    body: html`
      <h1>Webhooks</h1>
      ${notice}
      <p class="hint">Endpoints receive the events of all jobs of ${mode} mode, beside the address
        that a job may have of its own.</p>
      ${endpoints.length === 0
        ? emptyState(`No endpoint of ${mode} mode yet. Create one below.`)
        : endpointTable(visit, endpoints)}
      ${createForm(visit, nonce)}
      ${mode === 'live' && lowBalanceForm(visit)}`,
  })
}

function endpointTable (visit: Visit, endpoints: readonly EndpointBody[]): Html {
  return table('Webhook endpoints', [
    { text: 'Address' }, { text: 'State' }, { text: 'Events' }, { text: 'Created' },
  ], endpoints.map(({ id, url, enabled, events, createdAt, description }) => html`<tr>
      <th scope="row"><a href="/${visit.tenant.mode}/webhooks/${id}">${url}</a>
        ${description !== '' && html`<br><span class="hint">${description}</span>`}</th>
      <td>${stateBadge(enabled)}</td>
      <td>${events.includes('*') ? 'All' : events.join(', ')}</td>
      <td>${time(createdAt, visit.zone)}</td>
    </tr>`))
}

function stateBadge (enabled: boolean): Html {
  return html`<span class="badge ${enabled ? 'good' : 'muted'}">${
    enabled ? 'Enabled' : 'Disabled'}</span>`
}

function createForm (visit: Visit, nonce: string): Html {
  return html`<section><h2>New endpoint</h2>
    <form class="card" method="post" action="/${visit.tenant.mode}/webhooks">
      ${tokenField(visit.visitor.session)}<input type="hidden" name="nonce" value="${nonce}">
      <label>Address <input type="url" name="url" required maxlength="2048"
        placeholder="https://"></label>
      <label>Note <input type="text" name="description" maxlength="500"></label>
      <fieldset><legend>Events</legend>${EVENT_TYPES.map(type => html`
        <label class="check"><input type="checkbox" name="event" value="${type}" checked>
          <code>${type}</code></label>`)}
      </fieldset>
      <button class="button" type="submit">Create the endpoint</button>
    </form>
  </section>`
}

function lowBalanceForm (visit: Visit): Html {
  const { lowBalanceMicros } = visit.organization.policy
  const value = lowBalanceMicros === undefined ? '' : usdOf(lowBalanceMicros)
  return html`<section><h2>Low balance</h2>
    <p>${lowBalanceMicros === undefined
      ? 'No event reports a low balance.'
      : html`The event <code>balance.low</code> is sent when a job takes the available balance
        below ${money(lowBalanceMicros)}.`}</p>
    <form class="card" method="post" action="/live/webhooks/low-balance">
      ${tokenField(visit.visitor.session)}
      <label>Threshold in USD <input type="text" name="usd" inputmode="decimal" value="${value}"
        aria-describedby="usd-hint"></label>
      <p class="hint" id="usd-hint">For example 25 or 12.50; empty for no event.</p>
      <button class="button" type="submit">Save</button>
    </form>
  </section>`
}

type EndpointDetails = {
  readonly endpoint: EndpointBody
  readonly attempts: readonly AttemptBody[]
  /** Makes the form create at most one secret. */
  readonly nonce: string
}

/** One endpoint: its settings, actions and latest deliveries. */
function endpointView (
  visit: Visit, { endpoint, attempts, nonce }: EndpointDetails
): Html {
  const { mode } = visit.tenant
  const { id, url, enabled, events } = endpoint
  const base = `/${mode}/webhooks/${id}`
  const token = tokenField(visit.visitor.session)
  return customerPage(visit, 'webhooks', {
    title: 'Webhook endpoint',
    body: html`
      <p class="back"><a href="/${mode}/webhooks">Webhooks</a></p>
      <h1 class="long">${url}</h1>
      <p>${stateBadge(enabled)} ${events.includes('*') ? 'All events' : events.join(', ')}</p>
      <div class="row">
        <form method="post" action="${base}/enabled">${token}
          <input type="hidden" name="enabled" value="${String(!enabled)}">
          <button class="button quiet" type="submit">${enabled ? 'Disable' : 'Enable'}</button>
        </form>
        <form method="post" action="${base}/secret">${token}
          <input type="hidden" name="nonce" value="${nonce}">
          <button class="button quiet" type="submit">Create a new secret</button>
        </form>
        <form method="post" action="${base}/delete">${token}
          <button class="button quiet danger" type="submit">Delete</button>
        </form>
      </div>
      <section><h2>Deliveries</h2>
        <p class="hint">The latest ${count(SHOWN_ATTEMPTS)} attempts. A job has a button to send its
          event once more.</p>
        ${attempts.length === 0
          ? emptyState('Nothing was sent yet.')
          : attemptTable(visit, attempts)}
      </section>`,
  })
}

function attemptTable ({ tenant, zone }: Visit, attempts: readonly AttemptBody[]): Html {
  return table('Deliveries', [
    { text: 'Event' }, { text: 'Job' }, { text: 'When' }, { text: 'Outcome' },
    { text: 'Answer', isNumber: true }, { text: 'Why' },
  ], attempts.map(attempt => html`<tr>
      <td><code>${attempt.type}</code></td>
      <td><a href="/${tenant.mode}/jobs/${attempt.jobId}">${attempt.jobId}</a></td>
      <td>${time(attempt.attemptedAt, zone)}</td>
      <td>${outcomeBadge(attempt.outcome)}</td>
      <td class="number">${attempt.statusCode ?? '–'}</td>
      <td>${attempt.reason ?? '–'}</td>
    </tr>`))
}
