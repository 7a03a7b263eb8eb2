import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Completed } from '../../../../schemas/types.ts'
import { columnsOf } from '../../../../services/jobs/results/columns.ts'
import { csvLine } from '../../../../services/jobs/results/csv.ts'
import { createRowFilter } from '../../../../services/jobs/results/row-filter.ts'
import { createResults, type Rows } from '../../../../services/jobs/results/results.ts'
import { JobKeyLostError } from '../../../../services/jobs/job-keys.ts'
import {
  LostResultsError, MissingResultsError,
} from '../../../../services/jobs/results/read-chunks.ts'
import {
  arrived, blockEmission, codec, createBlocksDouble, endedJob, keys, live, manifestEntry, textOf,
  type BlockRows,
} from '../../../support/clickhouse/results.ts'

const columns = columnsOf('phone-validation')
const at = (cells: readonly string[], name: string) => cells[columns.indexOf(name)]
const inputOf = (row: number) => `in"${row}, ü`

/** A job of chunks of four rows; `duplicates` maps rows to earlier rows, both counted from 0. */
async function jobOf (
  { chunks, duplicates = new Map<number, number>(), marks = true }:
  { chunks: number, duplicates?: ReadonlyMap<number, number>, marks?: boolean }
) {
  const blocks = createBlocksDouble()
  const manifest = []
  const totalRows = chunks * 4
  for (let chunk = 0; chunk < chunks; chunk++) {
    const place = { chunk, chunks, firstRow: chunk * 4, rows: 4, totalRows }
    const rows: BlockRows = [0, 1, 2, 3].map(row => {
      const number = chunk * 4 + row
      const original = duplicates.get(number)
      if (original !== undefined) return [row, { source: 'duplicate', duplicateOf: original + 1 }]
      const copies = [...duplicates.values()].filter(one => one === number).length
      return [row, live(`carrier ${number}`, marks ? copies : 0)]
    })
    const inputs = [0, 1, 2, 3].map(row => inputOf(chunk * 4 + row))
    const parts = [
      { rows: rows.filter((_, row) => row % 2 === 0), inputs },
      { rows: rows.filter((_, row) => row % 2 === 1) },
    ]
    for (const [batch, { rows: own, ...more }] of parts.entries()) {
      const { value } = await arrived(blockEmission(place, own, { batch, ...more }))
      await blocks.insert([value, value])
      manifest.push(manifestEntry(value, own.map(([row]) => row)))
    }
  }
  return { blocks, manifest, job: endedJob({ chunks }, totalRows) }
}

const readerOf = (blocks: ReturnType<typeof createBlocksDouble>) =>
  createResults({ blocks, codec, keys })

async function all (rows: AsyncIterable<Rows>): Promise<readonly string[][]> {
  const found: string[][] = []
  for await (const some of rows) found.push(...some.map(cells => [...cells]))
  return found
}

