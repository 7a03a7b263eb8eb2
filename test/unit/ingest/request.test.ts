import Fastify from 'fastify'
import { Type } from 'typebox'
import { Check } from 'typebox/value'
import { describe, expect, it } from 'vitest'
import { ListJobsQuerySchema } from '../../../schemas/api/job.ts'
import { UsageQuerySchema } from '../../../schemas/api/account.ts'
import { readQueryFields, timeRange } from '../../../services/ingest/request.ts'

describe('the fields of a query', () => {
  /** The query as it is validated. */
  async function read (query: string): Promise<unknown> {
    const app = Fastify()
    readQueryFields(app)
    app.setValidatorCompiler(() => () => true)
    const querystring = Type.Object({
      limit: Type.Integer(),
      after: Type.String(),
      columns: Type.Array(Type.String()),
      metadata: Type.Object({}),
    })
    app.get('/', { schema: { querystring } }, async ({ query }) => query)
    return (await app.inject(`/?${query}`)).json()
  }

  it.each([
    ['limit=7', 7], ['limit=0', 0], ['limit=999999999', 999_999_999], ['limit=07', '07'],
    ['limit=1e2', '1e2'], ['limit=-1', '-1'], ['limit=', ''], ['limit=1.0', '1.0'],
    ['limit=9999999999', '9999999999'], ['limit=1&limit=2', ['1', '2']],
  ])('are numbers as far as they are whole: %s', async (query, limit) => {
    expect(await read(`${query}&after=7`)).toEqual({ limit, after: '7' })
  })

  it('are lists and labels, and are left alone without a schema', async () => {
    expect(await read('columns=a,b&metadata[x]=1&metadata[__proto__]=2&metadata=3&other[x]=4'))
      .toEqual({
        columns: ['a', 'b'],
        metadata: JSON.parse('{"x":"1","__proto__":"2"}'),
        'other[x]': '4',
      })
  })
})

const range = (from?: unknown, to?: unknown) => timeRange({ from, to }, { from: 'from', to: 'to' })
const ms = (text: string) => Date.parse(text)

describe('a time range of a query', () => {
  it('includes the whole day of a date, and ends before a timestamp', () => {
    expect(range('2026-08-10', '2026-08-10'))
      .toEqual({ fromMs: ms('2026-08-10T00:00Z'), toMs: ms('2026-08-11T00:00Z') })
    expect(range('2026-08-10T01:00+01:00', '2026-08-10T00:00:00.001Z'))
      .toEqual({ fromMs: ms('2026-08-10T00:00Z'), toMs: ms('2026-08-10T00:00Z') + 1 })
    expect(range()).toEqual({})
  })

  it.each([
    '', 'now', '1754899200', '2026-8-1', '2026-13-01', '2026-08-32', '2026-08-10T',
    '2026-08-10T25:00Z', '2026-08-10T10:00', '2026-08-10 10:00Z', '2026-08-10T10:00 01:00',
    '1999-12-31', '2100-01-01', '-002026-08-10', '2026-08-10T10:00Z\n', '２０２６-08-10',
  ])('has a schema that rejects %j', text => {
    expect([Check(UsageQuerySchema, { from: text }),
      Check(ListJobsQuerySchema, { created_to: text })]).toEqual([false, false])
  })

  it.each(['2026-02-29', '2026-02-30T10:00Z'])('rejects %j, which its schema takes', text => {
    expect(Check(UsageQuerySchema, { from: text })).toBe(true)
    expect(() => range(text)).toThrow(expect.objectContaining({
      fault: expect.objectContaining({ code: 'invalid_request', param: 'from' }),
    }))
    expect(() => range(undefined, text)).toThrow()
  })

  it('rejects an end that is not after its beginning', () => {
    expect(() => range('2026-08-11', '2026-08-10')).toThrow()
    expect(() => range('2026-08-10T10:00Z', '2026-08-10T10:00Z')).toThrow()
  })
})
