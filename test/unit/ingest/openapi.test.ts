import Schema from 'typebox/schema'
import { describe, expect, it } from 'vitest'
import { COUNTRY_CODES, COUNTRY_PATTERN } from '../../../schemas/api/country.ts'
import { type ErrorCode, ERRORS, httpStatus } from '../../../services/ingest/errors.ts'
import {
  type Content, describeRoutes, type OpenApiDocument, openapiText, type Operation,
} from '../../../services/ingest/openapi.ts'
import { openapiSource, createRoutes } from '../../../services/ingest/routes.ts'
import { MAGIC_EMAILS, MAGIC_PHONES } from '../../../services/verify/providers/sandbox.ts'
import { doubles, settings } from './doubles.ts'

const routes = createRoutes(doubles(), settings)
const document = JSON.parse(openapiSource()) as OpenApiDocument
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method, operation })))

describe('the description of the interface', () => {
  it('has every route, with an id, a summary and answers', () => {
    expect(operations.map(({ method, path }) => `${method} ${path}`).sort()).toEqual(
      routes.map(({ method, url }) =>
        `${String(method).toLowerCase()} ${url.replace(/:(\w+)/g, '{$1}')}`).sort())
    const ids = operations.map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(operations.length)
    expect(ids).not.toContain(undefined)
    expect(operations.filter(({ operation }) => !operation.summary)).toEqual([])
  })

  it('has every name in a path as its parameter', () => {
    const places = operations.map(({ path, operation: { operationId, parameters = [] } }) => ({
      operationId,
      named: [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name),
      described: parameters.filter(it => it.in === 'path' && it.required).map(({ name }) => name),
    }))
    expect(places.filter(({ named }) => named.length > 0).length).toBeGreaterThan(10)
    for (const { operationId, named, described } of places) {
      expect([operationId, described.toSorted()]).toEqual([operationId, named.toSorted()])
    }
  })

  it('has every code of the one table, under its status', () => {
    const described = new Map<string, string[]>()
    for (const { operation } of operations) {
      for (const [status, { description }] of Object.entries(operation.responses)) {
        for (const [, code = ''] of description.matchAll(/^`(\w+)`:/gm)) {
          described.set(code, [...described.get(code) ?? [], status])
        }
      }
    }
    const everywhere = ['method_not_allowed']
    for (const code of Object.keys(ERRORS) as ErrorCode[]) {
      expect(document.info.description).toContain(`| ${httpStatus(code)} | \`${code}\` |`)
      if (everywhere.includes(code)) continue
      expect([code, [...new Set(described.get(code))]]).toEqual([code, [String(httpStatus(code))]])
    }
  })

  it('marks what is to go', async () => {
    const since = new Date()
    const deprecation = { since, until: since, guide: '/changelog' }
    const { paths } = describeRoutes(routes.map(route =>
      route.method === 'GET' && route.url === '/api/v1/jobs'
        ? { ...route, config: { ...route.config, deprecation } }
        : route))
    expect(paths['/api/v1/jobs']?.['get']?.deprecated).toBe(true)
    expect(Object.keys(paths['/api/v1/jobs']?.['get']?.responses[200]?.headers ?? {}))
      .toEqual(expect.arrayContaining(['Deprecation', 'Sunset', 'Link']))
    expect(paths['/api/v1/jobs']?.['post']?.deprecated).toBeUndefined()
  })

  it('links an answer to the operations that take its ids', async () => {
    const { paths } = describeRoutes(routes)
    const linksOf = (path: string, method: string, status: string) =>
      paths[path]?.[method]?.responses[status]?.links ?? {}
    expect(linksOf('/api/v1/jobs', 'post', '202')).toMatchObject({
      cancelJob: { operationId: 'cancelJob', parameters: { id: '$response.body#/id' } },
    })
    expect(linksOf('/api/v1/jobs/{id}/deliveries', 'get', '200')).toEqual({
      resendDelivery: {
        operationId: 'resendDelivery',
        parameters: {
          id: '$request.path.id', deliveryId: '$response.body#/data/0/deliveryId',
        },
      },
    })
    const linked = new Set(Object.values(paths).flatMap(item => Object.values(item))
      .flatMap(({ responses }) => Object.values(responses))
      .flatMap(({ links = {} }) => Object.keys(links)))
    const withIds = Object.entries(paths).filter(([path]) => path.includes('{'))
      .flatMap(([, item]) => Object.values(item).map(({ operationId }) => operationId))
    expect(withIds.filter(id => !linked.has(id ?? ''))).toEqual([])
  })

  const withSchemas = (...schemas: readonly object[]) => JSON.parse(openapiText({
    openapi: '3.1.0',
    info: { title: '', version: '' },
    components: { headers: {} },
    paths: {
      '/': {
        get: {
          responses: Object.fromEntries(schemas.map((schema, index) => [200 + index, {
            description: '', content: { 'application/json': { schema, example: { title: 'A' } } },
          }])),
        },
      },
    },
  })) as OpenApiDocument

  it('refuses two schemas with the same title', () => {
    expect(() => withSchemas({ title: 'A', type: 'string' }, { title: 'A', type: 'object' }))
      .toThrow('two different schemas have the title A: rename one of them')
  })

  it('has a name for every body of a successful answer that is an object', () => {
    const bare = operations.flatMap(({ operation: { operationId, responses } }) =>
      Object.entries(responses).filter(([status]) => status.startsWith('2'))
        .flatMap(([, { content = {} }]) => Object.values(content))
        .filter(({ schema }) => 'properties' in schema).map(() => operationId))
    expect(bare).toEqual([])
  })
})

/** With all schemas in place, which the file has once. */
const described = describeRoutes(routes)
const shared = described.components['examples'] as Record<string, { readonly value: unknown }>

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

it('the examples of the description ' +
  'are there for every body and every answer that has one, and fit', () => {
  const bare: string[] = []
  const items = [...Object.values(described.paths), ...Object.values(described.webhooks ?? {})]
  for (const { operationId, requestBody, responses } of items.flatMap(Object.values<Operation>)) {
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
    'add examples to the schemas of these (CONTRIBUTING, An endpoint, 2)').toEqual([])
  expect(bare).toEqual(documents)
})

/** ISO 3166-1 alpha-2 as published, and three other codes in common use. */
const COUNTRIES = `AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM
BN BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM
DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW
GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA
LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ
NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW
SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR
TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW XK AC TA`.split(/\s/)

describe('what the description lists', () => {
  it('are the countries, in any case and no other text', () => {
    const pattern = new RegExp(COUNTRY_PATTERN, 'u')
    for (const code of COUNTRY_CODES) {
      expect([code, pattern.test(code), pattern.test(code.toLowerCase())])
        .toEqual([code, true, true])
    }
    const letters = Array.from({ length: 26 }, (_, n) => String.fromCharCode(65 + n))
    const all = letters.flatMap(first => letters.map(second => first + second))
    expect(all.filter(code => pattern.test(code))).toEqual(COUNTRIES.toSorted())
    expect(['', 'U', 'USA', ' US', 'ÜS'].filter(text => pattern.test(text))).toEqual([])
  })

  it('is every magic input of test keys', () => {
    for (const { magic, means } of MAGIC_PHONES) {
      expect(document.info.description).toContain(`| phone ending in \`${magic}\` | ${means} |`)
    }
    for (const { magic, means } of MAGIC_EMAILS) {
      expect(document.info.description).toContain(`| e-mail \`${magic}@...\` | ${means} |`)
    }
  })
})
