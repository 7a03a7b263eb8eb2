import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { RouteOptions } from 'fastify'
import { Type } from 'typebox'
import { API_VERSION } from '../../../schemas/api/parts.ts'
import {
  type ConstantDocument, createDocument, sendDocument,
} from '../../runtime/platform/http-server.ts'
import {
  type CodeSample, type Content, type OpenApiDocument, type OpenApiResponse, openapiText,
  type Operation, type Parameter, type Paths,
} from '../openapi.ts'
import { preferred } from '../response.ts'

const CHANGELOG = new URL('../../../schemas/api/CHANGELOG.md', import.meta.url)

const TYPES = ['application/json', 'text/html'] as const

const PathFromHost = Type.String({ description: 'Relative to the host.' })

/** The answer to GET /. */
const ROOT = {
  name: 'Verification Jobs',
  version: API_VERSION,
  api: '/api/v1',
  documentation: '/docs',
  openapi: '/openapi.json',
  changelog: '/changelog',
}

/** Its schema. */
const RootSchema = Type.Object({
  name: Type.String(),
  version: Type.String({ description: 'The date of the version of the interface.' }),
  api: PathFromHost,
  documentation: PathFromHost,
  openapi: PathFromHost,
  changelog: PathFromHost,
}, { title: 'Root', examples: [ROOT] })

/** GET /: links to the API and its documents; redirects browsers to /docs. Needs no key. */
export function rootRoute (): RouteOptions {
  return {
    method: 'GET',
    url: '/',
    config: { produces: TYPES, sends: { 302: ['Location'] } },
    schema: {
      operationId: 'getRoot',
      summary: 'Links to the API and its documents',
      description: 'JSON, or a redirect to `/docs` for browsers.',
      tags: ['Documents'],
      response: {
        200: { content: { 'application/json': { schema: RootSchema } } }, 302: { type: 'null' },
      },
    },
    handler: async (request, reply) => {
      reply.header('vary', 'Accept')
      if (preferred(request.headers.accept, TYPES) === 'text/html') return reply.redirect('/docs')
      return reply.send(ROOT)
    },
  }
}

/** The documents of the REST API. */
export type ApiDocuments = {
  readonly openapi: ConstantDocument
  readonly page: ConstantDocument
  readonly changelog: ConstantDocument
}

/** Makes the documents of a description, which takes a tenth of a second of CPU time. */
export async function createApiDocuments (description: OpenApiDocument): Promise<ApiDocuments> {
  const [openapi, page, changelog] = await Promise.all([
    createDocument('application/json; charset=utf-8', openapiText(description)),
    createDocument('text/html; charset=utf-8', documentPage(description)),
    createDocument('text/markdown; charset=utf-8', readFileSync(CHANGELOG)),
  ])
  return { openapi, page, changelog }
}

/** GET /openapi.json, /docs and /changelog: the documents of the REST API, without a key. */
export function docsRoutes (documents: () => Promise<ApiDocuments>): RouteOptions[] {
  const send = (name: keyof ApiDocuments): RouteOptions['handler'] => async (request, reply) =>
    sendDocument(request, reply, {
      document: (await documents())[name], cacheControl: 'public, no-cache',
    })
  return [
    {
      method: 'GET',
      url: '/openapi.json',
      schema: {
        operationId: 'getOpenApi', summary: 'This description, as OpenAPI 3.1', tags: ['Documents'],
      },
      handler: send('openapi'),
    },
    {
      method: 'GET',
      url: '/docs',
      config: { produces: 'text/html' },
      schema: {
        operationId: 'getDocs', summary: 'The description as a page', tags: ['Documents'],
      },
      onRequest: async (_request, reply) => {
        reply.header('content-security-policy', PAGE_POLICY)
      },
      handler: send('page'),
    },
    {
      method: 'GET',
      url: '/changelog',
      config: { produces: 'text/markdown' },
      schema: {
        operationId: 'getChangelog', summary: 'What changed, newest first', tags: ['Documents'],
      },
      handler: send('changelog'),
    },
  ]
}

const readPage = (name: string) => readFileSync(`${import.meta.dirname}/../static/${name}`, 'utf8')
const STYLE = readPage('reference.css')
/** Search, copy buttons and the current section; the page is readable without it. */
const SCRIPT = readPage('reference.js')
const toHash = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

