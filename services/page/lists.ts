import type { RouteOptions } from 'fastify'
import {
  type ContactListsBody, LIST_ACTIONS, type ListAction, type ListFileQuery, type LookedUpBody,
} from '../../schemas/api/contact-lists.ts'
import { MAX_CONTACT_CHARACTERS } from '../../schemas/api/create-job.ts'
import { describeAccess } from '../accounts/access-log/access-log.ts'
import { ApiError } from '../client/client.ts'
import type { MinimumThroughput } from '../runtime/platform/peer-guards.ts'
import { customerRoutes, field, type PageDeps, type Visit } from './context.ts'
import { count, html, type Html } from './html.ts'
import {
  badge, customerPage, figure, findNotice, postForm, redirect, select, sendHtml,
} from './layout.ts'
import { explainError, PageError } from './page-error.ts'
import { createUploadLimits } from './upload.ts'

type Change = NonNullable<ListFileQuery['action']>

/** What people may do with entries. */
const CHANGES: readonly (readonly [action: Change, text: string])[] = [
  ['suppress', 'Suppress: never as valid'],
  ['block', 'Block: treat them as invalid'],
  ['allow', 'Allow: treat them as valid'],
  ['remove', 'Remove them from the lists'],
]

/** The contact lists: what they mean and have, changes, look-ups, and files of entries. */
export function listRoutes (deps: PageDeps, pace: MinimumThroughput): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  return [
    route('GET', '/:mode/lists', {
      access: 'jobs.change', navigation: 'Lists',
    }, async ({ visit, reply }) =>
      sendHtml(reply, listsView(visit, { counts: await visit.client.contactLists() }))),
    route('POST', '/:mode/lists', {
      access: 'jobs.change', records: 'contact_lists.changed',
    }, async exchange => {
      const { visit, request, reply } = exchange
      const action = parseAction(field(request, 'action'))
      const texts = field(request, 'entries')
      const entries = texts.split(/\r?\n/).map(text => text.trim()).filter(text => text !== '')
      if (action === undefined) throw new PageError('bad_form')
      describeAccess(request, { details: { action, entries: String(entries.length) } })
      try {
        if (entries.length === 0) throw new PageError('bad_form', 'Write at least one entry.')
        await visit.client.changeContactLists({ action, entries })
      } catch (error) {
        const fault = explainFault(error)
        reply.code(400)
        return sendHtml(reply, listsView(visit, {
          counts: await visit.client.contactLists(), draft: { action, texts, fault },
        }))
      }
      return redirect(exchange, 'lists', 'lists-changed')
    }),
    route('POST', '/:mode/lists/lookup', {
      // It changes nothing. A form, so that no contact is in an address.
      access: 'jobs.change', records: null,
    }, async ({ visit, request, reply }) => {
      const contact = field(request, 'contact').trim()
      const counts = await visit.client.contactLists()
      try {
        if (contact === '') throw new PageError('bad_form', 'Write what to look up.')
        const [answer] = await visit.client.lookUpContacts({ contacts: [contact] })
        return await sendHtml(reply, listsView(visit, { counts, answer }))
      } catch (error) {
        const fault = explainFault(error)
        reply.code(400)
        return sendHtml(reply, listsView(visit, { counts, lookUp: { contact, fault } }))
      }
    }),
    {
      ...route('POST', '/:mode/lists/file', {
        access: 'jobs.change', records: 'contact_lists.changed', forScript: true,
      }, async ({ visit, request, reply }) => {
        const { body, query } = request
        if (!Buffer.isBuffer(body)) throw new PageError('bad_form')
        const action = parseAction((query as { readonly action?: unknown }).action)
        describeAccess(request, { details: { action: action ?? 'file' } })
        await visit.client.changeContactListsFromFile(body, { action })
        return reply.send({ path: `/${visit.tenant.mode}/lists?notice=lists-changed` })
      }),
      ...createUploadLimits(pace),
    },
  ]
}

const parseAction = (text: unknown): Change | undefined =>
  CHANGES.map(([action]) => action).find(action => action === text)

/** What a person can correct; any other error is rethrown. */
function explainFault (error: unknown): string {
  if (error instanceof ApiError && (error.status >= 500 || error.status === 401)) throw error
  if (!(error instanceof ApiError || error instanceof PageError)) throw error
  return explainError(error).message
}

type Lists = {
  readonly counts: ContactListsBody
  /** A change that was refused, and why. */
  readonly draft?: { readonly action: Change, readonly texts: string, readonly fault: string }
  /** What a look-up found, or why it was refused. */
  readonly answer?: LookedUpBody['data'][number]
  readonly lookUp?: { readonly contact: string, readonly fault: string }
}

