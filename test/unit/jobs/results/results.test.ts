import { randomBytes } from 'node:crypto'
import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { csvCell, guardCell } from '../../../../schemas/files/csv-format.ts'
import type { Completed } from '../../../../schemas/types.ts'
import { createBlock } from '../../../../services/jobs/results/block.ts'
import { listColumns, listRowFields } from '../../../../services/jobs/results/columns.ts'
import { createOriginalJson, csvLine } from '../../../../services/jobs/results/csv.ts'
import {
  packInlineResults, unpackInlineResults,
} from '../../../../services/jobs/results/result-blocks.ts'
import {
  createRowFilter, createResults, type Rows, LostResultsError, type WantedRows,
} from '../../../../services/jobs/results/results.ts'
import { JobKeyLostError } from '../../../../services/jobs/job-keys.ts'
import {
  arrived, blockEmission, type BlockRows, codec, createBlocksDouble, endedJob, keys, live,
  manifestEntry, textOf,
} from '../../../support/clickhouse/results.ts'
import { JOB, TENANT } from '../../../support/stage-messages.ts'

const columns = listColumns('phone-validation')
const at = (cells: readonly string[], name: string) => cells[columns.indexOf(name)]

type Content = {
  readonly chunks: number
  readonly rowsPerChunk?: number
  /** Rows that repeat earlier ones, both counted from 0. */
  readonly duplicates?: ReadonlyMap<number, number>
  /** Whether originals say that they have duplicates. */
  readonly marks?: boolean
  readonly inputOf?: (row: number) => string
  readonly carrierOf?: (row: number) => string
  /** The line of a file that a row came from. */
  readonly lineOf?: (row: number) => string
}

/** A job of which each chunk has two blocks: of even rows, with the inputs, and of odd ones. */
async function storedResults (content: Content) {
  const { chunks, rowsPerChunk = 4, duplicates = new Map<number, number>(), marks = true } = content
  const { inputOf = row => `in"${row}, ü`, carrierOf = row => `carrier ${row}`, lineOf } = content
  const blocks = createBlocksDouble()
  const manifest = []
  const totalRows = chunks * rowsPerChunk
  for (let chunk = 0; chunk < chunks; chunk++) {
    const firstRow = chunk * rowsPerChunk
    const place = { chunk, chunks, firstRow, rows: rowsPerChunk, totalRows }
    const numbers = Array.from({ length: rowsPerChunk }, (_, row) => firstRow + row)
    const rows: BlockRows = numbers.map((number, row) => {
      const original = duplicates.get(number)
      if (original !== undefined) return [row, { source: 'duplicate', duplicateOf: original + 1 }]
      const copies = [...duplicates.values()].filter(row => row === number).length
      return [row, live(carrierOf(number), marks ? copies : 0)]
    })
    const contacts = lineOf && { offsets: [], references: numbers.map(lineOf) }
    const parts = [
      { rows: rows.filter((_, row) => row % 2 === 0), inputs: numbers.map(inputOf), contacts },
      { rows: rows.filter((_, row) => row % 2 === 1) },
    ]
    for (const [batch, { rows: won, ...more }] of parts.entries()) {
      if (won.length === 0) continue
      const { value } = await arrived(blockEmission(place, won, { batch, ...more }))
      await blocks.insert([value, value])
      manifest.push(manifestEntry(value, won.map(([row]) => row)))
    }
  }
  const results = readerOf(blocks)
  return { blocks, manifest, results, job: endedJob({ chunks }, totalRows) }
}

const readerOf = (blocks: Pick<ReturnType<typeof createBlocksDouble>, 'digests' | 'read'>) =>
  createResults({ blocks, codec, keys })

async function readAll (rows: AsyncIterable<Rows>): Promise<readonly string[][]> {
  const all: string[][] = []
  for await (const some of rows) all.push(...some.map(cells => [...cells]))
  return all
}

