import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type AttemptBody, type EndpointBody, EVENT_TYPES } from '../../schemas/api/webhooks.ts'
import { describeAccess } from '../accounts/access-log/access-log.ts'
import { formatUsd, usdToMicros } from '../money/prices.ts'
import {
  choicesIn, customerRoutes, doOnce, type Exchange, field, type PageDeps, type Visit,
} from './context.ts'
import { count, html, type Html, money, time } from './html.ts'
import { attemptTable } from './job-components.ts'
import { secretView } from './settings.ts'
import {
  badge, customerPage, emptyState, findNotice, postForm, redirect, sendHtml, table,
} from './layout.ts'
import { PageError } from './page-error.ts'

const SHOWN_ATTEMPTS = 50
const HINT = 'Configure it at your receiver, which checks the signature of each event with it.'
const ENDPOINT_ID = /^we_[0-9a-z]{1,64}$/

/** The webhook endpoints of a mode: list, create, enable, rotate, delete; and the low balance. */
export function webhookRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  return [
    route('GET', '/:mode/webhooks', {
      access: 'webhooks.view', navigation: 'Webhooks',
    }, async ({ visit, reply }) =>
      sendHtml(reply, webhooksView(visit, await visit.client.webhookEndpoints()))),
    route('POST', '/:mode/webhooks', {
      access: 'secrets.change', records: 'webhook_endpoint.created',
    }, exchange => createEndpoint(deps, exchange)),
    route('GET', '/:mode/webhooks/:endpoint', { access: 'webhooks.view' }, sendEndpoint),
    route('POST', '/:mode/webhooks/:endpoint/enabled', {
      access: 'webhooks.change', records: 'webhook_endpoint.changed',
    }, async exchange => {
      const { visit, request } = exchange
      await visit.client.updateWebhookEndpoint(endpointId(request), {
        enabled: field(request, 'enabled') === 'true',
      })
      return redirect(exchange, 'webhooks', 'endpoint-saved')
    }),
    route('POST', '/:mode/webhooks/:endpoint/delete', {
      access: 'webhooks.change', records: 'webhook_endpoint.deleted',
    }, async exchange => {
      await exchange.visit.client.deleteWebhookEndpoint(endpointId(exchange.request))
      return redirect(exchange, 'webhooks', 'endpoint-deleted')
    }),
    route('POST', '/:mode/webhooks/:endpoint/secret', {
      access: 'secrets.change', records: 'webhook_endpoint.secret_rotated',
    }, exchange => rotateSecret(deps, exchange)),
    route('POST', '/:mode/webhooks/low-balance', {
      access: 'webhooks.change', records: 'policy.changed',
    }, async exchange => {
      const { visit, request } = exchange
      const text = field(request, 'usd').trim()
      await deps.organizations.setPolicy(visit.tenant.orgId, {
        lowBalanceMicros: text === '' ? 'default' : parseThreshold(text),
      })
      return redirect(exchange, 'webhooks', 'low-balance-saved')
    }),
  ]
}

function parseThreshold (text: string): number {
  try {
    return usdToMicros(text)
  } catch (error) {
    throw new PageError('bad_form', `${(error as Error).message} Go back and change it.`)
  }
}

/** The id in the path; throws PageError 404 for a text that is none. */
function endpointId ({ params }: FastifyRequest): string {
  const { endpoint = '' } = params as { readonly endpoint?: string }
  if (!ENDPOINT_ID.test(endpoint)) throw new PageError('not_found')
  return endpoint
}

async function createEndpoint (deps: PageDeps, exchange: Exchange): Promise<FastifyReply> {
  const { visit, request, reply } = exchange
  const chosen = choicesIn(request, 'event')
  const events = EVENT_TYPES.filter(type => chosen.includes(type))
  if (events.length === 0) {
    throw new PageError('bad_form', 'The endpoint has no events. Go back and choose at least one.')
  }
  const created = await doOnce(deps, request, () => visit.client.createWebhookEndpoint({
    url: field(request, 'url').trim(), events, description: field(request, 'description').trim(),
  }))
  if (created === undefined) return redirect(exchange, 'webhooks', 'endpoint-once')
  describeAccess(request, { target: created.id })
  return sendHtml(reply, secretView(visit, {
    title: 'The secret of your new endpoint', secret: created.secret, hint: HINT,
  }))
}

async function rotateSecret (deps: PageDeps, exchange: Exchange): Promise<FastifyReply> {
  const { visit, request, reply } = exchange
  const id = endpointId(request)
  const rotated = await doOnce(deps, request, () =>
    visit.client.rotateWebhookEndpointSecret(id))
  if (rotated === undefined) return redirect(exchange, 'webhooks', 'endpoint-once')
  return sendHtml(reply, secretView(visit, {
    title: 'The new secret of your endpoint',
    secret: rotated.secret,
    hint: `${HINT} For 24 hours events are also signed with the previous secret.`,
  }))
}

