import type { FastifyRequest } from 'fastify'
import { expect, it } from 'vitest'
import { numbersInQuery } from '../../../services/ingest/query-fields.ts'

it.each([
  ['7', 7], ['0', 0], ['999999999', 999_999_999], ['07', '07'], ['1e2', '1e2'], ['-1', '-1'],
  ['', ''], ['1.0', '1.0'], ['9999999999', '9999999999'], [['1', '2'], ['1', '2']],
])('the text %j becomes %j', async (text, value) => {
  const request = { query: { limit: text, after: '7' } } as unknown as FastifyRequest
  await numbersInQuery('limit')(request)
  expect(request.query).toEqual({ limit: value, after: '7' })
})