describe('results', () => {
  it('are the same with and without marked originals, read whole or in pages', async () => {
    const map = fc.uniqueArray(fc.integer({ min: 1, max: 47 }), { maxLength: 30 })
    const limits = fc.integer({ min: 1, max: 9 })
    await fc.assert(fc.asyncProperty(map, fc.infiniteStream(fc.nat()), limits,
      async (copies, choices, limit) => {
        const originals = [...Array(48).keys()].filter(row => !copies.includes(row))
        const duplicates = new Map(copies.map(row => {
          const earlier = originals.filter(original => original < row)
          return [row, earlier[(choices.next().value ?? 0) % earlier.length] ?? 0]
        }))
        const { results, manifest, job } = await storedResults({ chunks: 12, duplicates })
        const rows = await readAll(results.rows(job, manifest))
        expect(rows.map(cells => at(cells, 'carrier'))).toEqual(
          [...Array(48).keys()].map(row => `carrier ${duplicates.get(row) ?? row}`))
        const bare = await storedResults({ chunks: 12, duplicates, marks: false })
        expect(await readAll(bare.results.rows(bare.job, bare.manifest))).toEqual(rows)
        const paged: (readonly string[])[] = []
        while (paged.length < rows.length) {
          const afterRow = paged.length
          const page = await readAll(results.rows(job, manifest, { afterRow, limit }))
          expect(page.length).toBe(Math.min(limit, rows.length - afterRow))
          paged.push(...page)
        }
        expect(paged).toEqual(rows)
      }), { numRuns: 8 })
  })

  it('filter a page after duplicates have their verdict', async () => {
    const duplicates = new Map([[7, 1], [9, 1]])
    const { results, manifest, job } = await storedResults({ chunks: 3, duplicates })
    const keep = (cells: readonly string[]) => at(cells, 'carrier') === 'carrier 1'
    const numbers = async (afterRow: number) => (await readAll(
      results.rows(job, manifest, { afterRow, limit: 2, keep }))).map(cells => cells[0])
    expect(await numbers(0)).toEqual(['2', '8'])
    expect(await numbers(8)).toEqual(['10'])
  })

  it.each([
    ['email-validation', 'email', ['Jane@x.org', 'JANE@x.org'], ['Jane@x.org', 'JANE@x.org']],
    ['phone-validation', 'extension', ['212 736 5000 x12', '212 736 5000 x13'], ['12', '13']],
    ['telegram', 'vanity', ['1-212-PENNYXX', '1-212-7366999'], ['', '']],
    ['carrier-lookup', 'vanity', ['1-212-PEN-5000', '1-212-736-5000'], ['1-212-PEN-5000', '']],
  ] as const)('of %s have the %s of each duplicate, as rows and as CSV', async (
    service, name, inputs, expected
  ) => {
    const coordinates = {
      tenant: TENANT, job: JOB, service, chunk: 0, chunks: 1, firstRow: 0, rows: 2, totalRows: 2,
    }
    const block = createBlock({ coordinates, batch: 0, inputs })
    const email = service === 'email-validation'
    block.add(0, {
      ...live('a', 1), contact: email ? { email: 'Jane@x.org' } : { e164: '+12127365000' },
    })
    block.add(1, { source: 'duplicate', duplicateOf: 1, ...email && { email: 'JANE@x.org' } })
    const { value } = await arrived(block.emission('small'))
    const blocks = createBlocksDouble()
    await blocks.insert([value])
    const [job, manifest] = [endedJob({ service }, 2), [manifestEntry(value, [0, 1])]]
    const nameAt = listRowFields(service).indexOf(name)
    const rows = await readAll(readerOf(blocks).rows(job, manifest))
    expect(rows.map(cells => cells[nameAt])).toEqual(expected)
    const csv = parse(await textOf(readerOf(blocks).csvStream(job, manifest)), { from_line: 2 })
    expect(csv.map((cells: readonly string[]) => cells[nameAt])).toEqual(expected)
  })

  it('refuse a block whose counts were changed after it was sealed', async () => {
    const { blocks, manifest, job } = await storedResults({ chunks: 1 })
    const changed = createBlocksDouble()
    await changed.insert(blocks.stored.map((block): Completed =>
      ({ ...block, live: Buffer.from([0]) })))
    await expect(readAll(readerOf(changed).rows(job, manifest)))
      .rejects.toThrow('2 of 2 result blocks')
  })
})

