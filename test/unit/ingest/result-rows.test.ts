import { describe, expect, it } from 'vitest'
import {
  afterRowOf, createRowShape, cursorOf, jsonLines,
} from '../../../services/ingest/results-response.ts'
import { packChecks } from '../../../services/cache/evidence.ts'
import { rowFieldsOf } from '../../../services/jobs/results/columns.ts'

const columns = rowFieldsOf('telegram')
const cellsOf = (values: Readonly<Record<string, string>>) =>
  columns.map(name => values[name] ?? '')
const shape = createRowShape('telegram')
const job = { service: 'telegram', tenant: 'org_1:test' } as const

describe('a row as JSON', () => {
  it('has the columns in their order, with null for what is blank', () => {
    const row = shape(cellsOf({ row: '2', input: '007', confidence: '0', telegram: 'true' }))
    expect(Object.keys(row)).toEqual(columns)
    expect(row).toMatchObject({
      row: 2, input: '007', confidence: 0, telegram: 'true', phone: null, duplicate_of: null,
    })
  })

  it('has the wanted columns only, in the wanted order', () => {
    const some = createRowShape('telegram', ['telegram', 'row'])
    expect(JSON.stringify(some(cellsOf({ row: '1', telegram: 'true' }))))
      .toBe('{"telegram":"true","row":1}')
  })

  it('has the checks that were made, with their outcomes', () => {
    const checksOf = (values: Readonly<Record<string, string>>) => shape(cellsOf(values)).checks
    const evidence = packChecks({ vendor: 'passed', domain: 'caution' })
    expect(checksOf({ source: 'live', checks: String(evidence) }))
      .toEqual({ syntax: 'passed', domain: 'caution', vendor: 'passed' })
    expect(checksOf({ source: 'none', checks: '0' })).toEqual({ syntax: 'passed' })
    expect(checksOf({ source: 'preflight' })).toEqual({ syntax: 'failed' })
    expect(checksOf({ source: 'live' })).toBeNull()
  })

  it('keeps an empty input as it was submitted', () => {
    expect(shape(cellsOf({ row: '1' }))['input']).toBe('')
  })

  it('is one line of many', async () => {
    async function * rows () {
      yield [cellsOf({ row: '1', input: 'a\nb' }), cellsOf({ row: '2' })]
      yield [cellsOf({ row: '3' })]
    }
    const pieces = []
    for await (const piece of jsonLines(job, rows())) pieces.push(piece)
    expect(pieces.length).toBe(2)
    const parsed = pieces.join('').trimEnd().split('\n').map(line => JSON.parse(line))
    expect(parsed.map(({ row, input }) => [row, input])).toEqual([[1, 'a\nb'], [2, ''], [3, '']])
  })
})

describe('lines of rows', () => {
  it('have the wanted columns, and end a piece once it is full', async () => {
    async function * rows () {
      yield Array.from({ length: 3 }, () => cellsOf({ row: '1', input: 'x'.repeat(40_000) }))
    }
    const pieces: string[] = []
    for await (const piece of jsonLines(job, rows(), { columns: ['input'] })) pieces.push(piece)
    expect(pieces.map(piece => piece.split('\n').length - 1)).toEqual([2, 1])
    expect(pieces.join('')).toBe(`{"input":"${'x'.repeat(40_000)}"}\n`.repeat(3))
  })
})

describe('a cursor', () => {
  it('leads back to its row', () => {
    expect([0, 1, 99_999].map(row => afterRowOf(cursorOf(row)))).toEqual([0, 1, 99_999])
  })

  it.each(['', '7', 'v1:7', `${cursorOf(7)}=`, Buffer.from('v1:-7').toString('base64url'),
    Buffer.from('v2:7').toString('base64url')])('is not any other text: %j', text => {
    expect(afterRowOf(text)).toBeUndefined()
  })
})
