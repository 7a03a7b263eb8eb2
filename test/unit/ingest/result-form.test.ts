import { describe, expect, it } from 'vitest'
import { ApiException } from '../../../services/ingest/errors.ts'
import { formError, resultForm } from '../../../services/ingest/results-response.ts'

describe('the form of results', () => {
  it.each([
    [undefined, 'csv'], ['', 'csv'], ['*/*', 'csv'], ['text/*', 'csv'], ['application/*', 'json'],
    ['application/json', 'json'], ['application/x-ndjson', 'jsonl'],
    ['text/csv;q=0.1, application/x-ndjson;q=0.2', 'jsonl'],
    ['application/json, text/csv', 'csv'],
  ])('is chosen by the header %j: %s', (accept, form) => {
    expect(resultForm({}, accept)).toBe(form)
  })

  it('is chosen by the query first', () => {
    expect(resultForm({ format: 'jsonl' }, '*/*')).toBe('jsonl')
    expect(resultForm({ format: 'csv' }, 'application/json;q=0.9, text/csv;q=0.1')).toBe('csv')
  })

  it.each([
    [{}, 'image/png', ['text/csv', 'application/json', 'application/x-ndjson']],
    [{ format: 'json' }, 'text/csv', ['application/json']],
  ] as const)('is none for %j and %s', (query, accept, available) => {
    expect(() => resultForm(query, accept)).toThrow(ApiException)
    try {
      resultForm(query, accept)
    } catch (error) {
      expect((error as ApiException).fault).toEqual({ code: 'not_acceptable', more: { available } })
    }
  })
})

describe('a field of the query', () => {
  it('is refused where its format is not the requested one', () => {
    expect(formError({ limit: 7 }, 'jsonl')).toMatchObject({
      code: 'invalid_request', param: 'limit',
    })
    expect(formError({ safe: 'spreadsheet' }, 'json')?.message)
      .toBe('safe is for the form csv only. Leave it out, or send format=csv.')
    expect(formError({ status: ['valid'], limit: 7 }, 'json')).toBeUndefined()
    expect(formError({ safe: 'spreadsheet', format: 'csv' }, 'csv')).toBeUndefined()
  })
})
