import { describe, expect, it } from 'vitest'
import { at, failureIn, readAnswers } from '../../../../services/verify/providers/http-answer.ts'
import type { HttpVendor } from '../../../../services/verify/providers/http-vendor.ts'
import { batchDescription } from '../../../support/vendors/vendor.ts'

const requested = [
  { row: 7, canonical: '+12127365000', reference: 900 },
  { row: 3, canonical: 'Jane@x.org', reference: 901 },
]
const described = batchDescription('https://api.example')
const vendorOf = (response: object = {}, more: object = {}) => ({
  ...described, ...more, response: { ...described.response, ...response },
}) as unknown as HttpVendor

async function read (body: unknown, response: object = {}) {
  return (await readAnswers(vendorOf(response), body, { requested, service: 'whatsapp' }))
    .map(({ row, verdict }) => `${row} ${verdict.status} ${verdict.reason}`)
}

describe('a JSON pointer into a vendor response', () => {
  const value = { a: [{ 'b/c': 1, 'd~e': 2, '': 3 }], n: null }
  it.each([
    ['', value], ['/a/0/b~1c', 1], ['/a/0/d~0e', 2], ['/a/0/', 3], ['/a/1', undefined],
    ['/n/x', undefined], ['/n', null], ['/a/length', 1], ['/toString', undefined],
    ['/__proto__', undefined],
  ])('%s finds its value', (pointer, expected) => {
    expect(at(value, pointer)).toEqual(expected)
  })
})

describe('the answer of a described vendor', () => {
  const entry = { ref: '900', number: '(00) 1 212-736 5000', state: 'REGISTERED' }

  it('is matched by reference and contact, which must be of the same row', async () => {
    expect(await read({ results: [entry] })).toEqual(['7 valid registered'])
    expect(await read({ results: [{ ...entry, ref: 900 }] })).toEqual(['7 valid registered'])
    for (const strange of [{ ref: '901' }, { number: '+442071838750' }, { ref: undefined }]) {
      expect(await read({ results: [{ ...entry, ...strange }] })).toEqual([])
    }
  })

  it('can be an object with references or contacts as keys', async () => {
    const state = { state: 'ABSENT' }
    expect(await read({ 900: state, 5: state }, { rows: '', match: { key: 'row' } }))
      .toEqual(['7 invalid not_registered'])
    const byContact = { rows: '/all', match: { key: 'contact' } }
    expect(await read({ all: { 'jane@X.org ': state } }, byContact))
      .toEqual(['3 invalid not_registered'])
  })

  it('to a single row needs no match', async () => {
    expect(await read({ state: 'ABSENT' }, { rows: undefined, match: undefined }))
      .toEqual(['7 invalid not_registered'])
  })

  it('is unknown with an undescribed value or two different values', async () => {
    expect(await read({ results: [{ ...entry, state: 'MAYBE' }] }))
      .toEqual(['7 unknown unclear_answer'])
    expect(await read({ results: [{ ...entry, state: 'constructor' }] }))
      .toEqual(['7 unknown unclear_answer'])
    expect(await read({ results: [{ ...entry, state: null }] })).toEqual(['7 unknown no_answer'])
    expect(await read({ results: [entry, entry] })).toEqual(['7 valid registered'])
    expect(await read({ results: [entry, { ...entry, state: 'ABSENT' }] }))
      .toEqual(['7 unknown unclear_answer'])
  })

  it('has no verdicts if it has far more entries than rows, or a late one within the limit',
    async () => {
      const others = (count: number) => Array.from({ length: count }, () => ({ ref: '0' }))
      expect(await read({ results: [...others(103), entry] })).toEqual(['7 valid registered'])
      expect(await read({ results: [...others(104), entry] })).toEqual([])
      const byKey = Object.fromEntries(others(105).map((other, index) => [`k${index}`, other]))
      expect(await read({ ...byKey, 900: entry }, { rows: '', match: { key: 'row' } })).toEqual([])
    })

  it('can have its own reason; an unknown one has no confidence and no fields', async () => {
    const response = {
      verdict: { pointer: '/state', values: { X: { status: 'unknown', reason: 'no_answer' } } },
      reason: { pointer: '/why', values: { gone: 'line_disconnected' } },
    }
    const results = [{ ...entry, state: 'X', why: 'gone', carrier: 'Example Mobile' }]
    const options = { requested, service: 'whatsapp' } as const
    expect(await readAnswers(vendorOf(response), { results }, options)).toEqual([{
      row: 7,
      verdict: { status: 'unknown', reason: 'line_disconnected', confidence: 0, fields: {} },
    }])
  })

  it.each([undefined, null, 1, 'text', [], {}, { results: 'x' }, { results: [null, 1, []] }])(
    'in the response %o has no rows', async (body) => { expect(await read(body)).toEqual([]) })
})

describe('an error field in a vendor response', () => {
  const field = {
    pointer: '/code', values: { limit: 'rate_limited' }, fine: ['0'], otherwise: 'unavailable',
  }
  const vendor = vendorOf({}, { errors: { field } })

  it('has the described failure, with any status', () => {
    expect(failureIn(vendor, { code: 'limit' }, true)).toBe('rate_limited')
    expect(failureIn(vendor, { code: 'limit' }, false)).toBe('rate_limited')
    expect(failureIn(vendor, { code: 'other' }, true)).toBe('unavailable')
    expect(failureIn(vendor, { code: 'other' }, false)).toBeUndefined()
    expect(failureIn(vendor, { code: 0 }, true)).toBeUndefined()
    expect(failureIn(vendor, {}, true)).toBeUndefined()
    expect(failureIn(vendor, undefined, true)).toBeUndefined()
  })
})
