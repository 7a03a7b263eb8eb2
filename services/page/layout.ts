import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import { dirname } from 'node:path'
import type { FastifyReply, RouteOptions } from 'fastify'
import type { Session } from '../accounts/sessions.ts'
import { MODES } from '../accounts/tenant.ts'
import {
  type Exchange, isRecent, may, needsRecent, type PageDeps, type Visit,
} from './context.ts'
import { html, type Html, type HtmlValue } from './html.ts'
import type { ErrorContent } from './page-error.ts'
import type { PipelineStatus } from './pipeline/figures.ts'

const require = createRequire(import.meta.url)

type Content = {
  readonly title: string
  readonly body: Html
  readonly scripts?: readonly AssetName[]
}

type Frame = Content & {
  readonly header: Html
  readonly strip?: Html | false
  readonly footer?: Html
  /** Where the browser goes at once. */
  readonly next?: string
}

/** A page for customers, with the navigation of their role, mode switch and sign-out. */
export function customerPage (visit: Visit, content: Content): Html {
  const { organization, visitor, tenant: { mode }, zone, section, sections } = visit
  return renderFrame({
    ...content,
    header: topBar({
      home: `/${mode}/overview`,
      organization: organizationSwitcher(visit),
      tools: html`
        <nav class="modes" aria-label="Mode">${MODES.map(name => html`
          <a href="/${name}/${section}"${current(name === mode)}>${
            name === 'live' ? 'Live' : 'Test'}</a>`)}</nav>
        ${themeSwitch}
        ${visitor.person && html`<a class="account" href="/${mode}/account"${
          current(section === 'account')}>${visitor.person.email}</a>`}
        ${signOut(visitor.session)}`,
      links: sections.filter(({ permission }) => may(visitor, permission))
        .map(({ path, title }) =>
          ({ path: `/${mode}/${path}`, title, isCurrent: path === section })),
    }),
    strip: html`${mode === 'test' && html`
      <aside class="strip" aria-label="Test mode">Test mode: nothing is charged, and no
        contact is reached.</aside>`}${stepUpStrip(visit)}`,
    footer: html`${organization.name} · ${organization.id} · Times are shown in ${zone}.`,
  })
}

/** The name of the organization; for its members a menu of all their organizations. */
function organizationSwitcher (visit: Visit): Html {
  const { organization, organizations, tenant: { mode } } = visit
  if (organizations.length < 2) return html`<span class="organization">${organization.name}</span>`
  return html`
    <button class="organization quiet" type="button" popovertarget="organizations"
      aria-label="Organization: ${organization.name}">${organization.name}</button>
    <nav id="organizations" class="menu" popover aria-label="Your organizations">${
      organizations.map(({ orgId, name, role }) => postForm(
        visit, `/${mode}/account/organization`, html`
        <input type="hidden" name="org" value="${orgId}">
        <button class="quiet" type="submit"${current(orgId === organization.id)}>${name}
          <span class="hint">${role}</span></button>`))}</nav>`
}

type TopBar = {
  readonly home: string
  readonly organization?: Html
  readonly tools: Html
  readonly links: readonly {
    readonly path: string, readonly title: string, readonly isCurrent: boolean
  }[]
}

/** What stands above a page. In a narrow window its button opens tools and links as a menu. */
function topBar ({ home, organization, tools, links }: TopBar): Html {
  return html`<div class="title-bar">
      ${brand(home)}
      ${organization}
      <button class="opener quiet" type="button" popovertarget="menu">Menu</button>
    </div>
    <div id="menu" class="menu" popover>
      <div class="tools">${tools}</div>
      <nav class="sections" aria-label="Sections">${links.map(({ path, title, isCurrent }) => html`
        <a href="${path}"${current(isCurrent)}>${title}</a>`)}
      </nav>
    </div>`
}

