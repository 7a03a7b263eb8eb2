import { MODES, type Mode } from '../../accounts/tenant.ts'
import { assetPath, type AssetName } from './assets.ts'
import type { Visit } from './context.ts'
import { html, type Html } from './html.ts'
import type { Session } from './sessions.ts'

/** The pages of a customer, as the navigation names them. */
const SECTIONS = [
  ['overview', 'Overview'],
  ['jobs', 'Jobs'],
  ['upload', 'Verify a file'],
  ['balance', 'Balance'],
  ['keys', 'API keys'],
  ['settings', 'Settings'],
] as const

export type Section = typeof SECTIONS[number][0]

type Content = {
  readonly title: string
  readonly body: Html
  readonly scripts?: readonly AssetName[]
}

type Frame = Content & {
  readonly header: Html
  readonly strip?: Html | false
  readonly footer?: Html
}

/** A page of a customer: the sections, the mode, and the way out. */
export function customerPage (visit: Visit, section: Section, content: Content): Html {
  const { organization, visitor, tenant, zone } = visit
  const { mode } = tenant
  return framed({
    ...content,
    header: html`
      ${brand(`/${mode}/overview`)}
      <nav class="sections" aria-label="Sections">${SECTIONS.map(([path, name]) => html`
        <a href="/${mode}/${path}"${current(path === section)}>${name}</a>`)}
      </nav>
      <div class="tools">
        ${modeSwitch(mode, section)}
        ${themeSwitch()}
        ${signOut(visitor.session)}
      </div>`,
    strip: mode === 'test' && html`
      <aside class="strip" aria-label="Test mode">Test mode: nothing is charged, and nobody is
        reached.</aside>`,
    footer: html`${organization.name} · ${organization.id} · Times are shown in ${zone}.`,
  })
}

/** A page of those who run the pipeline. */
export function operatorPage (session: Session, content: Content): Html {
  return framed({
    ...content,
    header: html`
      ${brand('/pipeline')}
      <nav class="sections" aria-label="Sections">
        <a href="/pipeline" aria-current="page">Pipeline</a>
      </nav>
      <div class="tools">${themeSwitch()}${signOut(session)}</div>`,
  })
}

/** A page of nobody in particular. */
export function plainPage (content: Content): Html {
  return framed({
    ...content,
    header: html`${brand('/')}<div class="tools">${themeSwitch()}</div>`,
  })
}

/** The field that tells a form of this session from any other. */
export function tokenField ({ token }: Session): Html {
  return html`<input type="hidden" name="form_token" value="${token}">`
}

function framed ({ title, body, scripts = [], header, strip, footer }: Frame): Html {
  return html`<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
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

/** The same section in the other mode. */
function modeSwitch (mode: Mode, section: Section): Html {
  return html`<nav class="modes" aria-label="Mode">${MODES.map(name => html`
    <a href="/${name}/${section}"${current(name === mode)}>${name === 'live' ? 'Live' : 'Test'}</a>
  `)}</nav>`
}

function themeSwitch (): Html {
  return html`<label class="theme"><span class="unseen">Colours</span>
    <select id="theme" name="theme">
      <option value="system">System</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select></label>`
}

function signOut (session: Session): Html {
  return html`<form method="post" action="/sign-out">${tokenField(session)}
    <button class="quiet" type="submit">Sign out</button></form>`
}

function current (isCurrent: boolean): Html | false {
  return isCurrent && html` aria-current="page"`
}
