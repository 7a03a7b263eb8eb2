import { describe, expect, it } from 'vitest'
import { coordinatesOf, coordinatesOfHeaders } from '../../../../services/jobs/results/block.ts'
import { bitmapOf, chunksOf, JOB, TENANT } from '../../../support/stage-doubles.ts'

const headers = {
  tenant: TENANT,
  job: JOB,
  service: 'whatsapp',
  lane: 'bulk',
  chunk: '3',
  chunks: '4',
  firstRow: '3000',
  chunkRows: '10',
  totalRows: '3010',
  rows: bitmapOf(10, [0, 9]).toString('base64'),
}

describe('chunk coordinates', () => {
  it('are read from the headers of a message', () => {
    expect(coordinatesOfHeaders(headers)).toEqual({
      coordinates: {
        tenant: TENANT,
        job: JOB,
        service: 'whatsapp',
        chunk: 3,
        chunks: 4,
        firstRow: 3_000,
        rows: 10,
        totalRows: 3_010,
      },
      lane: 'bulk',
      rows: bitmapOf(10, [0, 9]),
    })
  })

  it.each(Object.keys(headers))('are unknown without the header %s', (name) => {
    const { [name as keyof typeof headers]: _missing, ...rest } = headers
    expect(coordinatesOfHeaders(rest)).toBe(undefined)
  })

  it('are unknown when a count is no whole number', () => {
    expect(coordinatesOfHeaders({ ...headers, chunk: '1.5' })).toBe(undefined)
    expect(coordinatesOfHeaders({ ...headers, chunkRows: '-1' })).toBe(undefined)
  })

  it('hold nothing of an envelope but the place', () => {
    const [chunk] = chunksOf(['+12127365000'])
    expect(Object.keys(coordinatesOf(chunk!.value)).sort()).toEqual([
      'chunk', 'chunks', 'firstRow', 'job', 'rows', 'service', 'tenant', 'totalRows'])
  })
})
