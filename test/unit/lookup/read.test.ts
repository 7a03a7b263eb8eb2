import { setImmediate as turnOfLoop } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import {
  ChunkLoader, readChunks, jobTermsOf, type BatchRows,
} from '../../../services/lookup/read.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import { eventually } from '../../support/eventually.ts'
import {
  cachedRecord, chunksOf, incoming, tokenFor, QUOTED_AT_MS,
} from '../../support/stage-doubles.ts'

const PHONE = '+12127365000'

describe('the loader of chunks', () => {
  it('decrypts and looks up a chunk once, however often it is called', async () => {
    const cache = createCacheDouble()
    cache.entries.set(tokenFor(PHONE).toString('hex'), cachedRecord())
    const scopes: object[] = []
    const loader = new ChunkLoader({
      find: (scope, tokens) => {
        scopes.push(scope)
        return cache.find(scope, tokens)
      },
    })
    const [chunk] = chunksOf([PHONE, '+12127365001'])
    const [first, second] = await Promise.all([loader.load(chunk!), loader.load(chunk!)])
    expect(first).toBe(second)
    expect(first.records).toEqual([cachedRecord(), undefined])
    expect(first.rows.canonicals).toEqual([PHONE, '+12127365001'])
    expect(scopes).toEqual([{ tenant: 'org_1.live', service: 'phone-validation', version: '1' }])
  })

  /** Chunks of 10 bytes each, and the numbers of those that were opened. */
  function counted (many: number) {
    const opened: number[] = []
    const chunks = Array.from({ length: many }, (_, number) => {
      const [chunk] = chunksOf([PHONE])
      const rows = () => {
        opened.push(number)
        return chunk!.rows()
      }
      const { raw, ...message } = incoming('rows.normalized', chunk!.value, { rows })
      return { ...message, raw: { ...raw, value: Buffer.alloc(10) } }
    })
    return { opened, chunks }
  }
  const roomFor = (chunks: number) => chunks * (1 + 4 * 10)

  it('drops the first chunks when memory is full, and loads them again', async () => {
    const { opened, chunks } = counted(3)
    const loader = new ChunkLoader(createCacheDouble(), roomFor(2))
    for (const chunk of chunks) await loader.load(chunk)
    await loader.load(chunks[1]!)
    await loader.load(chunks[2]!)
    expect(opened).toEqual([0, 1, 2])
    expect((await loader.load(chunks[0]!)).rows.canonicals).toEqual([PHONE])
    expect(opened).toEqual([0, 1, 2, 0])
    await loader.load(chunks[2]!)
    await loader.load(chunks[1]!)
    expect(opened).toEqual([0, 1, 2, 0, 1])
  })

  it('prefetches while there is memory, and never fails by it', async () => {
    const { opened, chunks } = counted(3)
    const loader = new ChunkLoader(createCacheDouble(), roomFor(2))
    for (const chunk of chunks) loader.prefetch(chunk)
    await loader.load(chunks[1]!)
    expect(opened).toEqual([0, 1])
    loader.forget([chunks[0]!])
    loader.prefetch(chunks[2]!)
    await loader.load(chunks[2]!)
    expect(opened).toEqual([0, 1, 2])
    const unreadable = { ...chunks[0]!, rows: () => { throw new Error('no rows') } }
    new ChunkLoader(createCacheDouble()).prefetch(unreadable)
  })

  it('releases the chunks of a decided job', async () => {
    let opened = 0
    const [chunk] = chunksOf([PHONE])
    const counted = incoming('rows.normalized', chunk!.value, {
      rows: () => {
        opened += 1
        return chunk!.rows()
      },
    })
    const loader = new ChunkLoader(createCacheDouble())
    await loader.load(counted)
    await loader.load(counted)
    expect(opened).toBe(1)
    loader.forget([counted])
    await loader.load(counted)
    expect(opened).toBe(2)
  })

  it('does not look up a job with forceFresh', async () => {
    const loader = new ChunkLoader({ find: async () => { throw new Error('unexpected call') } })
    const [chunk] = chunksOf([PHONE], { forceFresh: true })
    expect((await loader.load(chunk!)).records).toEqual([])
  })

  it('rejects unreadable rows, and a row count unlike the envelope', async () => {
    const loader = new ChunkLoader(createCacheDouble())
    const [chunk] = chunksOf([PHONE])
    const unreadable = incoming('rows.normalized', chunk!.value,
      { rows: () => { throw new Error('no rows') } })
    await expect(loader.load(unreadable)).rejects.toThrow('no rows')
    await expect(loader.load({ ...chunk!, value: { ...chunk!.value, rows: 2 } }))
      .rejects.toThrow('1 inputs, 1 canonical forms, expected 2')
  })

  /** A cache whose lookups the test ends. */
  function slowCache () {
    const ends: ((found: readonly undefined[]) => void)[] = []
    const find = () => new Promise<readonly undefined[]>(resolve => { ends.push(resolve) })
    return { ends, find }
  }

  it('looks up two chunks at a time', async () => {
    const { chunks } = counted(4)
    const { ends, find } = slowCache()
    const loader = new ChunkLoader({ find })
    const loaded = Promise.all(chunks.map(chunk => loader.load(chunk)))
    for (let turn = 0; turn < 10; turn++) await turnOfLoop()
    expect(ends).toHaveLength(2)
    for (let next = 0; next < 4; next++) {
      ends[next]!([undefined])
      for (let turn = 0; turn < 3; turn++) await turnOfLoop()
    }
    expect(await loaded).toHaveLength(4)
  })

  it('waits for all lookups together if the cache hangs', async () => {
    const { chunks } = counted(6)
    const { ends, find } = slowCache()
    const loader = new ChunkLoader({ find })
    const loaded = Promise.all(chunks.map(chunk => loader.load(chunk)))
    await eventually(() => expect(ends).toHaveLength(6))
    for (const end of ends) end([undefined])
    expect(await loaded).toHaveLength(6)
  })
})