/** The lists of an organization. */
function listsView (visit: Visit, { counts, draft, answer, lookUp }: Lists): Html {
  const base = `/${visit.tenant.mode}/lists`
  return customerPage(visit, {
    title: 'Lists',
    scripts: ['lists.js'],
    body: html`
      <h1>Lists</h1>
      ${findNotice(visit)}
      <p>Contacts that you never want to be checked: jobs answer them from these lists, free, two
        seconds after a change. The lists are the same in live and test mode.</p>
      <dl class="figures" id="counts">${LIST_ACTIONS.toReversed().map(list =>
        figure(NAMES[list], count(counts.lists[list]), MEANINGS[list]))}
      </dl>
      <p class="hint spaced">${count(counts.entries)} of at most ${count(counts.maxEntries)}
        entries. They are stored as fingerprints only, so nobody can show or export them, not even
        the operator of this installation. Keep your own file, and look single entries up here.</p>
      <section><h2>Look up</h2>
        ${postForm(visit, `${base}/lookup`, html`
          <label>Address, domain, mail server or number
            <input name="contact" required maxlength="${MAX_CONTACT_CHARACTERS}" autocomplete="off"
              value="${lookUp?.contact ?? answer?.contact ?? ''}"
              ${lookUp && html`aria-invalid="true" aria-describedby="lookup-fault"`}></label>
          ${lookUp && html`<p class="notice bad" id="lookup-fault" role="alert">${
            lookUp.fault}</p>`}
          <button class="button" type="submit">Look up</button>`, { look: 'card' })}
        ${answer && answerView(visit, answer)}
      </section>
      <section><h2>Add or remove</h2>
        ${postForm(visit, base, html`
          <label>Entries, one a line
            <textarea name="entries" rows="6" required spellcheck="false" autocomplete="off"
              aria-describedby="entries-hint${draft && ' entries-fault'}"
              ${draft && html`aria-invalid="true"`}>
${draft?.texts ?? ''}</textarea></label>
          <p class="hint" id="entries-hint">An address such as <code>jane@example.com</code>,
            a domain with its subdomains such as <code>example.com</code>, all of an ending such as
            <code>.xyz</code>, all domains with a mail server such as
            <code>mx:mail.example.com</code>, a number such as <code>+493012345678</code>, or all
            numbers that begin with <code>+4930*</code>. Of several entries about a contact the most
            specific decides.</p>
          <label>What to do ${select('action', draft?.action ?? 'suppress', CHANGES)}</label>
          ${draft && html`<p class="notice bad" id="entries-fault" role="alert">${draft.fault}
            Nothing was changed.</p>`}
          <button class="button" type="submit">Change the lists</button>`, { look: 'card' })}
      </section>
      <section><h2>Upload a file</h2>
        <form id="list-file" class="card" data-mode="${visit.tenant.mode}"
          data-token="${visit.visitor.session.token}">
          <label>CSV file <input type="file" name="file" accept=".csv,.txt,text/csv" required
            aria-describedby="file-hint"></label>
          <p class="hint" id="file-hint">With the columns <code>entry</code> and <code>list</code>
            (allow, block, suppress, or remove), or one column of entries without a name. At most
            100,000 lines. If a line cannot be used, it is named, and nothing is changed.</p>
          <label>What to do ${select('action', '',
            [['', 'What the column list says'], ...CHANGES])}</label>
          <p id="error" class="notice bad" role="alert" hidden></p>
          <button class="button" type="submit">Upload</button>
        </form>
        <noscript><p class="notice bad">Uploading a file needs JavaScript.</p></noscript>
      </section>`,
  })
}

const NAMES: Readonly<Record<ListAction, string>> = {
  allow: 'Allow', block: 'Block', suppress: 'Suppress',
}

const MEANINGS: Readonly<Record<ListAction, Html>> = {
  suppress: html`People who do not want to hear from you: never valid, reason
    <code>suppressed</code>`,
  block: html`Contacts that you know to be bad: invalid, reason <code>block_listed</code>`,
  allow: html`Contacts that you know to be good: valid without a check, reason
    <code>allow_listed</code>`,
}

/** What the lists say of an entry, and buttons to change that. */
function answerView (visit: Visit, { contact, action }: LookedUpBody['data'][number]): Html {
  return html`<div class="spaced" role="status" id="answer">
    <p><strong class="long">${contact}</strong> ${action === null
      ? badge('On no list', 'muted')
      : badge(NAMES[action], action === 'allow' ? 'good' : 'bad')}</p>
    ${action !== null && html`<p class="hint">This may be because of its domain or its beginning: an
      entry that is removed leaves those.</p>`}
    ${postForm(visit, `/${visit.tenant.mode}/lists`, html`
      <input type="hidden" name="entries" value="${contact}">
      <div class="row">${CHANGES.filter(([change]) => change !== action &&
        (change !== 'remove' || action !== null)).map(([change]) => html`
        <button class="button quiet" type="submit" name="action" value="${change}">${
          change === 'remove' ? 'Remove' : NAMES[change]}</button>`)}</div>`)}
  </div>`
}