/** The page loads nothing; it allows only its own inline script and style. */
const PAGE_POLICY = `default-src 'none'; script-src ${toHash(SCRIPT)}; ` +
  `style-src ${toHash(STYLE)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

/** Renders the API description as one HTML page. */
function documentPage (document: OpenApiDocument): string {
  const { info, tags = [], paths, webhooks = {} } = document
  const operations = [...operationsIn(paths), ...operationsIn(webhooks)]
  const [first, ...others] = operations.filter(({ described }) => described.security?.length === 1)
    .map(({ described }) => listFaults(described).map(({ code }) => code))
  // The error codes of all operations with a key.
  const shared = new Set(first?.filter(code => others.every(codes => codes.includes(code))))
  const groups = tags.map(({ name, description = '' }) => ({
    name,
    description,
    operations: operations.filter(({ described }) => described.tags?.includes(name)),
  }))
  const sections = groups.map(({ name, description, operations: listed }) =>
    `<h2 id="${toSlug(name)}">${escaped(name)}</h2><div class="prose">` +
    `${markdownHtml(description)}</div>` +
    listed.map(operation => operationHtml(operation, shared)).join('\n'))
  // Each chapter is a separate element, so that the search can hide it.
  const chapters = (info.description ?? '').split(/^(?=## )/m).map(chapter =>
    `<section class="chapter">${markdownHtml(chapter)}</section>`)
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
<div class="prose">${chapters.join('\n')}</div>
${sections.join('\n')}
</main><script>${SCRIPT}</script></body></html>
`
}

function operationsIn (paths: Paths): readonly Placed[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, described]) => ({ method, path, described })))
}

type Group = { readonly name: string, readonly operations: readonly Placed[] }

