import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { describeAccess } from '../accounts/access-log/access-log.ts'
import { DEFAULT_SCOPES, type KeySummary, NewKeyError, SCOPES } from '../accounts/api-keys.ts'
import { MAX_FRESHNESS_DAYS } from '../accounts/organizations.ts'
import {
  choicesIn, customerRoutes, doOnce, type Exchange, field, may, type PageDeps, type Visit,
} from './context.ts'
import { html, type Html, time } from './html.ts'
import {
  badge, customerPage, emptyState, findNotice, postForm, redirect, select, sendHtml, table,
} from './layout.ts'
import { PageError } from './page-error.ts'
import { type Addresses, readAddresses } from './people.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const KEY_HINT = 'Send it as "Authorization: Bearer KEY". The service stores only its hash.'

/** The API keys of a mode: list, create, roll and revoke. */
export function keyRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  const confirm = (action: 'roll' | 'revoke') => async ({ visit, request, reply }: Exchange) => {
    const key = await findActiveKey(deps, visit, request)
    return sendHtml(reply, confirmKeyView(visit, key, action))
  }
  return [
    route('GET', '/:mode/keys', {
      access: 'keys.view', navigation: 'API keys',
    }, async ({ visit, reply }) => {
      const { orgId, mode } = visit.tenant
      const keys = (await deps.apiKeys.list(orgId)).filter(key => key.mode === mode)
      return sendHtml(reply, keysView(visit, keys, await readAddresses(deps.people, visit)))
    }),
    route('POST', '/:mode/keys', { access: 'keys.change', records: 'key.created' },
      exchange => createKey(deps, exchange)),
    route('GET', '/:mode/keys/:key/roll', { access: 'keys.change' }, confirm('roll')),
    route('GET', '/:mode/keys/:key/revoke', { access: 'keys.change' }, confirm('revoke')),
    route('POST', '/:mode/keys/:key/roll', { access: 'keys.change', records: 'key.rolled' },
      exchange => rollKey(deps, exchange)),
    route('POST', '/:mode/keys/:key/revoke', {
      access: 'keys.change', records: 'key.revoked',
    }, async exchange => {
      const { visit, request } = exchange
      const { id } = await findActiveKey(deps, visit, request)
      await deps.apiKeys.revoke(visit.tenant.orgId, id)
      return redirect(exchange, 'keys', 'key-revoked')
    }),
  ]
}

async function createKey (deps: PageDeps, exchange: Exchange): Promise<FastifyReply> {
  const { visit, request, reply } = exchange
  const { orgId, mode } = visit.tenant
  const chosen = choicesIn(request, 'scope')
  const scopes = SCOPES.filter(scope => chosen.includes(scope))
  if (scopes.length === 0) {
    throw new PageError('bad_form', 'The new key has no scope. Go back and choose at least one.')
  }
  const days = parseWholeNumber(field(request, 'days'))
  const created = await doOnce(deps, request, () => deps.apiKeys.create({
    orgId,
    mode,
    scopes,
    name: field(request, 'name'),
    networks: field(request, 'networks').split(/[\s,]+/).filter(network => network !== ''),
    createdBy: creatorName(visit),
    ...(days === 0 ? {} : { expiresAtMs: Date.now() + days * DAY_MS }),
  }).catch((error: unknown) => {
    if (!(error instanceof NewKeyError)) throw error
    throw new PageError('bad_form', `${error.message} Go back and change it.`)
  }))
  if (created === undefined) return redirect(exchange, 'keys', 'key-once')
  describeAccess(request, { target: created.id })
  return sendHtml(reply, secretView(visit, {
    title: `Your new ${mode} key`, secret: created.secret, hint: KEY_HINT,
  }))
}

/** Who makes a key. The record has no address, because its earlier versions stay. */
const creatorName = ({ visitor }: Visit) => visitor.person?.id ?? 'workspace page'

