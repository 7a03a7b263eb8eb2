import { describe, expect, it } from 'vitest'
import type { ResultsQuery } from '../../../schemas/api/results.ts'
import { type ResultSelection, selectionOf } from '../../../services/ingest/results-response.ts'
import { columnsOf, rowFieldsOf } from '../../../services/jobs/results/columns.ts'

const service = 'email-validation'
const select = (query: ResultsQuery, form: 'csv' | 'json' | 'jsonl' = 'csv') =>
  selectionOf(query, service, form) as ResultSelection

describe('the selection of results', () => {
  it('is everything that the form has by default', () => {
    expect(select({})).toMatchObject({
      keep: undefined, columns: columnsOf(service), isWhole: true,
    })
    for (const form of ['json', 'jsonl'] as const) {
      expect(select({}, form).columns).toEqual(rowFieldsOf(service))
    }
  })

  it('has the columns of the query in its order', () => {
    expect(select({ columns: ['status', 'email'] }))
      .toMatchObject({ columns: ['status', 'email'], isWhole: false })
    expect(select({ columns: ['checks'] }, 'json').columns).toEqual(['checks'])
  })

  it.each([
    ['mcc', 'json'], ['checks', 'csv'],
  ] as const)('has no column %s of %s results', (column, form) => {
    const error = selectionOf({ columns: ['row', column] }, service, form)
    expect(error).toMatchObject({
      code: 'invalid_request',
      param: 'columns',
      message: expect.stringContaining(`columns has ${column}, which is not a column of ` +
        `email-validation as ${form}. It can have: row, input,`),
    })
  })

  it('takes countries in any case', () => {
    const fields = rowFieldsOf('phone-validation')
    const cells = fields.map(name => name === 'country' ? 'DE' : '')
    const { keep } =
      selectionOf({ country: ['de'] }, 'phone-validation', 'json') as ResultSelection
    expect(keep?.(cells)).toBe(true)
  })

  it('has a word of its own for the entity tag', () => {
    const queries: readonly ResultsQuery[] = [
      {}, { status: ['valid'] }, { source: ['live'] }, { status: ['valid', 'risky'] },
      { reason: ['timeout'] }, { line_type: ['mobile'] }, { country: ['US'] },
      { duplicates: 'drop' }, { columns: ['row'] }, { columns: ['row', 'input'] },
      { columns: ['input', 'row'] }, { columns: ['row'], duplicates: 'drop' },
    ]
    expect(new Set(queries.map(query => select(query).word)).size).toBe(queries.length)
    expect(select({ country: ['us'] }).word).toBe(select({ country: ['US'] }).word)
  })
})