const batchRows: BatchRows = (lane, service) =>
  lane === 'small' ? 50 : service.length
const canonicals = ['+12127365000', '', '+12127365001', '+12127365000', '+12127365002']

describe('readChunks', () => {
  it('takes the terms from the first envelope', () => {
    const [small] = chunksOf(['+12127365000'], { forceFresh: true })
    expect(jobTermsOf(small!.value, 77, batchRows)).toEqual({
      job: small!.value.job,
      lane: 'small',
      forceFresh: true,
      quotedAtMs: QUOTED_AT_MS,
      freshnessMs: 77,
      batchRows: 50,
    })
    const [bulk] = chunksOf(new Array<string>(1_001).fill(''))
    expect(jobTermsOf(bulk!.value, 77, batchRows))
      .toMatchObject({ lane: 'bulk', batchRows: 'phone-validation'.length })
  })

  it('counts every row, with originals of earlier chunks', async () => {
    const cache = createCacheDouble()
    cache.entries.set(tokenFor('+12127365002').toString('hex'), cachedRecord())
    const messages = chunksOf(canonicals, { chunkRows: 2 })
    const terms = jobTermsOf(messages[0]!.value, 86_400_000, batchRows)
    const { chunks, counts } = await readChunks(messages, { terms, loader: new ChunkLoader(cache) })
    expect(counts).toEqual({
      totalRows: 5, invalidRows: 1, duplicateRows: 1, cacheHits: 1, freshChecks: 2,
    })
    expect(chunks.map(({ coordinates }) => coordinates.firstRow)).toEqual([0, 2, 4])
    expect(chunks[2]?.hits).toEqual([cachedRecord()])
  })

  it('finds duplicates across token versions', async () => {
    const cache = createCacheDouble()
    const [first, second, third] = chunksOf(canonicals, { chunkRows: 2 })
    const rows = { ...second!.rows(), tokens: Buffer.alloc(32, 9) }
    const other = {
      ...second!, value: { ...second!.value, tokenVersion: '2' }, rows: () => rows,
    }
    const messages = [first!, other, third!]
    const terms = jobTermsOf(messages[0]!.value, 86_400_000, batchRows)
    const { chunks, counts } = await readChunks(messages, { terms, loader: new ChunkLoader(cache) })
    expect(counts).toMatchObject({ invalidRows: 1, duplicateRows: 1, freshChecks: 3 })
    expect(chunks.map(({ tokenVersion }) => tokenVersion)).toEqual(['1', '2', '1'])
    expect(chunks[1]?.duplicates.originals[3]).toBe(0)
  })
})
