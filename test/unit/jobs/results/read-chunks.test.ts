import { describe, expect, it } from 'vitest'
import { MissingResultsError, openChunks } from '../../../../services/jobs/results/read-chunks.ts'
import {
  arrived, blockEmission, codec, createBlocksDouble, endedJob, keys, live, manifestEntry,
} from '../../../support/clickhouse/results.ts'

/** A job of one-row chunks, whose blocks are all stored but those named. */
async function jobOf ({ chunks, without = [] }: { chunks: number, without?: readonly number[] }) {
  const blocks = createBlocksDouble()
  const manifest = []
  for (let chunk = 0; chunk < chunks; chunk++) {
    const place = { chunk, chunks, firstRow: chunk, rows: 1, totalRows: chunks }
    const rows = [[0, live(`carrier ${chunk}`)]] as const
    const given = { batch: 0, inputs: [`in ${chunk}`] }
    const { value } = await arrived(blockEmission(place, rows, given))
    if (!without.includes(chunk)) await blocks.insert([value])
    manifest.push(manifestEntry(value, [0]))
  }
  return { parts: { blocks, codec, keys }, manifest, job: endedJob({ chunks }, chunks) }
}

const range = { from: 0, to: Infinity, firstChunks: 2, ahead: true }

describe('the chunks of a job', () => {
  it('are read in order from the chunk of the wanted row on', async () => {
    const { parts, manifest, job } = await jobOf({ chunks: 5 })
    const chunks = await openChunks(parts, { job, manifest, range: { ...range, from: 2 } })
    const firstRows = []
    for await (const { merged } of chunks) firstRows.push(merged.firstRow)
    expect(firstRows).toEqual([2, 3, 4])
  })

  it('are not started while a block of any of them is missing', async () => {
    const { parts, manifest, job } = await jobOf({ chunks: 5, without: [4] })
    await expect(openChunks(parts, { job, manifest, range }))
      .rejects.toThrow(new MissingResultsError(`1 of 5 result blocks of job ${job.id} are ` +
        'missing in ClickHouse; restore them from a backup'))
  })
})