const nasty = fc.string({ unit: fc.constantFrom(...'",\r\n;=+@\t\'é漢1 ') })
const few = fc.constantFrom('', 'a', 'AT&T, Inc.', '=x', '"')
const contentOfFile = fc.record({
  rows: fc.array(fc.record({
    input: nasty,
    carrier: fc.oneof(nasty, few),
    isCopy: fc.boolean(),
    line: fc.array(nasty, { maxLength: 4 }),
  }), { minLength: 1, maxLength: 30 }),
  safe: fc.boolean(),
  isJoined: fc.boolean(),
  ids: fc.boolean(),
  delimiter: fc.constantFrom(',', ';', '\t', '|'),
})

describe('results as CSV', () => {
  it('are the lines of their rows, with any content, guarded and joined on request', async () => {
    await fc.assert(fc.asyncProperty(contentOfFile, async ({ rows, isJoined, ids, ...style }) => {
      const { safe, delimiter } = style
      const names = ['name', 'phone', 'c']
      const lineOf = (row: number) => (rows[row]?.line ?? []).slice(0, names.length)
        .map(cell => csvCell(cell)).join(',')
      const { results, manifest, job } = await storedResults({
        chunks: 2,
        rowsPerChunk: rows.length,
        duplicates: new Map(rows.flatMap(({ isCopy }, row) =>
          isCopy && row > 0 ? [[rows.length + row, 0]] : [])),
        inputOf: row => rows[row % rows.length]?.input ?? '',
        carrierOf: row => rows[row % rows.length]?.carrier ?? '',
        lineOf: row => lineOf(row % rows.length),
      })
      const all = await readAll(results.rows(job, manifest))
      const guarded = (cells: readonly string[]) => safe ? cells.map(guardCell) : cells
      const expected = all.map((cells, row) => {
        const ours = cells.slice(0, columns.length)
        if (!isJoined) return csvLine(guarded(ours), delimiter)
        const line = (rows[row % rows.length]?.line ?? []).slice(0, names.length)
        const joined = [...names.map((_, cell) => line[cell] ?? ''), ...ours.slice(2)]
        return csvLine(guarded(joined), delimiter)
      })
      const original = isJoined ? { original: names } : {}
      const text = await textOf(results.csvStream(job, manifest, { ...style, ...original }))
      expect(text.slice(text.indexOf('\r\n') + 2)).toBe(expected.join(''))
      const selected = { ...style, ...original, keep: () => true }
      expect(await textOf(results.csvStream(job, manifest, selected))).toBe(text)
      if (!ids) return
      const withIds = await readAll(results.rows(job, manifest, { withReference: true }))
      const lines = withIds.map(cells =>
        csvLine(guarded([...cells.slice(0, columns.length), cells.at(-1) ?? '']), delimiter))
      const csv = await textOf(results.csvStream(job, manifest, { ...style, ids }))
      expect(csv).toBe([csvLine([...columns, 'id'], delimiter), ...lines].join(''))
      expect(withIds.map(cells => cells.at(-1))).toEqual(withIds.map((_, row) =>
        lineOf(row % rows.length)))
    }), { numRuns: 30 })
  })

  it('have inputs of any length, and no line without a character', async () => {
    const inputOf = (row: number) => ['é'.repeat(40_000), '"'.repeat(70_000), ''][row] ?? 'a'
    const { results, manifest, job } = await storedResults({ chunks: 1, inputOf })
    const rows = await readAll(results.rows(job, manifest))
    const csv = async (more = {}) => await textOf(results.csvStream(job, manifest, more))
    expect(await csv()).toBe(csvLine(columns) +
      rows.map(cells => csvLine(cells.slice(0, columns.length))).join(''))
    expect(await csv({ columns: ['input'] }))
      .toBe(csvLine(['input']) + rows.map((_, row) => csvLine([inputOf(row)])).join(''))
  })

  it('have the id of each row among the selected columns', async () => {
    const { results, manifest, job } = await storedResults({
      chunks: 1, lineOf: row => `id ${row}`, duplicates: new Map([[3, 0]]),
    })
    const keep = (cells: readonly string[]) => at(cells, 'source') === 'duplicate'
    const selected = { ids: true, columns: ['id', 'row', 'carrier'], keep }
    expect(await textOf(results.csvStream(job, manifest, selected)))
      .toBe('id,row,carrier\r\nid 3,4,carrier 0\r\n')
  })

  it('have the selected rows and columns of any job', async () => {
    const duplicates = new Map([[5, 1], [7, 1], [9, 6]])
    const { results, manifest, job } = await storedResults({ chunks: 3, duplicates })
    const rows = await readAll(results.rows(job, manifest))
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
          .map(cells => csvLine(cells)).join(''))
      }), { numRuns: 25 })
  })

  it('have the columns of the customer first, and a prefix before ours of the same name',
    async () => {
      const { results, manifest, job } = await storedResults({
        chunks: 1, lineOf: row => `${row},=cmd()`, duplicates: new Map([[3, 0]]),
      })
      const original = ['ID', 'Status ', 'phone', 'verified_phone', '=cmd']
      const [header = ''] = (await textOf(
        results.csvStream(job, manifest, { original, safe: true }))).split('\r\n')
      expect(header.split(',').slice(0, 8)).toEqual([
        ...original.slice(0, 4), "'=cmd", 'verified_verified_phone', 'e164', 'country',
      ])
      expect(header.split(',')).toHaveLength(original.length + columns.length - 2)
      const keep = (cells: readonly string[]) => at(cells, 'source') === 'duplicate'
      expect(await textOf(results.csvStream(job, manifest, {
        original: ['name', 'phone'], columns: ['row', 'phone', 'status'], keep,
      }))).toBe('name,phone,row,verified_phone,status\r\n3,=cmd(),4,,valid\r\n')
    })

  it('have blank cells where the block with the lines of the file is lost', async () => {
    const { results, manifest, job } = await storedResults({ chunks: 1, rowsPerChunk: 1 })
    const text = await textOf(results.csvStream(job, manifest, { original: ['name', 'phone'] }))
    expect(text).toMatch(/\r\n,,,,,,,,carrier 0,valid,live,/)
  })
})

