import { describe, expect, it } from 'vitest'
import { sendResultsPage, cursorOf } from '../../../services/ingest/results-response.ts'
import { columnsOf } from '../../../services/jobs/results/columns.ts'
import type { RowOptions, Rows } from '../../../services/jobs/results/results.ts'
import { application, closedJob, JOB_ID, MANIFEST } from './doubles.ts'

const columns = columnsOf('phone-validation')
const cells = columns.map(name => ({ row: '8', status: 'valid', source: 'live' })[name] ?? '')
const job = closedJob()

/** Requests a page of a job with row 8 and others, and returns the calls of the store. */
async function ask (query: string, rows: Rows = [cells]) {
  const calls: RowOptions[] = []
  const { get } = application({
    readJob: async () => job,
    findArchived: async () => ({ job, manifest: MANIFEST }),
    rows: async function * (_job, _manifest, options = {}) {
      calls.push(options)
      yield rows
    },
  })
  const answer = await get(`/jobs/${JOB_ID}/results?format=json${query}`)
  return { answer, calls }
}

describe('a page of results', () => {
  it('is sent by the route', async () => {
    expect(sendResultsPage.length).toBe(3)
    const { answer, calls } = await ask('')
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8')
    expect(answer.json()).toMatchObject({ data: [{ row: 8 }], has_more: false, next_cursor: null })
    expect(calls).toMatchObject([{ afterRow: 0, limit: 101, withReference: false }])
  })

  it('begins behind its cursor, has its limit and its filter, and names the next', async () => {
    const query = `&limit=1&cursor=${cursorOf(7)}&status=valid`
    const { answer, calls } = await ask(query, [cells, cells])
    expect(calls[0]).toMatchObject({ afterRow: 7, limit: 2 })
    expect(calls[0]?.keep?.(cells)).toBe(true)
    expect(answer.json()).toMatchObject({ has_more: true, next_cursor: cursorOf(8) })
  })

  it('ends with the row that fills it, and its cursor leads on', async () => {
    const input = 'x'.repeat(1_000_000)
    const rows = Array.from({ length: 12 }, (_, at) =>
      columns.map(name => ({ row: String(at + 1), input })[name] ?? ''))
    const { answer } = await ask('', rows)
    const { data, ...page } = answer.json()
    expect(data.map(({ row }: { row: number }) => row)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
    expect(page).toEqual({ has_more: true, next_cursor: cursorOf(9) })
  })

  it('is not read for a cursor that is none', async () => {
    const { answer, calls } = await ask('&cursor=7')
    expect([answer.statusCode, answer.json().error.param, calls]).toEqual([400, 'cursor', []])
  })
})
