import { describe, expect, it } from 'vitest'
import { createLoader } from '../../../services/lookup/chunk-loader.ts'
import { readChunks, jobTermsOf, type BatchRows } from '../../../services/lookup/read-chunks.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import { cachedRecord, chunksOf, QUOTED_AT_MS, tokenFor } from '../../support/stage-doubles.ts'

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
    const { chunks, counts } = await readChunks(messages, { terms, load: createLoader(cache) })
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
    const { chunks, counts } = await readChunks(messages, { terms, load: createLoader(cache) })
    expect(counts).toMatchObject({ invalidRows: 1, duplicateRows: 1, freshChecks: 3 })
    expect(chunks.map(({ tokenVersion }) => tokenVersion)).toEqual(['1', '2', '1'])
    expect(chunks[1]?.duplicates.originals[3]).toBe(0)
  })
})
