import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { OpenApiDocument } from '../../../../services/ingest/openapi/document.ts'
import {
  fieldsHtml, sharedCodes, documentPage, PAGE_POLICY,
} from '../../../../services/ingest/openapi/page.ts'
import { withSamples } from '../../../../services/ingest/openapi/samples.ts'
import { describeRoutes } from '../../../../services/ingest/openapi/describe.ts'
import { routesOf } from '../../../../services/ingest/routes.ts'
import { doubles, settings } from '../doubles.ts'

const document = await describeRoutes(routesOf(doubles(), settings))
const page = documentPage(document)
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

  it('runs and wears only what its policy names, and loads nothing', () => {
    const inline = [...page.matchAll(/<(?:script|style)>([^]*?)<\/(?:script|style)>/g)]
    const hashes = inline.map(([, text = '']) =>
      createHash('sha256').update(text).digest('base64'))
    expect(hashes).toHaveLength(2)
    for (const hash of hashes) expect(PAGE_POLICY).toContain(`'sha256-${hash}'`)
    expect(page).not.toMatch(/<link|<script |src=|@import|url\(| on\w+="| style="/)
  })

  it('shows text as text', () => {
    const odd = documentPage({ ...document, info: { title: '<b>"&', version: '' } })
    expect(odd).toContain('<h1>&lt;b&gt;&quot;&amp; API</h1>')
  })
})

describe('errors', () => {
  const operation = (...codes: readonly string[]) => ({
    method: 'get',
    path: '/',
    described: {
      security: [{}],
      responses: { 400: { description: codes.map(code => `\`${code}\`: Why.`).join('\n\n') } },
    },
  })

  it('that every operation with a key has are listed separately', () => {
    expect([...sharedCodes([operation('a', 'b'), operation('b', 'c')])]).toEqual(['b'])
    expect([...sharedCodes([])]).toEqual([])
  })
})

describe('the samples of code', () => {
  it('are written from the example of a body, and by the path', () => {
    const bare = { ...document, paths: { '/api/v1/jobs/{id}': { get: { operationId: 'getJob' } } } }
    const routes = routesOf(doubles(), settings)
    const { paths } = withSamples(bare as unknown as OpenApiDocument, routes)
    expect(paths['/api/v1/jobs/{id}']?.['get']?.['x-codeSamples']?.[0]?.source)
      .toBe('curl "$BASE/jobs/$JOB" \\\n  -H "Authorization: Bearer $KEY"')
    const made = document.paths['/api/v1/jobs']?.['post']?.['x-codeSamples']
    expect(made?.[0]?.source).toContain('"inputs": [\n    "+12127365000",')
    expect(made?.[1]?.source).toContain("  inputs: [\n    '+12127365000',")
  })

  it('are there for every operation that needs a key, and for events', () => {
    const labels = operations.filter(({ operation }) => operation.security?.length !== 0)
      .map(({ operation }) => operation['x-codeSamples']?.map(({ label }) => label).join(', '))
    const forFiles = labels.filter(label => label === 'curl, TypeScript, curl with a file')
    expect(forFiles).toHaveLength(2)
    expect(labels.slice(0, -6).filter(label => label !== forFiles[0]))
      .toEqual(Array(20).fill('curl, TypeScript'))
    expect(labels.slice(-6)).toEqual(Array(6).fill('TypeScript, by hand'))
  })
})

describe('the fields of a body', () => {
  it('are described with their type, limits and path', () => {
    const items = { type: 'object', properties: { b: { type: 'string' } } }
    const schema = {
      required: ['a'],
      properties: {
        a: { type: 'array', minItems: 1, maxItems: 2_000, items },
        c: { type: ['integer', 'null'], minimum: 0, maximum: 9, default: 0 },
        d: { enum: ['x', '<'], description: 'A `d`.' },
      },
    }
    const html = fieldsHtml(schema, { isRequest: true })
    const texts = html.replaceAll(/<[^>]+>/g, ' ').replaceAll(/ +/g, ' ')
    expect(texts).toContain(' a array of object, 1 to 2,000 items required ')
    expect(texts).toContain(' c integer or null, 0 to 9, 0 by default ')
    expect(html).toContain('<code>&lt;</code></p><p>A <code>d</code>.</p>')
    expect(html).toContain('<code class="name">a[].b</code>')
    expect(fieldsHtml(schema, { isRequest: false })).not.toContain('required')
  })
})
