import type { KeySummary } from '../../../accounts/api-keys.ts'
import type { Visit } from '../context.ts'
import { time } from '../format.ts'
import { html, type Html } from '../html.ts'
import { customerPage, tokenField } from '../layout.ts'
import { emptyState, table } from './parts.ts'

type Shown = {
  readonly keys: readonly KeySummary[]
  /** Lets a form make one key, once. */
  readonly mark: string
  readonly nowMs: number
  readonly notice: Html | undefined
}

/** The keys of a mode, and a form for a new one. */
export function keysView (visit: Visit, { keys, mark, nowMs, notice }: Shown): Html {
  const { mode } = visit.tenant
  return customerPage(visit, 'keys', {
    title: 'API keys',
    body: html`
      <h1>API keys</h1>
      ${notice}
      <p class="hint">Keys of ${mode} mode. A key is a secret: keep it on your servers, never in a
        browser or an app.</p>
      ${keys.length === 0
        ? emptyState(`No ${mode} key yet. Make one below and send jobs with it.`)
        : keyTable(visit, keys, nowMs)}
      ${createForm(visit, mark)}`,
  })
}

/** Whether a key works, and if not why. */
export function keyState (
  { revokedAtMs, expiresAtMs }: Pick<KeySummary, 'revokedAtMs' | 'expiresAtMs'>, nowMs: number
): 'active' | 'revoked' | 'expired' {
  if (revokedAtMs !== 0) return 'revoked'
  return expiresAtMs !== 0 && expiresAtMs <= nowMs ? 'expired' : 'active'
}

const TONES = {
  active: ['Active', 'good'], revoked: ['Revoked', 'muted'], expired: ['Expired', 'muted'],
} as const

function keyTable (visit: Visit, keys: readonly KeySummary[], nowMs: number): Html {
  const when = (ms: number, never: string) => ms === 0 ? never : time(ms, visit.zone)
  return table('API keys', [
    { text: 'Ends in' }, { text: 'State' }, { text: 'Scopes' }, { text: 'Created' },
    { text: 'Last used' }, { text: 'Expires' }, { text: 'Actions', isUnseen: true },
  ], keys.toReversed().map(key => {
    const state = keyState(key, nowMs)
    const [text, tone] = TONES[state]
    const path = `/${visit.tenant.mode}/keys/${key.id}`
    return html`<tr>
      <th scope="row"><code>…${key.last4}</code></th>
      <td><span class="badge ${tone}">${text}</span></td>
      <td>${key.scopes.join(', ')}</td>
      <td>${when(key.createdAtMs, '–')}</td>
      <td>${when(key.lastUsedAtMs, 'Never')}</td>
      <td>${when(key.expiresAtMs, 'Never')}</td>
      <td class="actions">${state === 'active' && html`
        <a href="${path}/roll" aria-label="Roll the key that ends in ${key.last4}">Roll</a>
        <a class="danger" href="${path}/revoke"
          aria-label="Revoke the key that ends in ${key.last4}">Revoke</a>`}</td>
    </tr>`
  }))
}

function createForm (visit: Visit, mark: string): Html {
  const { mode } = visit.tenant
  return html`<section><h2>New ${mode} key</h2>
    <form class="card" method="post" action="/${mode}/keys">
      ${tokenField(visit.visitor.session)}<input type="hidden" name="once" value="${mark}">
      <fieldset><legend>What it may do</legend>
        <label class="check"><input type="checkbox" name="scope" value="jobs:write" checked>
          Create jobs <code>jobs:write</code></label>
        <label class="check"><input type="checkbox" name="scope" value="jobs:read" checked>
          Read jobs and results <code>jobs:read</code></label>
      </fieldset>
      <label>Expires <select name="days">
        <option value="">Never</option>
        <option value="30">In 30 days</option>
        <option value="90">In 90 days</option>
        <option value="365">In a year</option>
      </select></label>
      <button class="button" type="submit">Create the key</button>
    </form>
  </section>`
}

/** The one page that a new secret is shown on. */
export function madeView (
  visit: Visit, made: {
    readonly title: string,
    readonly secret: string,
    readonly hint: string,
    readonly section: 'keys' | 'settings'
  }
): Html {
  const { title, secret, hint, section } = made
  return customerPage(visit, section, {
    title,
    scripts: ['copy.js'],
    body: html`
      <div class="narrow">
        <h1>${title}</h1>
        <p class="notice warn" role="status">Copy it now: it is not shown again.</p>
        <p class="secret"><code id="secret" tabindex="0" aria-label="Secret">${secret}</code>
          <button class="button" type="button" data-copy="secret">Copy</button></p>
        <p class="hint">${hint}</p>
        <p><a href="/${visit.tenant.mode}/${section}">I have kept it</a></p>
      </div>`,
  })
}

type Question = {
  readonly key: KeySummary
  readonly doing: 'roll' | 'revoke'
  readonly mark: string
}

/** Asks before a key is rolled or revoked. */
export function askView (visit: Visit, { key, doing, mark }: Question): Html {
  const base = `/${visit.tenant.mode}/keys`
  const isRoll = doing === 'roll'
  const title = isRoll ? 'Roll this key?' : 'Revoke this key?'
  return customerPage(visit, 'keys', {
    title,
    body: html`
      <div class="narrow">
        <h1>${title}</h1>
        <p>The key that ends in <code>…${key.last4}</code>. ${isRoll
          ? 'A new key with the same scopes is made. The old one goes on working for the time ' +
            'you choose, so that nothing fails while you change it.'
          : 'Whatever uses it is refused within a second. This can’t be undone.'}</p>
        <form method="post" action="${base}/${key.id}/${doing}">
          ${tokenField(visit.visitor.session)}<input type="hidden" name="once" value="${mark}">
          ${isRoll && html`<label>The old key works for <select name="hours">
            <option value="0">no longer</option>
            <option value="24" selected>24 hours</option>
            <option value="168">7 days</option>
          </select></label>`}
          <p class="row"><button class="button${!isRoll && ' bad'}" type="submit">${
            isRoll ? 'Roll the key' : 'Revoke the key'}</button>
            <a class="button quiet" href="${base}">Keep it as it is</a></p>
        </form>
      </div>`,
  })
}