/** Says before a form is filled in that it needs a recent authentication. */
function stepUpStrip ({ visitor, tenant, section, sections }: Visit): Html | false {
  const { permissions = [] } = sections.find(({ path }) => path === section) ?? {}
  const hasForm = permissions.some(name => needsRecent(name) && may(visitor, name))
  if (!hasForm || isRecent(visitor)) return false
  return html`<aside class="strip" aria-label="Confirmation">${visitor.person === undefined
    ? 'To change secrets here, sign in with a new link.'
    : html`To change secrets or people here, <a
        href="${stepUpPath(`/${tenant.mode}/${section}`)}">confirm that it is you</a>.`}</aside>`
}

/** The path that authenticates a person again and returns to a page. */
export function stepUpPath (back: string): string {
  return `/sign-in/start?${new URLSearchParams({ again: 'yes', back })}`
}

/** The pages for operators of the pipeline, in the order of their navigation. */
const OPERATOR_PAGES = { '/pipeline': 'Pipeline', '/mail-servers': 'Mail servers' } as const

/**
 * A page for operators of the pipeline, whose content comes from the figures of all services. Its
 * script loads it again and again.
 */
export function operatorRoute (
  deps: PageDeps, path: keyof typeof OPERATOR_PAGES, view: (status: PipelineStatus) => Html
): RouteOptions {
  const title = OPERATOR_PAGES[path]
  return {
    method: 'GET',
    url: path,
    config: { access: 'operator' },
    handler: async ({ visitor }, reply) => sendHtml(reply, renderFrame({
      title,
      scripts: ['refresh.js'],
      body: html`
        <div class="heading"><h1>${title}</h1>
          <label class="check"><input type="checkbox" id="live" checked> Live</label></div>
        ${view(await deps.pipelineStatus())}`,
      header: topBar({
        home: '/pipeline',
        // The access lets nobody else in.
        tools: html`${themeSwitch}${signOut(visitor!.session)}`,
        links: Object.entries(OPERATOR_PAGES)
          .map(([to, name]) => ({ path: to, title: name, isCurrent: to === path })),
      }),
    })),
  }
}

/** A page for everybody, without navigation; with `next`, the browser goes there at once. */
export function plainPage (content: Content & Pick<Frame, 'next'>): Html {
  return renderFrame({
    ...content,
    header: html`<div class="title-bar">${brand('/')}</div>
      <div class="tools">${themeSwitch}</div>`,
  })
}

/** The page for an error. Server errors show the id of the request, which is in the log. */
export function errorPage (
  { status, title, message, action }: ErrorContent,
  { requestId, isSignedIn }: { readonly requestId: string, readonly isSignedIn: boolean }
): Html {
  return plainPage({
    title,
    body: html`
      <div class="narrow">
        <h1>${title}</h1>
        <p>${message}</p>
        ${status >= 500 && html`<p class="hint">Number: <code>${requestId}</code></p>`}
        <p><a class="button" href="${action?.path ?? '/'}">${action?.text ?? (isSignedIn
          ? 'Go to the overview'
          : 'Go to the start')}</a></p>
      </div>`,
  })
}

function renderFrame ({ title, body, scripts = [], header, strip, footer, next }: Frame): Html {
  return html`<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  ${next !== undefined && html`<meta http-equiv="refresh" content="0;url=${next}">`}
  <title>${title} · Verification Jobs</title>
  <link rel="icon" href="${assetPath('icon.svg')}" type="image/svg+xml">
  <link rel="stylesheet" href="${assetPath('page.css')}">
  <script src="${assetPath('theme.js')}"></script>
  ${scripts.map(name => html`<script type="module" src="${assetPath(name)}"></script>`)}
</head>
<body>
  <a class="skip" href="#main">Skip to the content</a>
  <header class="top">${header}</header>
  ${strip}
  <main id="main" tabindex="-1">${body}</main>
  <footer class="bottom">${footer}</footer>
  <div id="announcer" class="unseen" role="status" aria-live="polite"></div>
</body>
</html>`
}

function brand (path: string): Html {
  return html`<a class="brand" href="${path}">
    <svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true" focusable="false">
      <rect x="1" y="1" width="22" height="22" rx="6"/><path d="M6.5 12.5l3.6 3.6 7.4-8"/>
    </svg><span>Verification Jobs</span></a>`
}