async function sendEndpoint ({ visit, request, reply }: Exchange): Promise<FastifyReply> {
  const id = endpointId(request)
  const endpoint = await visit.client.webhookEndpoint(id)
  const attempts: AttemptBody[] = []
  for await (const attempt of visit.client.endpointDeliveries(id)) {
    if (attempts.push(attempt) === SHOWN_ATTEMPTS) break
  }
  return sendHtml(reply, endpointView(visit, endpoint, attempts))
}

/** The endpoints of a mode, a form to create one, and the threshold of a low balance. */
function webhooksView (visit: Visit, endpoints: readonly EndpointBody[]): Html {
  const { mode } = visit.tenant
  return customerPage(visit, {
    title: 'Webhooks',
    body: html`
      <h1>Webhooks</h1>
      ${findNotice(visit)}
      <p class="hint">Endpoints receive the events of all jobs of ${mode} mode, beside the address
        that a job may have of its own.</p>
      ${endpoints.length === 0
        ? emptyState(`No endpoint of ${mode} mode yet. Create one below.`)
        : endpointTable(visit, endpoints)}
      ${createForm(visit)}
      ${mode === 'live' && lowBalanceForm(visit)}`,
  })
}

function endpointTable (visit: Visit, endpoints: readonly EndpointBody[]): Html {
  return table('Webhook endpoints', endpoints, [
    {
      text: 'Address',
      isHeader: true,
      cell: ({ id, url, description }) => html`
        <a href="/${visit.tenant.mode}/webhooks/${id}">${url}</a>
        ${description !== '' && html`<br><span class="hint">${description}</span>`}`,
    },
    { text: 'State', cell: stateBadge },
    {
      text: 'Events', cell: ({ events }) => events.includes('*') ? 'All' : events.join(', '),
    },
    { text: 'Created', cell: ({ createdAt }) => time(createdAt, visit.zone) },
  ])
}

function stateBadge ({ enabled }: EndpointBody): Html {
  return enabled ? badge('Enabled', 'good') : badge('Disabled', 'muted')
}

function createForm (visit: Visit): Html {
  return html`<section><h2>New endpoint</h2>
    ${postForm(visit, `/${visit.tenant.mode}/webhooks`, html`
      <label>Address <input type="url" name="url" required maxlength="2048"
        placeholder="https://"></label>
      <label>Note <input type="text" name="description" maxlength="500"></label>
      <fieldset><legend>Events</legend>${EVENT_TYPES.map(type => html`
        <label class="check"><input type="checkbox" name="event" value="${type}" checked>
          <code>${type}</code></label>`)}
      </fieldset>
      <button class="button" type="submit">Create the endpoint</button>`, {
      look: 'card', once: true,
    })}
  </section>`
}

function lowBalanceForm (visit: Visit): Html {
  const { lowBalanceMicros } = visit.organization.policy
  const value = lowBalanceMicros === undefined ? '' : formatUsd(lowBalanceMicros)
  return html`<section><h2>Low balance</h2>
    <p>${lowBalanceMicros === undefined
      ? 'No event reports a low balance.'
      : html`The event <code>balance.low</code> is sent when a job takes the available balance
        below ${money(lowBalanceMicros)}.`}</p>
    ${postForm(visit, '/live/webhooks/low-balance', html`
      <label>Threshold in USD <input type="text" name="usd" inputmode="decimal" value="${value}"
        aria-describedby="usd-hint"></label>
      <p class="hint" id="usd-hint">For example 25 or 12.50; empty for no event.</p>
      <button class="button" type="submit">Save</button>`, { look: 'card' })}
  </section>`
}

/** One endpoint: its settings, actions and latest deliveries. */
function endpointView (
  visit: Visit, endpoint: EndpointBody, attempts: readonly AttemptBody[]
): Html {
  const { id, url, enabled, events } = endpoint
  const base = `/${visit.tenant.mode}/webhooks`
  return customerPage(visit, {
    title: 'Webhook endpoint',
    body: html`
      <p class="back"><a href="${base}">Webhooks</a></p>
      <h1 class="long">${url}</h1>
      <p>${stateBadge(endpoint)} ${events.includes('*') ? 'All events' : events.join(', ')}</p>
      <div class="row">
        ${postForm(visit, `${base}/${id}/enabled`, html`
          <input type="hidden" name="enabled" value="${String(!enabled)}">
          <button class="button quiet" type="submit">${enabled ? 'Disable' : 'Enable'}</button>`)}
        ${postForm(visit, `${base}/${id}/secret`, html`
          <button class="button quiet" type="submit">Create a new secret</button>`, { once: true })}
        ${postForm(visit, `${base}/${id}/delete`, html`
          <button class="button quiet danger" type="submit">Delete</button>`)}
      </div>
      <section><h2>Deliveries</h2>
        <p class="hint">The latest ${count(SHOWN_ATTEMPTS)} attempts. A job has a button to send its
          event once more.</p>
        ${attempts.length === 0
          ? emptyState('Nothing was sent yet.')
          : attemptTable(visit, 'endpoint', attempts)}
      </section>`,
  })
}
