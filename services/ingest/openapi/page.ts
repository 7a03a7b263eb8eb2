import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { OpenApiDocument, Paths } from './document.ts'
import { escaped, lineHtml, markdownHtml, slugOf } from './markdown.ts'
import { operationHtml, sharedCodes, type Placed } from './page-operation.ts'

const fileOf = (name: string) => readFileSync(`${import.meta.dirname}/static/${name}`, 'utf8')
const STYLE = fileOf('reference.css')
/** Search, copy buttons and the current section; the page is readable without it. */
const SCRIPT = fileOf('reference.js')
const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

/** The page loads nothing; it allows only its own inline script and style. */
export const PAGE_POLICY = `default-src 'none'; script-src ${hashOf(SCRIPT)}; ` +
  `style-src ${hashOf(STYLE)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

/** Renders the API description as one HTML page. */
export function documentPage (document: OpenApiDocument): string {
  const { info, tags = [], paths, webhooks = {} } = document
  const operations = [...operationsIn(paths), ...operationsIn(webhooks)]
  const shared = sharedCodes(operations)
  const groups = tags.map(({ name, description = '' }) => ({
    name, description, own: operations.filter(({ described }) => described.tags?.includes(name)),
  }))
  const sections = groups.map(({ name, description, own }) =>
    `<h2 id="${slugOf(name)}">${escaped(name)}</h2><div class="prose">` +
    `${markdownHtml(description)}</div>` +
    own.map(operation => operationHtml(operation, shared)).join('\n'))
  return `<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(info.title)}: reference</title><style>${STYLE}</style></head><body>
<a class="skip" href="#content">To the content</a>
<header><p class="product">${escaped(info.title)}</p>
<p>Version ${escaped(info.version)} · <a href="/openapi.json">OpenAPI 3.1</a> ·
<a href="/changelog">Changelog</a></p></header>
<nav aria-label="Reference">
<p class="search" hidden><label for="search">Search <kbd>/</kbd></label>
<input id="search" type="search" autocomplete="off"><span role="status" class="found"></span></p>
${contentsHtml(info.description ?? '', groups)}</nav>
<main id="content" tabindex="-1"><h1>${escaped(info.title)} API</h1>
<div class="prose">${introductionHtml(info.description ?? '')}</div>
${sections.join('\n')}
</main><script>${SCRIPT}</script></body></html>
`
}

function operationsIn (paths: Paths): readonly Placed[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, described]) => ({ method, path, described })))
}

/** Each chapter is a separate element, so that the search can hide it. */
function introductionHtml (description: string): string {
  return description.split(/^(?=## )/m).map(chapter =>
    `<section class="chapter">${markdownHtml(chapter)}</section>`).join('\n')
}

type Group = { readonly name: string, readonly own: readonly Placed[] }

function contentsHtml (description: string, groups: readonly Group[]): string {
  const chapters = [...description.matchAll(/^## (.*)$/gm)].map(([, title = '']) =>
    `<li><a href="#${slugOf(title)}">${lineHtml(title)}</a></li>`)
  const lists = groups.map(({ name, own }) =>
    `<li><a class="group" href="#${slugOf(name)}">${escaped(name)}</a>` +
    `<ul>${own.map(entryHtml).join('')}</ul></li>`)
  return `<ul class="contents">${chapters.join('')}${lists.join('')}</ul>`
}

function entryHtml ({ method, described }: Placed): string {
  const { operationId = '', summary = '' } = described
  return `<li><a href="#${escaped(operationId)}"><span class="method ${escaped(method)}">` +
    `${escaped(method.toUpperCase())}</span> ${escaped(summary)}</a></li>`
}