describe('the line of a file', () => {
  it('comes with its row, as JSON by column', async () => {
    const { results, manifest, job } = await storedResults({ chunks: 2, lineOf: row => `A,${row}` })
    const pages = [{}, { afterRow: 6, limit: 1 }]
    const lines = await Promise.all(pages.map(async page => (await readAll(
      results.rows(job, manifest, { ...page, withReference: true }))).map(cells => cells.at(-1))))
    expect(lines).toEqual([[...Array(8).keys()].map(row => `A,${row}`), ['A,6']])
  })

  it('has each cell by its column, whose name is replaced if it is blank or repeated', () => {
    const jsonOf = createOriginalJson(['column_2', '', 'a', 'a', '__proto__', 'constructor'])
    expect(Object.entries(JSON.parse(jsonOf('1,"2, ""b""",3,4,5,6')))).toEqual([
      ['column_2', '1'], ['column_2_', '2, "b"'], ['a', '3'], ['column_4', '4'],
      ['__proto__', '5'], ['constructor', '6'],
    ])
    expect(Object.values(JSON.parse(jsonOf('')))).toEqual(['', '', '', '', '', ''])
  })
})

describe('reading results', () => {
  it('does not begin when a block or the key is gone', async () => {
    const { blocks, manifest, job } = await storedResults({ chunks: 2 })
    const lost = createBlocksDouble()
    await lost.insert(blocks.stored.slice(0, -2))
    const away = async () => { throw new Error('the store is away') }
    const lostKey = async () => { throw new JobKeyLostError('lost while the job ran') }
    const pieces: unknown[] = []
    for (const [results, fault, entries] of [
      [readerOf(lost), '1 of 4 result blocks of job', manifest],
      [readerOf({ ...createBlocksDouble(), read: away }), '4 of 4 result blocks', manifest],
      [createResults({ blocks, codec, keys: { get: async () => undefined } }), LostResultsError,
        manifest],
      [createResults({ blocks, codec, keys: { get: lostKey } }), LostResultsError, manifest],
      [readerOf(blocks), LostResultsError, manifest.slice(0, -1)],
      [readerOf(blocks), LostResultsError, []],
    ] as const) {
      const read = async () => {
        for await (const piece of results.csvStream(job, entries)) pieces.push(piece)
      }
      await expect(read()).rejects.toThrow(fault)
    }
    expect(pieces).toEqual([])
  })

  it('of one chunk is one read for a page, which finds missing blocks', async () => {
    const { blocks, manifest, job } = await storedResults({ chunks: 1 })
    const digests = () => Promise.reject(new Error('unexpected call'))
    const page = (stored: typeof blocks) =>
      readAll(readerOf({ ...stored, digests }).rows(job, manifest, { limit: 100 }))
    expect((await page(blocks)).length).toBe(4)
    await expect(page(createBlocksDouble())).rejects.toThrow('is missing or changed')
  })

  it('requests the first blocks along with the digests, and yields nothing before', async () => {
    const { blocks, manifest, job } = await storedResults({ chunks: 2 })
    const known = Promise.withResolvers<void>()
    const seen: string[] = []
    const results = readerOf({
      digests: async (...wanted) => {
        await known.promise
        return await blocks.digests(...wanted)
      },
      read: async wanted => {
        seen.push(`read ${wanted.firstChunk}-${wanted.lastChunk}`)
        return await blocks.read(wanted)
      },
    })
    const reading = (async () => {
      for await (const { length } of results.csvStream(job, manifest)) {
        seen.push(length > 0 ? 'piece' : 'nothing')
      }
    })()
    await new Promise(resolve => setImmediate(resolve))
    expect(seen).toEqual(['read 0-1'])
    known.resolve()
    await reading
    expect(seen).toEqual(['read 0-1', 'piece', 'piece', 'piece'])
  })

  /** A reader of 60 chunks of this size, and how many chunks each read had. */
  async function recordReads (bytes: number, failsAt = Infinity) {
    const { blocks, manifest, job } = await storedResults({
      chunks: 60, rowsPerChunk: 1, inputOf: () => randomBytes(bytes).toString('base64'),
    })
    const sizes: number[] = []
    const results = readerOf({
      ...blocks,
      read: async wanted => {
        sizes.push(wanted.lastChunk - wanted.firstChunk + 1)
        if (sizes.length > failsAt) throw new Error('the store is away')
        return await blocks.read(wanted)
      },
    })
    return { sizes, results, manifest, job }
  }

  it.each([
    [10, [8, 25, 25, 2]],
    [100_000, [8, ...Array(10).fill(5), 2]],
  ])('takes chunks of %i bytes in steps of about a megabyte, one step ahead', async (
    bytes, steps
  ) => {
    const { sizes, results, manifest, job } = await recordReads(bytes)
    const pieces = results.csvStream(job, manifest)[Symbol.asyncIterator]()
    await pieces.next()
    expect(sizes).toEqual(steps.slice(0, 1))
    await pieces.next()
    expect(sizes).toEqual(steps.slice(0, 2))
    let count = 2
    while ((await pieces.next()).done !== true) count += 1
    expect([sizes, count]).toEqual([steps, 61])
  })

  it('of a page reads only what is consumed', async () => {
    const { sizes, results, manifest, job } = await recordReads(10)
    const keep = (cells: readonly string[]) => Number(cells[0]) % 7 === 0
    expect(await readAll(results.rows(job, manifest, { limit: 1, keep }))).toHaveLength(1)
    expect(sizes.slice(0, 2)).toEqual([5, 5])
    expect(sizes.reduce((sum, size) => sum + size)).toBe(10)
  })

  it('reports a failure only to the consumer that reaches it', async () => {
    const { sizes, results, manifest, job } = await recordReads(10, 1)
    const pieces = results.csvStream(job, manifest)[Symbol.asyncIterator]()
    for (let row = 0; row < 3; row++) await pieces.next()
    expect(sizes).toHaveLength(2)
    await pieces.return?.()
    await expect(textOf(results.csvStream(job, manifest))).rejects.toThrow('the store is away')
  })
})

