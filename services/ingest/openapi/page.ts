import type {
  Answer, Content, OpenApiDocument, Operation, Parameter, Paths,
} from './document.ts'

const STYLE = `
  body { font: 16px/1.5 system-ui, sans-serif }
  body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
  code, pre { font-family: ui-monospace, monospace; font-size: 90% }
  pre { white-space: pre-wrap } summary { cursor: pointer; padding: .4rem 0 }
  table { border-collapse: collapse; width: 100% }
  td { border-top: 1px solid #8884; padding: .3rem .6rem; vertical-align: top }
  .method { display: inline-block; min-width: 4rem; font-weight: 600 }
  .deprecated { text-decoration: line-through } :root { color-scheme: light dark }`

type Placed = {
  readonly method: string
  readonly path: string
  readonly described: Operation
}

/** The description as one page of HTML, which loads nothing and runs nothing. */
export function documentPage (document: OpenApiDocument): string {
  const { info, tags = [], paths, webhooks = {} } = document
  const operations = [...operationsIn(paths), ...operationsIn(webhooks)]
  const sections = tags.map(({ name, description = '' }) => {
    const own = operations.filter(({ described }) => described.tags?.includes(name))
    return `<h2>${safe(name)}</h2><p>${safe(description)}</p>${own.map(operationHtml).join('')}`
  })
  return `<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>${safe(info.title)}</title>
<style>${STYLE}</style></head><body>
<h1>${safe(info.title)} <small>${safe(info.version)}</small></h1>
<p><a href="/openapi.json">OpenAPI 3.1</a> · <a href="/changelog">Changelog</a></p>
<pre>${safe(info.description ?? '')}</pre>
${sections.join('\n')}
</body></html>
`
}

function operationsIn (paths: Paths): readonly Placed[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, described]) => ({ method, path, described })))
}

function operationHtml ({ method, path, described }: Placed): string {
  const { summary = '', description = '', parameters = [], requestBody, responses } = described
  const name = described.deprecated === true ? 'deprecated' : ''
  return `<details id="${safe(described.operationId ?? '')}">
<summary><span class="method">${safe(method.toUpperCase())}</span>
<code class="${name}">${safe(path)}</code> ${safe(summary)}</summary>
<p>${safe(description)}</p>${parametersHtml(parameters)}
${requestBody === undefined ? '' : `<h4>Body</h4>${contentHtml(requestBody.content)}`}
<h4>Answers</h4><table>${Object.entries(responses).map(answerHtml).join('')}</table></details>`
}

function parametersHtml (parameters: readonly Parameter[]): string {
  if (parameters.length === 0) return ''
  const rows = parameters.map(({ name, in: place, required, description = '' }) =>
    `<tr><td><code>${safe(name)}</code></td><td>${safe(place)}` +
    `${required === true ? '' : ', optional'}</td><td>${safe(description)}</td></tr>`)
  return `<h4>Parameters</h4><table>${rows.join('')}</table>`
}

function answerHtml (
  [status, { description, content = {} }]: readonly [string, Answer]
): string {
  const shape = /^2/.test(status) ? contentHtml(content) : ''
  return `<tr><td>${safe(status)}</td><td><pre>${safe(description)}</pre>${shape}</td></tr>`
}

function contentHtml (content: Content): string {
  return Object.entries(content).map(([type, { schema }]) =>
    `<details><summary><code>${safe(type)}</code></summary>` +
    `<pre>${safe(JSON.stringify(schema, null, 2))}</pre></details>`).join('')
}

function safe (text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
