import Schema from 'typebox/schema'
import { describe, expect, it } from 'vitest'
import { API_SERVICES } from '../../../../schemas/api/parts.ts'
import { EXAMPLE_ROW } from '../../../../schemas/api/results.ts'
import { COUNTRY_CODES, COUNTRY_PATTERN } from '../../../../schemas/api/country.ts'
import { ERRORS } from '../../../../services/ingest/errors.ts'
import type { Content } from '../../../../services/ingest/openapi/document.ts'
import { describeRoutes } from '../../../../services/ingest/openapi/describe.ts'
import { routesOf } from '../../../../services/ingest/routes.ts'
import { columnsOf } from '../../../../services/jobs/results/columns.ts'
import { SERVICE_SLUGS } from '../../../../services/topology.ts'
import { MAGIC_EMAILS, MAGIC_PHONES } from '../../../../services/verify/providers/sandbox.ts'
import { doubles, settings } from '../doubles.ts'

const document = await describeRoutes(routesOf(doubles(), settings))
const shared = document.components['examples'] as Record<string, { readonly value: unknown }>
const operations = [...Object.values(document.paths), ...Object.values(document.webhooks ?? {})]
  .flatMap(item => Object.values(item))

/** All examples of a content, with the schema each is of. */
function examplesIn (content: Content = {}) {
  return Object.entries(content).flatMap(([type, { schema, example, examples = {} }]) => {
    const several = Object.entries(examples).map(([name, it]) =>
      '$ref' in it ? shared[name]?.value : (it as { readonly value: unknown }).value)
    return (example === undefined ? several : [example]).map(value => ({ type, schema, value }))
  })
}

/** Bytes that a description has no example of. */
const IS_BINARY = /spreadsheetml|parquet/

describe('the examples of the description', () => {
  it('are there for every body and every answer that has one, and fit', () => {
    const bare: string[] = []
    for (const { operationId, requestBody, responses } of operations) {
      const contents = Object.entries(responses).map(([status, { content }]) => [status, content])
      for (const [name, content] of [...contents, ['body', requestBody?.content]] as const) {
        if (content === undefined) continue
        const found = examplesIn(content as Content)
        const types = new Set(found.map(({ type }) => type))
        const texts = Object.keys(content).filter(type => !IS_BINARY.test(type))
        if (types.size < texts.length) bare.push(`${operationId} ${String(name)}`)
        for (const { schema, value } of found) {
          expect([operationId, name, Schema.Check(schema as never, value)])
            .toEqual([operationId, name, true])
        }
      }
    }
    // Documents, which are examples of themselves.
    const documents = ['getOpenApi 200', 'getDocs 200', 'getChangelog 200']
    expect(bare.filter(answer => !documents.includes(answer)),
      'add examples to the schemas of these (CONTRIBUTING, An endpoint, 1)').toEqual([])
    expect(bare).toEqual(documents)
  })

  it('of errors are there once for each code', () => {
    expect(Object.keys(shared).sort()).toEqual(Object.keys(ERRORS).sort())
    expect(shared['insufficient_balance']?.value).toMatchObject({
      error: { code: 'insufficient_balance', requiredMicros: 4_000, availableMicros: 1_500 },
    })
  })

  it('have the columns of a result', () => {
    const { checks: _checks, ...cells } = EXAMPLE_ROW
    expect(Object.keys(cells)).toEqual(columnsOf('phone-validation'))
  })
})

describe('what the description lists', () => {
  it('are the services of the pipeline', () => {
    expect(API_SERVICES).toEqual(SERVICE_SLUGS)
  })

  it('are the countries, in any case and no other text', () => {
    const pattern = new RegExp(COUNTRY_PATTERN, 'u')
    for (const code of COUNTRY_CODES) {
      expect([code, pattern.test(code), pattern.test(code.toLowerCase())])
        .toEqual([code, true, true])
    }
    const letters = Array.from({ length: 26 }, (_, n) => String.fromCharCode(65 + n))
    const all = letters.flatMap(first => letters.map(second => first + second))
    expect(all.filter(code => pattern.test(code))).toEqual(COUNTRY_CODES.toSorted())
    expect(['', 'U', 'USA', ' US', 'ÜS'].filter(text => pattern.test(text))).toEqual([])
  })

  it('is every magic input of test keys', () => {
    for (const { magic, means } of MAGIC_PHONES) {
      expect(document.info.description).toContain(`| phone ending in \`${magic}\` | ${means} |`)
    }
    for (const { magic, means } of MAGIC_EMAILS) {
      expect(document.info.description).toContain(`| e-mail \`${magic}@...\` | ${means} |`)
    }
    expect(document.info.description)
      .toContain('| phone `+15005550402` | the job or the quote is refused')
  })
})
