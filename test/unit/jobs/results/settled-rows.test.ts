import { describe, expect, it } from 'vitest'
import { blockDigest } from '../../../../services/jobs/results/result-blocks.ts'
import { createSettledRows } from '../../../../services/jobs/results/settled-rows.ts'
import { arrived, blockEmission, endedJob, live } from '../../../support/clickhouse/results.ts'
import { recordMacOf, storedJob } from '../../../support/keys/signed.ts'
import { createClickhouseDouble } from '../../../support/clickhouse/stored.ts'

const coordinates = { chunk: 0, chunks: 1, firstRow: 0, rows: 1, totalRows: 1 }
const { value: block } = await arrived(blockEmission(coordinates, [[0, live('a')]]))
const archived = { job: endedJob({ closed: true }), manifest: [] }

describe('blocks and final records of one insert', () => {
  const stored = async (...rows: Parameters<ReturnType<typeof createSettledRows>>) => {
    const double = createClickhouseDouble()
    await createSettledRows(double.clickhouse, recordMacOf())(...rows)
    return double
  }

  it('are distinguished by digest and record, and are the rows of their tables', async () => {
    const { inserted } = await stored([{ block }, { archived }])
    expect(inserted).toMatchObject([
      { digest: blockDigest(block), sealed_base64: block.sealed.toString('base64') },
      { job: archived.job.id, mac: storedJob(archived.job, []).mac },
    ])
    expect(inserted.map(row => ['digest' in row, 'record' in row]))
      .toEqual([[true, false], [false, true]])
  })

  it('have the same token when they are stored again', async () => {
    const { tokens: [first] } = await stored([{ block }, { archived }])
    const { tokens: [again] } = await stored([{ block }, { archived }])
    const { tokens: [other] } = await stored([{ block }])
    expect(first).toMatch(/^[0-9a-f]{64}$/)
    expect(again).toBe(first)
    expect(other).not.toBe(first)
  })

  it('are no insert if there are none', async () => {
    expect((await stored([])).tokens).toEqual([])
  })
})