const themeSwitch = html`<label class="theme"><span class="unseen">Colors</span>
  <select id="theme" name="theme">
    <option value="system">System</option>
    <option value="light">Light</option>
    <option value="dark">Dark</option>
  </select></label>`

function signOut (session: Session): Html {
  return html`<form method="post" action="/sign-out">${tokenField(session)}
    <button class="quiet" type="submit">Sign out</button></form>`
}

function tokenField ({ token }: Session): Html {
  return html`<input type="hidden" name="form_token" value="${token}">`
}

function current (isCurrent: boolean): Html | false {
  return isCurrent && html` aria-current="page"`
}

/** A form with the token of the session; with `once` it takes effect at most once. */
export function postForm (
  { visitor, createNonce }: Visit, action: string, content: Html,
  { look, once }: { readonly look?: 'card', readonly once?: true } = {}
): Html {
  return html`<form${look !== undefined && html` class="${look}"`} method="post"
    action="${action}">${tokenField(visitor.session)}${once === true && html`
    <input type="hidden" name="nonce" value="${createNonce()}">`}${content}</form>`
}

/** A choice of a form. */
export function select (
  name: string, chosen: string, options: readonly (readonly [value: string, text: string])[]
): Html {
  return html`<select name="${name}">${options.map(([value, text]) => html`
    <option value="${value}"${value === chosen && html` selected`}>${text}</option>`)}</select>`
}

/** A column of a table: its heading, and its cell in a row. */
export type TableColumn<Row> = {
  readonly text: string
  readonly cell: (row: Row) => HtmlValue
  /** Names the row. */
  readonly isHeader?: boolean
  readonly isNumber?: boolean
  readonly isUnseen?: boolean
  readonly look?: string
}

/**
 * A table that scrolls horizontally on its own, also with the keyboard. The headings of a sortable
 * one are buttons of the script `sort.js`.
 */
export function table<Row> (
  name: string, rows: Iterable<Row>, columns: readonly TableColumn<Row>[],
  { isSortable = false } = {}
): Html {
  const looks = columns.map(({ isNumber, look = isNumber === true ? 'number' : '' }) =>
    look !== '' && html` class="${look}"`)
  return html`<div class="table" role="region" aria-label="${name}" tabindex="0"><table>
    <caption class="unseen">${name}</caption>
    <thead><tr>${columns.map(({ text, isNumber, isUnseen }) => html`
      <th scope="col"${isNumber === true && html` class="number"`}>${
        isUnseen === true
          ? html`<span class="unseen">${text}</span>`
          : isSortable
            ? html`<button class="sort" type="button">${text}</button>`
            : text}</th>`)}</tr></thead>
    <tbody>${[...rows].map(row => html`<tr>${columns.map(({ cell, isHeader }, index) =>
      isHeader === true
        ? html`<th${looks[index]} scope="row">${cell(row)}</th>`
        : html`<td${looks[index]}>${cell(row)}</td>`)}</tr>`)}</tbody>
  </table></div>`
}

/** A state in words; `tone` names its color. */
export function badge (text: string, tone: string): Html {
  return html`<span class="badge ${tone}">${text}</span>`
}

/** An amount with its name and what it means, in a list of them. */
export function figure (name: string, amount: string, hint: Html | string): Html {
  return html`<div class="figure"><dt>${name}</dt><dd class="amount">${amount}</dd>
    <dd class="hint">${hint}</dd></div>`
}

/** Explains why a list is empty, and offers the next step. */
export function emptyState (text: string, action?: Html | false): Html {
  return html`<div class="empty"><p>${text}</p>${action}</div>`
}

/** The first request may have failed after it had created the secret, or before. */
const SECRET_ONCE = 'This form was sent before. A secret that it created is not shown again: ' +
  'create another one if you did not store it.'