describe('inline results', () => {
  async function smallJob () {
    const { blocks, manifest, job, results } = await storedResults({ chunks: 1, rowsPerChunk: 2 })
    // The double has each block twice, as it may be delivered twice.
    const text = packInlineResults(blocks.stored)
    return { blocks, manifest, job, results, text }
  }

  it('are read like stored ones, without the store', async () => {
    const { manifest, job, results, text } = await smallJob()
    const options = { limit: 2, inlineResults: unpackInlineResults(text) }
    expect(await readAll(readerOf(createBlocksDouble()).rows(job, manifest, options)))
      .toEqual(await readAll(results.rows(job, manifest)))
  })

  it.each([
    ['that were changed', (text: string) => text.replaceAll('"batch":0', '"batch":7')],
    ['that lack some', (text: string) => JSON.stringify(JSON.parse(text).slice(-1))],
    ['that are none', () => ''],
  ])('%s are read from the store', async (_case, change) => {
    const { manifest, job, results, text } = await smallJob()
    const options = { inlineResults: unpackInlineResults(change(text)) }
    expect(await readAll(results.rows(job, manifest, options)))
      .toEqual(await readAll(results.rows(job, manifest)))
    await expect(readAll(readerOf(createBlocksDouble()).rows(job, manifest, options)))
      .rejects.toThrow('of 2 result blocks')
  })

  it('are none of blocks that are large, or too few to end their job', async () => {
    const { blocks: { stored } } = await smallJob()
    expect(packInlineResults([])).toBe('')
    expect(packInlineResults(stored.slice(0, 1))).toBe('')
    expect(packInlineResults(stored.map(block => ({ ...block, sealed: Buffer.alloc(20_000) }))))
      .toBe('')
  })
})