async function rollKey (deps: PageDeps, exchange: Exchange): Promise<FastifyReply> {
  const { visit, request, reply } = exchange
  const key = await findActiveKey(deps, visit, request)
  const hours = parseWholeNumber(field(request, 'hours'))
  const created = await doOnce(deps, request, async () => {
    const rolled = await deps.apiKeys.roll(visit.tenant.orgId, key.id, {
      graceMs: hours * HOUR_MS, createdBy: creatorName(visit),
    })
    if (rolled === undefined) throw new PageError('not_found')
    return rolled
  })
  if (created === undefined) return redirect(exchange, 'keys', 'key-once')
  describeAccess(request, { details: { newKey: created.id } })
  return sendHtml(reply, secretView(visit, {
    title: `The key that replaces …${key.last4}`, secret: created.secret, hint: KEY_HINT,
  }))
}

/**
 * The active key that the path names; throws PageError 404 when it does not exist in this tenant or
 * has ended.
 */
async function findActiveKey (
  deps: PageDeps, { tenant }: Visit, request: FastifyRequest
): Promise<KeySummary> {
  const { key: id } = request.params as { readonly key?: string }
  const key = (await deps.apiKeys.list(tenant.orgId)).find(key => key.id === id)
  if (key?.mode !== tenant.mode || keyState(key) !== 'active') {
    throw new PageError('not_found', 'The key does not exist, or it is revoked or expired. Go ' +
      'back to the keys.')
  }
  return key
}

/** A number of up to three digits in a form, 0 for ''; throws PageError 400 for other texts. */
function parseWholeNumber (text: string): number {
  if (!/^\d{0,3}$/.test(text)) throw new PageError('bad_form')
  return Number(text)
}

/** The keys of a mode, and a form to create one. */
function keysView (visit: Visit, keys: readonly KeySummary[], addresses: Addresses): Html {
  const { mode } = visit.tenant
  return customerPage(visit, {
    title: 'API keys',
    body: html`
      <h1>API keys</h1>
      ${findNotice(visit)}
      <p class="hint">Keys of ${mode} mode. A key is a secret: keep it on your servers, never in a
        browser or an app.</p>
      ${keys.length === 0
        ? emptyState(`No ${mode} key yet. Create one below and send jobs with it.`)
        : keyTable(visit, keys, addresses)}
      ${createKeyForm(visit)}`,
  })
}

type KeyState = 'active' | 'revoked' | 'expired'

/** Whether a key is valid, and if not, why. */
function keyState ({ revokedAtMs, expiresAtMs }: KeySummary): KeyState {
  if (revokedAtMs !== 0) return 'revoked'
  return expiresAtMs !== 0 && expiresAtMs <= Date.now() ? 'expired' : 'active'
}

const KEY_STATES: Readonly<Record<KeyState, readonly [text: string, tone: string]>> = {
  active: ['Active', 'good'], revoked: ['Revoked', 'muted'], expired: ['Expired', 'muted'],
}

function keyTable (visit: Visit, keys: readonly KeySummary[], addresses: Addresses): Html {
  const when = (ms: number, never: string) => ms === 0 ? never : time(ms, visit.zone)
  const withHint = (value: Html | string, hint: string) =>
    html`${value}${hint !== '' && html`<br><span class="hint">${hint}</span>`}`
  return table('API keys', keys.toReversed(), [
    { text: 'Name', cell: ({ name }) => name },
    { text: 'Ends in', isHeader: true, cell: ({ last4 }) => html`<code>…${last4}</code>` },
    { text: 'State', cell: key => badge(...KEY_STATES[keyState(key)]) },
    {
      text: 'Scopes',
      cell: ({ scopes, networks }) => withHint(
        scopes.join(', '), networks.length === 0 ? '' : `from ${networks.join(', ')}`),
    },
    {
      text: 'Created',
      cell: ({ createdAtMs, createdBy }) =>
        withHint(when(createdAtMs, '–'), addresses.get(createdBy) ?? createdBy),
    },
    {
      text: 'Last used',
      cell: ({ lastUsedAtMs, lastUsedFrom }) =>
        withHint(when(lastUsedAtMs, 'Never'), lastUsedFrom),
    },
    { text: 'Expires', cell: ({ expiresAtMs }) => when(expiresAtMs, 'Never') },
    {
      text: 'Actions',
      isUnseen: true,
      look: 'actions',
      cell: key => {
        const path = `/${visit.tenant.mode}/keys/${key.id}`
        return keyState(key) === 'active' && html`
          <a href="${path}/roll" aria-label="Roll the key that ends in ${key.last4}">Roll</a>
          <a class="danger" href="${path}/revoke"
            aria-label="Revoke the key that ends in ${key.last4}">Revoke</a>`
      },
    },
  ])
}

