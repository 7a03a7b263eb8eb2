import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { describeRoutes, type OpenApiDocument } from '../../../../services/ingest/openapi.ts'
import { createRoutes } from '../../../../services/ingest/routes.ts'
import { createApiDocuments } from '../../../../services/ingest/routes/docs.ts'
import { application, doubles, settings } from '../doubles.ts'

const routes = createRoutes(doubles(), settings)
const document = describeRoutes(routes)
const pageFor = async (description: OpenApiDocument) =>
  (await createApiDocuments(description)).page.whole.bytes.toString()
const page = await pageFor(document)
const operations = [...Object.entries(document.paths), ...Object.entries(document.webhooks ?? {})]
  .flatMap(([path, item]) => Object.values(item).map(operation => ({ path, operation })))

describe('the page of the description', () => {
  it('has every operation, with a place that the list leads to', () => {
    expect(operations.length).toBeGreaterThan(16)
    for (const { path, operation: { operationId = '' } } of operations) {
      expect(page).toContain(`<code class="">${path}</code>`)
      expect(page).toContain(`id="${operationId}"`)
      expect(page).toContain(`<li><a href="#${operationId}">`)
    }
  })

  it('leads to nothing that is not there', () => {
    const ids = [...page.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id)
    expect(new Set(ids).size).toBe(ids.length)
    const wanted = [...page.matchAll(/href="#([^"]*)"/g)].map(([, id]) => id)
    expect(wanted.filter(id => !ids.includes(id))).toEqual([])
  })

  it('lists errors, test keys and the content of signatures', () => {
    expect(page).toContain('<span class="status">402</span> <code class="name">insufficient_bal')
    expect(page).toContain('<tr><td>phone <code>+15005550402</code></td><td>the job or ')
    expect(page).toContain('X-Service-Signature')
    expect(page).not.toMatch(/\|---|^\| /m)
  })

  it('runs and wears only what its policy names, and loads nothing', async () => {
    const inline = [...page.matchAll(/<(?:script|style)>([^]*?)<\/(?:script|style)>/g)]
    const hashes = inline.map(([, text = '']) => createHash('sha256').update(text).digest('base64'))
    expect(hashes).toHaveLength(2)
    const { headers } = await application().app.inject({ url: '/docs' })
    const policy = headers['content-security-policy']
    for (const hash of hashes) expect(policy).toContain(`'sha256-${hash}'`)
    expect(page).not.toMatch(/<link|<script |src=|@import|url\(| on\w+="| style="/)
  })

  it('shows text as text', async () => {
    const odd = await pageFor({ ...document, info: { title: '<b>"&', version: '' } })
    expect(odd).toContain('<h1>&lt;b&gt;&quot;&amp; API</h1>')
  })
})

const client = readFileSync('services/client/client.ts', 'utf8')
/** Whether our client calls the path: every word of it stands in its code. */
const isInClient = (path: string) => path.replace('/api/v1', '').split('/').slice(1)
  .every(word => word.startsWith('{') || client.includes(`/${word}`))

it('the samples of code are there for every operation that needs a key, and for events', () => {
  for (const { path, operation } of operations) {
    const { operationId = '', security, requestBody: { content = {} } = {} } = operation
    const takesFile = 'application/json' in content && 'text/csv' in content
    const ofRoute = [
      'curl', ...isInClient(path) ? ['TypeScript'] : [], ...takesFile ? ['curl with a file'] : [],
    ]
    const labels = security === undefined ? ['TypeScript', 'by hand'] : ofRoute
    expect([operationId, operation['x-codeSamples']?.map(({ label }) => label)],
      'a route has sample.client if services/client/client.ts has a method for it, or else none')
      .toEqual([operationId, security?.length === 0 ? undefined : labels])
  }
  const events = operations.filter(({ operation }) => operation.security === undefined)
  expect(events).toHaveLength(Object.keys(document.webhooks ?? {}).length)
})

/** The page of one operation, with this text as its introduction. */
const pageOf = (operation: object, description = '') => pageFor({
  ...document,
  info: { title: 'A', version: '', description },
  tags: [{ name: 'T' }],
  paths: { '/a': { get: { operationId: 'a', tags: ['T'], responses: {}, ...operation } } },
  webhooks: {},
})

it('the fields of a body are described with their type, limits and path', async () => {
  const items = { type: 'object', properties: { b: { type: 'string' } } }
  const schema = {
    required: ['a'],
    properties: {
      a: { type: 'array', minItems: 1, maxItems: 2_000, items },
      c: { type: ['integer', 'null'], minimum: 0, maximum: 9, default: 0 },
      d: { enum: ['x', '<'], description: 'A `d`.' },
    },
  }
  const html = await pageOf({ requestBody: { content: { 'application/json': { schema } } } })
  const texts = html.replaceAll(/<[^>]+>/g, ' ').replaceAll(/ +/g, ' ')
  expect(texts).toContain(' a array of object, 1 to 2,000 items required ')
  expect(texts).toContain(' c integer or null, 0 to 9, 0 by default ')
  expect(html).toContain('<code>&lt;</code></p><p>A <code>d</code>.</p>')
  expect(html).toContain('<code class="name">a[].b</code>')
})

it.each([
  ['one\ntwo\n\nthree', '<p>one two</p>\n<p>three</p>'],
  ['# A `b`', '<h2 id="a-b">A <code>b</code></h2>'],
  ['## A\nb', '<h2 id="a">A</h2><p>b</p>'],
  ['### Of Ä & B', '<h3 id="of-b">Of Ä &amp; B</h3>'],
  ['a\n\n    b <\n      c',
    '<p>a</p>\n<pre class="code" tabindex="0"><code>b &lt;\n  c</code></pre>'],
  ['- a\n  b\n- c', '<ul><li>a b</li><li>c</li></ul>'],
  ['| a | b |\n|---|---|\n| `c` | d \\| e |',
    '<div class="scroll" tabindex="0" role="group" aria-label="a, b">' +
    '<table><thead><tr><th>a</th><th>b</th></tr></thead>' +
    '<tbody><tr><td><code>c</code></td><td>d | e</td></tr></tbody></table></div>'],
  ['<b> & "c"', '<p>&lt;b&gt; &amp; &quot;c&quot;</p>'],
  // Links lead to this host alone.
  ['[a](/docs) [b](https://x.example)', '<a href="/docs">a</a> [b](https://x.example)'],
  ['[a](/x"y)', '<a href="/x&quot;y">a</a>'],
])('Markdown of the introduction %j', async (text, html) => {
  expect(await pageOf({}, text)).toContain(html)
})

const ask = (accept?: string) => application().app.inject({
  url: '/', headers: accept === undefined ? {} : { accept },
})

it('the root leads a browser to the page', async () => {
  const answer = await ask('text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8')
  expect([answer.statusCode, answer.headers.location]).toEqual([302, '/docs'])
  expect((await ask('image/png')).statusCode).toBe(406)
})