const fields = listRowFields('phone-validation')
const cellsOf = (values: Readonly<Record<string, string | undefined>>) =>
  fields.map(name => values[name] ?? '')

const ROWS = [
  { status: 'valid', source: 'live', reason: 'assigned_range', line_type: 'mobile', country: 'DE' },
  { status: 'valid', source: 'cache', reason: 'assigned_range', line_type: 'voip', country: 'US' },
  { status: 'valid', source: 'duplicate', reason: 'assigned_range', country: 'US' },
  { status: 'invalid', source: 'preflight', reason: 'too_short' },
].map(cellsOf)

const kept = (wanted: WantedRows) => {
  const keep = createRowFilter('phone-validation', wanted)
  return ROWS.flatMap((cells, index) => keep?.(cells) === true ? [index] : [])
}

describe('a filter of rows', () => {
  it('is undefined when nothing is requested', () => {
    expect(createRowFilter('phone-validation', {})).toBeUndefined()
  })

  it.each([
    [{ status: ['valid'] }, [0, 1, 2]],
    [{ status: ['invalid', 'risky'] }, [3]],
    [{ source: ['live', 'cache'] }, [0, 1]],
    [{ reason: ['too_short'] }, [3]],
    [{ line_type: ['mobile', 'voip'] }, [0, 1]],
    [{ country: ['US'] }, [1, 2]],
    [{ duplicates: 'drop' }, [0, 1, 3]],
    [{ status: ['valid'], country: ['US'], duplicates: 'drop' }, [1]],
    [{ source: ['duplicate'], duplicates: 'drop' }, []],
  ] as const)('of %j keeps the rows %j', (wanted, rows) => {
    expect(kept(wanted)).toEqual(rows)
  })
})