const SCOPE_TEXTS = {
  'jobs:write': 'Create, cancel and erase jobs; change webhook endpoints',
  'jobs:read': 'Read jobs, results and usage',
  'results:read': 'Read results only',
  'usage:read': 'Read usage and balance only',
  'webhooks:write': 'Change webhook endpoints only',
} as const

function createKeyForm (visit: Visit): Html {
  const { mode } = visit.tenant
  return html`<section><h2>New ${mode} key</h2>
    ${postForm(visit, `/${mode}/keys`, html`
      <label>Name <input name="name" maxlength="100" placeholder="What it is for"></label>
      <fieldset><legend>Scopes</legend>${SCOPES.map(scope => html`
        <label class="check"><input type="checkbox" name="scope" value="${scope}"${
          DEFAULT_SCOPES.some(name => name === scope) && html` checked`}>
          ${SCOPE_TEXTS[scope]} <code>${scope}</code></label>`)}
      </fieldset>
      <label>Only from these addresses
        <input name="networks" placeholder="192.0.2.0/24, 2001:db8::/32"></label>
      <label>Expires ${select('days', '', [
        ['', 'Never'], ['30', 'In 30 days'], ['90', 'In 90 days'], ['365', 'In a year'],
      ])}</label>
      <button class="button" type="submit">Create the key</button>`, { look: 'card', once: true })}
  </section>`
}

/** Shows a new secret. No other page contains it. */
export function secretView (
  visit: Visit,
  { title, secret, hint }: Readonly<Record<'title' | 'secret' | 'hint', string>>
): Html {
  return customerPage(visit, {
    title,
    scripts: ['copy.js'],
    body: html`
      <div class="narrow">
        <h1>${title}</h1>
        <p class="notice warn" role="status">Copy it now: it is not shown again.</p>
        <p class="secret"><code id="secret" tabindex="0" aria-label="Secret">${secret}</code>
          <button class="button" type="button" data-copy="secret">Copy</button></p>
        <p class="hint">${hint}</p>
        <p><a href="/${visit.tenant.mode}/${visit.section}">I have stored it</a></p>
      </div>`,
  })
}

/** Asks for a confirmation before a key is rolled or revoked. */
function confirmKeyView (visit: Visit, key: KeySummary, action: 'roll' | 'revoke'): Html {
  const base = `/${visit.tenant.mode}/keys`
  const isRoll = action === 'roll'
  const title = isRoll ? 'Roll this key?' : 'Revoke this key?'
  return customerPage(visit, {
    title,
    body: html`
      <div class="narrow">
        <h1>${title}</h1>
        <p>The key that ends in <code>…${key.last4}</code>. ${isRoll
          ? 'This creates a new key with the same scopes. The old key remains valid for the time ' +
            'you choose, so that nothing fails while you replace it.'
          : 'Requests with it are rejected within a second. This can’t be undone.'}</p>
        ${postForm(visit, `${base}/${key.id}/${action}`, html`
          ${isRoll && html`<label>The old key remains valid for ${select('hours', '24', [
            ['0', 'no time'], ['24', '24 hours'], ['168', '7 days'],
          ])}</label>`}
          <p class="row"><button class="button${!isRoll && ' bad'}" type="submit">${
            isRoll ? 'Roll the key' : 'Revoke the key'}</button>
            <a class="button quiet" href="${base}">Keep it as it is</a></p>`, { once: true })}
      </div>`,
  })
}

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
      const secret = await doOnce(deps, request, () =>
        deps.webhookSecrets.rotate(visit.tenant.orgId))
      if (secret === undefined) return redirect(exchange, 'settings', 'secret-once')
      return sendHtml(reply, secretView(visit, {
        title: 'Your new webhook secret',
        secret,
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
