import type { OpenApiResponse, CodeSample, Content, Operation } from './document.ts'
import { escaped, lineHtml, markdownHtml } from './markdown.ts'
import { fieldsHtml, parametersHtml } from './page-fields.ts'

/** An operation with its method and path; the path of an event is its name. */
export type Placed = {
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
export function operationHtml (placed: Placed, shared: ReadonlySet<string>): string {
  const { method, path, described } = placed
  const { summary = '', description = '', parameters = [], responses } = described
  const id = escaped(described.operationId ?? '')
  return `<section class="operation" id="${id}" aria-labelledby="${id}-title">
<h3 id="${id}-title"><a href="#${id}">${escaped(summary)}</a></h3>
<p class="address"><span class="method ${escaped(method)}">${escaped(method.toUpperCase())}</span>
<code class="${described.deprecated === true ? 'deprecated' : ''}">${escaped(path)}</code></p>
<div class="columns"><div class="text">
${markdownHtml(description)}
${sectionHtml('Parameters', parametersHtml(parameters))}${requestHtml(described)}
${successesOf(responses).map(successHtml).join('')}
${faultsHtml(faultsOf(described), shared)}
</div><div class="samples">
${samplesHtml(id, described['x-codeSamples'] ?? [])}${examplesHtml(described)}
</div></div></section>`
}

/** The error codes that all operations with a key share. */
export function sharedCodes (operations: readonly Placed[]): ReadonlySet<string> {
  const [first, ...rest] = operations.filter(({ described }) => described.security?.length === 1)
    .map(({ described }) => faultsOf(described).map(({ code }) => code))
  return new Set(first?.filter(code => rest.every(codes => codes.includes(code))))
}

const sectionHtml = (title: string, content: string) =>
  content === '' ? '' : `<h4>${title}</h4>${content}`

function requestHtml ({ requestBody }: Operation): string {
  const [media] = Object.values(requestBody?.content ?? {})
  if (media === undefined) return ''
  return sectionHtml('Body', fieldsHtml(media.schema, { isRequest: true }))
}

const successesOf = (responses: Operation['responses']) =>
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

function faultsOf ({ responses }: Operation): readonly Fault[] {
  return Object.entries(responses).flatMap(([status, { description }]) =>
    [...description.matchAll(/^`(\w+)`: (.*)$/gm)].map(([, code = '', message = '']) =>
      ({ status, code, message })))
}

function faultsHtml (faults: readonly Fault[], shared: ReadonlySet<string>): string {
  if (faults.length === 0) return ''
  const own = faults.filter(({ code }) => !shared.has(code))
  const others = faults.filter(({ code }) => shared.has(code))
  const [heading, list] = own.length === 0 ? ['', ''] : ['<h4>Errors</h4>', faultListHtml(own)]
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
  return sent + successesOf(responses).map(([status, { content = {} }]) =>
    contentHtml(content, `Answer ${status}`)).join('')
}

function contentHtml (content: Content, title: string): string {
  return Object.entries(content).map(([type, { example }]) => example === undefined
    ? ''
    : `<p class="caption">${escaped(title)}, <code>${escaped(type)}</code></p>` +
      codeHtml(textOf(example), `${title}, ${type}`)).join('')
}

function textOf (example: unknown): string {
  return typeof example === 'string' ? example.trimEnd() : JSON.stringify(example, null, 2)
}

/** Wide code scrolls by itself, also with the keyboard. */
function codeHtml (text: string, label: string): string {
  return `<pre class="code" tabindex="0" role="group" aria-label="${escaped(label)}"><code>` +
    `${escaped(text)}</code></pre>`
}
