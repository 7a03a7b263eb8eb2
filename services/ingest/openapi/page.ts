import type {
  Answer, Content, OpenApiDocument, Operation, Parameter, Paths,
} from './document.ts'
import { escaped, lineHtml, markdownHtml } from './markdown.ts'

const STYLE = `
  body { font: 16px/1.5 system-ui, sans-serif }
  body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
  code, pre { font-family: ui-monospace, monospace; font-size: 90% }
  pre { white-space: pre-wrap } .example { background: #8882; padding: .5rem }
  summary { cursor: pointer; padding: .4rem 0 }
  table { border-collapse: collapse; width: 100% }
  th, td { border-top: 1px solid #8884; padding: .3rem .6rem; vertical-align: top }
  th { text-align: left } td > p { margin: 0 }
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
    return `<h2>${escaped(name)}</h2>${markdownHtml(description)}${own.map(operationHtml).join('')}`
  })
  return `<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>${escaped(info.title)}</title>
<style>${STYLE}</style></head><body>
<h1>${escaped(info.title)} <small>${escaped(info.version)}</small></h1>
<p><a href="/openapi.json">OpenAPI 3.1</a> · <a href="/changelog">Changelog</a></p>
${markdownHtml(info.description ?? '')}
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
  return `<details id="${escaped(described.operationId ?? '')}">
<summary><span class="method">${escaped(method.toUpperCase())}</span>
<code class="${name}">${escaped(path)}</code> ${escaped(summary)}</summary>
${markdownHtml(description)}${parametersHtml(parameters)}
${requestBody === undefined ? '' : `<h4>Body</h4>${contentHtml(requestBody.content)}`}
<h4>Answers</h4><table>${Object.entries(responses).map(answerHtml).join('')}</table></details>`
}

function parametersHtml (parameters: readonly Parameter[]): string {
  if (parameters.length === 0) return ''
  const rows = parameters.map(({ name, in: place, required, description = '' }) =>
    `<tr><td><code>${escaped(name)}</code></td><td>${escaped(place)}` +
    `${required === true ? '' : ', optional'}</td><td>${lineHtml(description)}</td></tr>`)
  return `<h4>Parameters</h4><table>${rows.join('')}</table>`
}

function answerHtml (
  [status, { description, content = {} }]: readonly [string, Answer]
): string {
  const shape = /^2/.test(status) ? contentHtml(content) : ''
  return `<tr><td>${escaped(status)}</td><td>${markdownHtml(description)}${shape}</td></tr>`
}

function contentHtml (content: Content): string {
  return Object.entries(content).map(([type, { schema, ...media }]) =>
    `${examplesOf(media).map(exampleHtml).join('')}` +
    `<details><summary>Schema of <code>${escaped(type)}</code></summary>` +
    `<pre>${escaped(JSON.stringify(schema, null, 2))}</pre></details>`).join('')
}

function examplesOf ({ example, examples = {} }: Omit<Content[string], 'schema'>) {
  const several = Object.values(examples).flatMap(it => 'value' in it ? [it.value] : [])
  return example === undefined ? several : [example]
}

function exampleHtml (example: unknown): string {
  const text = typeof example === 'string' ? example : JSON.stringify(example, null, 2)
  return `<pre class="example">${escaped(text)}</pre>`
}