function contentsHtml (description: string, groups: readonly Group[]): string {
  const chapters = [...description.matchAll(/^## (.*)$/gm)].map(([, title = '']) =>
    `<li><a href="#${toSlug(title)}">${lineHtml(title)}</a></li>`)
  const lists = groups.map(({ name, operations }) => {
    const entries = operations.map(({ method, described: { operationId = '', summary = '' } }) =>
      `<li><a href="#${escaped(operationId)}"><span class="method ${escaped(method)}">` +
      `${escaped(method.toUpperCase())}</span> ${escaped(summary)}</a></li>`)
    return `<li><a class="group" href="#${toSlug(name)}">${escaped(name)}</a>` +
      `<ul>${entries.join('')}</ul></li>`
  })
  return `<ul class="contents">${chapters.join('')}${lists.join('')}</ul>`
}

/** An operation with its method and path; the path of an event is its name. */
type Placed = {
  readonly method: string
  readonly path: string
  readonly described: Operation
}

/** An error code with its status and message. */
type Fault = { readonly status: string, readonly code: string, readonly message: string }

/**
 * Renders an operation: description, parameters, responses and code samples. `shared` are the error
 * codes of all operations; they are listed apart from its own.
 */
function operationHtml (placed: Placed, shared: ReadonlySet<string>): string {
  const { method, path, described } = placed
  const { summary = '', description = '', parameters = [], responses } = described
  const id = escaped(described.operationId ?? '')
  const [body] = Object.values(described.requestBody?.content ?? {})
  const sentFields = body === undefined ? '' : fieldsHtml(body.schema, { isRequest: true })
  return `<section class="operation" id="${id}" aria-labelledby="${id}-title">
<h3 id="${id}-title"><a href="#${id}">${escaped(summary)}</a></h3>
<p class="address"><span class="method ${escaped(method)}">${escaped(method.toUpperCase())}</span>
<code class="${described.deprecated === true ? 'deprecated' : ''}">${escaped(path)}</code></p>
<div class="columns"><div class="text">
${markdownHtml(description)}
${sectionHtml('Parameters', parametersHtml(parameters))}${sectionHtml('Body', sentFields)}
${filterSuccesses(responses).map(successHtml).join('')}
${faultsHtml(listFaults(described), shared)}
</div><div class="samples">
${samplesHtml(id, described['x-codeSamples'] ?? [])}${examplesHtml(described)}
</div></div></section>`
}

const sectionHtml = (title: string, content: string) =>
  content === '' ? '' : `<h4>${title}</h4>${content}`

const filterSuccesses = (responses: Operation['responses']) =>
  Object.entries(responses).filter(([status]) => /^[23]/.test(status))

function successHtml (
  [status, { description, content = {} }]: readonly [string, OpenApiResponse]
): string {
  const fields = Object.values(content)
    .map(({ schema }) => fieldsHtml(schema, { isRequest: false })).join('')
  const types = Object.keys(content).map(type => `<code>${escaped(type)}</code>`).join(', ')
  return `<h4>Answer ${escaped(status)}</h4><p>${lineHtml(description)} ${types}</p>` +
    (fields === '' ? '' : `<details><summary>Fields</summary>${fields}</details>`)
}

function listFaults ({ responses }: Operation): readonly Fault[] {
  return Object.entries(responses).flatMap(([status, { description }]) =>
    [...description.matchAll(/^`(\w+)`: (.*)$/gm)].map(([, code = '', message = '']) =>
      ({ status, code, message })))
}

function faultsHtml (faults: readonly Fault[], shared: ReadonlySet<string>): string {
  if (faults.length === 0) return ''
  const specific = faults.filter(({ code }) => !shared.has(code))
  const others = faults.filter(({ code }) => shared.has(code))
  const [heading, list] = specific.length === 0
    ? ['', '']
    : ['<h4>Errors</h4>', faultListHtml(specific)]
  return `${heading}${list}<details><summary>Errors that any request can get</summary>` +
    `${faultListHtml(others)}</details>`
}

function faultListHtml (faults: readonly Fault[]): string {
  const items = faults.map(({ status, code, message }) =>
    `<li><span class="status">${escaped(status)}</span> <code class="name">${escaped(code)}` +
    `</code><p>${lineHtml(message)}</p></li>`)
  return `<ul class="fields">${items.join('')}</ul>`
}

/** Shows one sample at a time; radio buttons need no script. */
function samplesHtml (id: string, samples: readonly CodeSample[]): string {
  if (samples.length === 0) return ''
  const choices = samples.map(({ label }, index) =>
    `<input type="radio" name="${id}-sample" id="${id}-${index}" value="${escaped(label)}"` +
    `${index === 0 ? ' checked' : ''}><label for="${id}-${index}">${escaped(label)}</label>`)
  const codes = samples.map(({ source, label }) => codeHtml(source, label))
  return `<fieldset class="choice"><legend class="unseen">Language of the example</legend>
${choices.join('')}${codes.join('')}</fieldset>`
}

function examplesHtml ({ requestBody, responses, ...operation }: Operation): string {
  const isEvent = operation['x-codeSamples'] !== undefined && operation.security === undefined
  const sent = isEvent ? contentHtml(requestBody?.content ?? {}, 'The event') : ''
  return sent + filterSuccesses(responses).map(([status, { content = {} }]) =>
    contentHtml(content, `Answer ${status}`)).join('')
}

function contentHtml (content: Content, title: string): string {
  return Object.entries(content).map(([type, { example }]) => {
    if (example === undefined) return ''
    const text = typeof example === 'string' ? example.trimEnd() : JSON.stringify(example, null, 2)
    return `<p class="caption">${escaped(title)}, <code>${escaped(type)}</code></p>` +
      codeHtml(text, `${title}, ${type}`)
  }).join('')
}

/** Wide code scrolls by itself, also with the keyboard. */
function codeHtml (text: string, label: string): string {
  return `<pre class="code" tabindex="0" role="group" aria-label="${escaped(label)}"><code>` +
    `${escaped(text)}</code></pre>`
}

/** The subset of JSON Schema that the bodies use. */
type Schema = {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly description?: string
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly minimum?: number
  readonly maximum?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly maxLength?: number
  readonly maxProperties?: number
}

type Field = {
  readonly name: string
  readonly schema: Schema
  /** Path, query or header of a parameter. */
  readonly location?: string
  readonly isRequired: boolean
}

/** The parameters of an operation, those of the path first. */
function parametersHtml (parameters: readonly Parameter[]): string {
  const inOrder = ['path', 'query', 'header'].flatMap(location =>
    parameters.filter(parameter => parameter.in === location))
  return listHtml(inOrder.map(({ name, in: location, required, description, schema }) => ({
    name,
    location,
    isRequired: required === true,
    schema: { ...schema, ...(description === undefined ? {} : { description }) },
  })))
}

/** The fields of a body; nested fields by path, like `preflight.totalRows` or `data[].id`. */
function fieldsHtml (
  schema: object, { isRequest }: { readonly isRequest: boolean }
): string {
  return listHtml(listFields(schema, '').map(field =>
    isRequest ? field : { ...field, isRequired: false }))
}

function listFields (
  { properties = {}, required = [], anyOf = [] }: Schema, prefix: string
): readonly Field[] {
  const fields = Object.entries(properties).flatMap(([key, schema]) => {
    const name = `${prefix}${key}`
    const inner = schema.items === undefined
      ? listFields(schema, `${name}.`)
      : listFields(schema.items, `${name}[].`)
    return [{ name, schema, isRequired: required.includes(key) }, ...inner]
  })
  return [...fields, ...anyOf.flatMap(schema => listFields(schema, prefix))]
}

function listHtml (fields: readonly Field[]): string {
  if (fields.length === 0) return ''
  const items = fields.map(({ name, schema, location, isRequired }) => {
    const kind = [...(location === undefined ? [] : [location]), describeType(schema)].join(', ')
    const { description } = schema
    return `<li><code class="name">${escaped(name)}</code> ` +
      `<span class="kind">${escaped(kind)}</span>` +
      (isRequired ? ' <span class="remark">required</span>' : '') + valuesHtml(schema) +
      (description === undefined ? '' : `<p>${lineHtml(description)}</p>`) + '</li>'
  })
  return `<ul class="fields">${items.join('')}</ul>`
}

function describeType (schema: Schema): string {
  const type = schema.anyOf?.map(describeType).join(' or ') ??
    [schema.type ?? typeof (schema.const ?? schema.enum?.[0])].flat().join(' or ')
  const inner = schema.items === undefined ? '' : ` of ${describeType(schema.items)}`
  return [`${type}${inner}`, ...describeBounds(schema)].join(', ')
}

const number = (value: number) => value.toLocaleString('en-US')

function describeBounds (schema: Schema): readonly string[] {
  const { minimum, maximum, minItems, maxItems, maxLength, maxProperties } = schema
  return [
    minimum !== undefined && maximum !== undefined && `${number(minimum)} to ${number(maximum)}`,
    minItems !== undefined && maxItems !== undefined &&
      `${number(minItems)} to ${number(maxItems)} items`,
    maxLength !== undefined && `up to ${number(maxLength)} characters`,
    maxProperties !== undefined && `up to ${number(maxProperties)} members`,
    schema.default !== undefined && `${JSON.stringify(schema.default)} by default`,
  ].filter(bound => bound !== false)
}

/** The allowed values of a field. */
function valuesHtml ({ enum: listed, const: only }: Schema): string {
  const all = listed ?? (only === undefined ? [] : [only])
  if (all.length === 0) return ''
  const codes = all.map(value => `<code>${escaped(String(value))}</code>`)
  return `<p class="words">${codes.join(' ')}</p>`
}

/** Escapes text for HTML elements and quoted attributes. */
function escaped (text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

/**
 * Renders the Markdown that the API description uses as HTML: paragraphs, headings, lists, tables
 * and code. All other text is escaped.
 */
function markdownHtml (text: string): string {
  return text.trim().split(/\n{2,}/).map(block => blockHtml(block.split('\n'))).join('\n')
}

/** Renders a line: code in backticks, and links. */
function lineHtml (line: string): string {
  return escaped(line)
    .replace(/`([^`]+)`/g, '<code>$1</code>')
    .replace(/\[([^\]]+)\]\((\/[^)\s]*)\)/g, '<a href="$2">$1</a>')
}

function blockHtml (lines: readonly string[]): string {
  const first = lines[0] ?? ''
  const heading = /^(#{1,4}) (.*)/.exec(first)
  if (heading !== null) return headingHtml(heading, lines.slice(1))
  if (lines.every(line => line.startsWith('|'))) return tableHtml(lines)
  if (lines.every(line => line.startsWith('    '))) return blockCodeHtml(lines)
  if (first.startsWith('- ')) {
    // Other lines continue the item before them.
    const items = lines.join('\n').split(/^- /m).slice(1)
      .map(text => `<li>${lineHtml(text.trim().replace(/\n\s*/g, ' '))}</li>`)
    return `<ul>${items.join('')}</ul>`
  }
  return `<p>${lineHtml(lines.join(' '))}</p>`
}

function headingHtml ([, marks = '', title = '']: RegExpExecArray, rest: readonly string[]) {
  const tag = `h${Math.max(2, marks.length)}`
  return `<${tag} id="${toSlug(title)}">${lineHtml(title)}</${tag}>` +
    (rest.length === 0 ? '' : blockHtml(rest))
}

/** The anchor of a heading. */
function toSlug (title: string): string {
  return title.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-').replaceAll(/^-|-$/g, '')
}

const blockCodeHtml = (lines: readonly string[]) =>
  `<pre class="code" tabindex="0"><code>${escaped(lines.map(line => line.slice(4)).join('\n'))}` +
  '</code></pre>'

function tableHtml (lines: readonly string[]): string {
  const [head = [], , ...rows] = lines.map(line =>
    line.split(/(?<!\\)\|/).slice(1, -1).map(cell => cell.trim().replaceAll('\\|', '|')))
  // A wide table scrolls by itself in a small window, also with the keyboard.
  return `<div class="scroll" tabindex="0" role="group" aria-label="${escaped(head.join(', '))}">` +
    `<table><thead>${rowHtml('th', head)}</thead>` +
    `<tbody>${rows.map(cells => rowHtml('td', cells)).join('')}</tbody></table></div>`
}

function rowHtml (tag: 'th' | 'td', cells: readonly string[]): string {
  return `<tr>${cells.map(cell => `<${tag}>${lineHtml(cell)}</${tag}>`).join('')}</tr>`
}