describe('results', () => {
  it('give each row once in order; a duplicate repeats its original', async () => {
    const duplicates = new Map([[2, 0], [5, 0]])
    const { blocks, manifest, job } = await jobOf({ chunks: 2, duplicates })
    const rows = await all(readerOf(blocks).rows(job, manifest))
    expect(rows.map(cells => at(cells, 'row'))).toEqual(['1', '2', '3', '4', '5', '6', '7', '8'])
    expect(rows.map(cells => at(cells, 'input'))).toEqual([0, 1, 2, 3, 4, 5, 6, 7].map(inputOf))
    const repeated = ['carrier 0', 'duplicate', '1', 'valid', '2026-08-11T00:00:00.000Z']
    const names = ['carrier', 'source', 'duplicate_of', 'status', 'checked_at']
    expect(names.map(name => at(rows[2] ?? [], name))).toEqual(repeated)
    expect(names.map(name => at(rows[5] ?? [], name))).toEqual(repeated)
    expect(names.map(name => at(rows[0] ?? [], name)))
      .toEqual(['carrier 0', 'live', '', 'valid', '2026-08-11T00:00:00.000Z'])
  })

  it('are the same with and without marked originals, read whole or in pages', async () => {
    const map = fc.uniqueArray(fc.integer({ min: 1, max: 47 }), { maxLength: 30 })
    const limits = fc.integer({ min: 1, max: 9 })
    await fc.assert(fc.asyncProperty(map, fc.infiniteStream(fc.nat()), limits,
      async (copies, choices, limit) => {
        const originals = [...Array(48).keys()].filter(row => !copies.includes(row))
        const duplicates = new Map(copies.map(row => {
          const earlier = originals.filter(one => one < row)
          return [row, earlier[(choices.next().value ?? 0) % earlier.length] ?? 0]
        }))
        const { blocks, manifest, job } = await jobOf({ chunks: 12, duplicates })
        const rows = await all(readerOf(blocks).rows(job, manifest))
        expect(rows.map(cells => at(cells, 'carrier'))).toEqual(
          [...Array(48).keys()].map(row => `carrier ${duplicates.get(row) ?? row}`))
        const bare = await jobOf({ chunks: 12, duplicates, marks: false })
        expect(await all(readerOf(bare.blocks).rows(bare.job, bare.manifest))).toEqual(rows)
        const paged: (readonly string[])[] = []
        while (paged.length < rows.length) {
          const afterRow = paged.length
          const page = await all(readerOf(blocks).rows(job, manifest, { afterRow, limit }))
          expect(page.length).toBe(Math.min(limit, rows.length - afterRow))
          paged.push(...page)
        }
        expect(paged).toEqual(rows)
      }), { numRuns: 15 })
  })

  it('filter a page after duplicates have their verdict', async () => {
    const duplicates = new Map([[7, 1], [9, 1]])
    const { blocks, manifest, job } = await jobOf({ chunks: 3, duplicates })
    const keep = (cells: readonly string[]) => at(cells, 'carrier') === 'carrier 1'
    const numbers = async (afterRow: number) => (await all(readerOf(blocks)
      .rows(job, manifest, { afterRow, limit: 2, keep }))).map(cells => cells[0])
    expect(await numbers(0)).toEqual(['2', '8'])
    expect(await numbers(8)).toEqual(['10'])
  })

  it('are written as CSV with the selected rows and columns of any job', async () => {
    const duplicates = new Map([[5, 1], [7, 1], [9, 6]])
    const { blocks, manifest, job } = await jobOf({ chunks: 3, duplicates })
    const results = readerOf(blocks)
    const rows = await all(results.rows(job, manifest))
    await fc.assert(fc.asyncProperty(
      fc.uniqueArray(fc.constantFrom(...columns), { minLength: 1 }),
      fc.record({
        source: fc.option(fc.subarray(['live', 'duplicate'], { minLength: 1 }), { nil: undefined }),
        duplicates: fc.constantFrom('drop' as const, undefined),
      }), async (wanted, filters) => {
        const keep = createRowFilter(job.service, filters)
        const csv = await textOf(results.csvStream(job, manifest, { columns: wanted, keep }))
        const kept = rows.filter(cells =>
          filters.source?.includes(at(cells, 'source') ?? '') !== false &&
          (filters.duplicates === undefined || at(cells, 'source') !== 'duplicate'))
        expect(csv).toBe([wanted, ...kept.map(cells => wanted.map(name => at(cells, name) ?? ''))]
          .map(csvLine).join(''))
      }), { numRuns: 50 })
    expect(await textOf(results.csvStream(job, manifest, { columns, keep: undefined })))
      .toBe(await textOf(results.csvStream(job, manifest)))
  })

  it('are written as CSV with a header, guarded on request', async () => {
    const place = { chunk: 0, chunks: 1, firstRow: 0, rows: 1, totalRows: 1 }
    const { value } = await arrived(blockEmission(place, [[0, live('a')]], { inputs: ['=cmd()'] }))
    const blocks = createBlocksDouble()
    await blocks.insert([value])
    const manifest = [manifestEntry(value, [0])]
    const text = (options: { safe?: boolean }) =>
      textOf(readerOf(blocks).csvStream(endedJob(), manifest, options))
    const line = (input: string) => `${columns.join(',')}\r\n1,${input},,,,,,,a,valid,live,90,,` +
      'assigned_range,2026-08-11T00:00:00.000Z,2026-08-11T00:00:01.000Z,,,,\r\n'
    expect(await text({})).toBe(line('=cmd()'))
    expect(await text({ safe: true })).toBe(line("'=cmd()"))
  })

  it('do not begin when a block or the key is gone', async () => {
    const { blocks, manifest, job } = await jobOf({ chunks: 2 })
    const lost = createBlocksDouble()
    await lost.insert(blocks.stored.slice(0, -2))
    const pieces: unknown[] = []
    const read = async (results: ReturnType<typeof createResults>) => {
      for await (const piece of results.csvStream(job, manifest)) pieces.push(piece)
    }
    await expect(read(readerOf(lost))).rejects.toThrow(MissingResultsError)
    const keyless = createResults({ blocks, codec, keys: { get: async () => undefined } })
    await expect(read(keyless)).rejects.toThrow(LostResultsError)
    const get = async () => { throw new JobKeyLostError('lost while the job ran') }
    await expect(read(createResults({ blocks, codec, keys: { get } })))
      .rejects.toThrow(LostResultsError)
    expect(pieces).toEqual([])
  })

  it('are requested along with the digests, and yield nothing before these are known', async () => {
    const { blocks, manifest, job } = await jobOf({ chunks: 2 })
    const known = Promise.withResolvers<void>()
    const reads: number[][] = []
    const results = createResults({
      blocks: {
        digests: async (...of) => {
          await known.promise
          return await blocks.digests(...of)
        },
        read: async (range) => {
          reads.push([range.firstChunk, range.lastChunk])
          return await blocks.read(range)
        },
      },
      codec,
      keys,
    })
    const pieces: unknown[] = []
    const reading = (async () => {
      for await (const piece of results.csvStream(job, manifest)) pieces.push(piece)
    })()
    await new Promise(resolve => setImmediate(resolve))
    expect([reads, pieces]).toEqual([[[0, 1]], []])
    known.resolve()
    await reading
    expect([reads.length, pieces.length]).toEqual([1, 3])
  })

  it('report missing blocks, whatever the outcome of concurrent requests', async () => {
    const { manifest, job } = await jobOf({ chunks: 2 })
    const read = async () => { throw new Error('the store is away') }
    const results = createResults({ blocks: { ...createBlocksDouble(), read }, codec, keys })
    await expect(all(results.rows(job, manifest))).rejects.toThrow('4 of 4 result blocks')
  })

  it('of one chunk are a page after one read, which finds missing blocks', async () => {
    const { blocks, manifest, job } = await jobOf({ chunks: 1 })
    const page = async (stored: typeof blocks) => await all(createResults({
      blocks: { ...stored, digests: () => Promise.reject(new Error('unexpected call')) },
      codec,
      keys,
    }).rows(job, manifest, { limit: 100 }))
    expect((await page(blocks)).length).toBe(4)
    await expect(page(createBlocksDouble())).rejects.toThrow(MissingResultsError)
  })

  it('are lost for good when their job ended with rows that no block brought', async () => {
    const { blocks, manifest, job } = await jobOf({ chunks: 2 })
    const results = readerOf(blocks)
    await expect(all(results.rows(job, manifest.slice(0, -1)))).rejects.toThrow(LostResultsError)
    await expect(all(results.rows(job, [], { limit: 1 }))).rejects.toThrow(LostResultsError)
  })

  it('refuse a block whose counts were changed after it was sealed', async () => {
    const { blocks, manifest, job } = await jobOf({ chunks: 1 })
    const changed = createBlocksDouble()
    await changed.insert(blocks.stored.map((block): Completed =>
      ({ ...block, live: Buffer.from([0]) })))
    await expect(all(readerOf(changed).rows(job, manifest))).rejects.toThrow('2 of 2 result blocks')
  })
})