/** Messages about the last action, for the page after it. URLs carry the name, never the text. */
const NOTICES = {
  'key-revoked': 'The key is revoked. It stops working within a second.',
  'key-once': 'This form was sent before. The list shows whether it created its key, whose ' +
    'secret is not shown again: create another one if you did not store it.',
  'secret-once': SECRET_ONCE,
  'policy-saved': 'The freshness policy is saved. It applies to all new jobs.',
  'low-balance-saved': 'The threshold is saved. It applies to all new jobs.',
  'endpoint-saved': 'The endpoint is saved. The change applies within a second.',
  'endpoint-deleted': 'The endpoint is deleted. Nothing is sent to it any more.',
  'endpoint-once': SECRET_ONCE,
  resent: 'The event is being sent again.',
  trying: 'That event is already being delivered, so it was not sent again.',
  cancelled: 'The job is being cancelled. Checks in progress finish and are charged.',
  erased: 'The job is erased. Nobody can read its inputs, results and labels any more.',
  'person-added': 'The person is added, and can sign in now.',
  'person-saved': 'The role is saved. It applies to the next request.',
  'person-signed-out': 'All sessions of this person have ended.',
  'person-removed': 'The person is removed, and all their sessions have ended.',
  'lists-changed': 'The lists are changed. Jobs follow them from two seconds on.',
  'signed-out': 'You are signed out. Sign in again.',
  left: 'You have signed out.',
  'left-everywhere': 'You have signed out in every browser.',
  'link-spent': 'That link was already used, or is older than ten minutes. Ask for a new one.',
} as const

/** The message that `?notice=` names, for the top of a page; undefined for unknown names. */
export function findNotice ({ notice }: Pick<Visit, 'notice'>): Html | undefined {
  const [, text] = Object.entries(NOTICES).find(([name]) => name === notice) ?? []
  return text === undefined ? undefined : html`<p class="notice" role="status">${text}</p>`
}

/** Redirects to a page of the same mode, which shows a message. */
export function redirect (
  { visit, reply }: Exchange, path: string, notice: keyof typeof NOTICES
): FastifyReply {
  return reply.redirect(`/${visit.tenant.mode}/${path}?notice=${notice}`, 303)
}

/** Sends a page as the reply. */
export function sendHtml (reply: FastifyReply, page: Html): FastifyReply {
  return reply.type('text/html; charset=utf-8').send(page.html)
}

/** A static file for browsers. Its path contains a content hash. */
type Asset = { readonly path: string, readonly type: string, readonly content: Buffer }

const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
}

const OWN_FILES = [
  'page.css', 'theme.js', 'copy.js', 'live.js', 'upload.js', 'refresh.js', 'sign-in.js',
  'charts.js', 'sort.js', 'lists.js', 'icon.svg',
] as const
/** What browsers share with the service, which reads the same files. */
const CSV_FORMAT = 'csv-format.js'

/** The library that draws charts. */
const CHART = 'chart.umd.min.js'

type AssetName = typeof OWN_FILES[number] | typeof CSV_FORMAT | typeof CHART

/** All static files, read once. Modules import each other by relative names. */
export const assets: ReadonlyMap<AssetName, Asset> = readAll()

/** The path of a static file. */
function assetPath (name: AssetName): string {
  return assets.get(name)?.path ?? ''
}

function readAll (): ReadonlyMap<AssetName, Asset> {
  const format = `${import.meta.dirname}/../../schemas/files/csv-format.ts`
  const contents = new Map<AssetName, Buffer>([
    ...OWN_FILES.map(name =>
      [name, readFileSync(`${import.meta.dirname}/static/${name}`)] as const),
    [CHART, readFileSync(`${dirname(require.resolve('chart.js'))}/${CHART}`)],
    [CSV_FORMAT, Buffer.from(stripTypeScriptTypes(readFileSync(format, 'utf8')))],
  ])
  // One hash for all files, because modules import each other from the same folder.
  const version = createHash('sha256')
  for (const content of contents.values()) version.update(content)
  const folder = `/static/${version.digest('hex').slice(0, 16)}`
  return new Map([...contents].map(([name, content]) => {
    const type = TYPES[name.split('.').pop() ?? ''] ?? 'application/octet-stream'
    return [name, { path: `${folder}/${name}`, type, content }]
  }))
}
