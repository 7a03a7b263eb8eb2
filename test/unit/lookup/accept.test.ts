import { describe, expect, it } from 'vitest'
import { acceptJob, quoteIdOf } from '../../../services/lookup/accept.ts'
import { chunksOf, createStoreDouble, JOB } from '../../support/stage-doubles.ts'

const counts = { totalRows: 9, invalidRows: 1, duplicateRows: 2, cacheHits: 2, freshChecks: 4 }

async function accepted (change: Partial<typeof counts>, unitPriceMicros = 10) {
  const store = createStoreDouble()
  const [chunk] = chunksOf(['+12127365000'], { header: null })
  await acceptJob(chunk!.value, { ...counts, ...change },
    { store, unitPriceMicros: () => unitPriceMicros, maxActiveJobs: 3 })
  return store.accepts[0]
}

describe('acceptJob', () => {
  it('reserves the price of every row that may be charged', async () => {
    expect(await accepted({})).toMatchObject({
      id: JOB,
      unitPriceMicros: 10,
      preflight: { ...counts, maxQuoteMicros: 60, quoteId: quoteIdOf(JOB) },
      maxActiveJobs: 3,
      header: Buffer.alloc(0),
    })
  })

  it('uses the price of the partner if there is one', async () => {
    const store = createStoreDouble()
    const [chunk] = chunksOf(['+12127365000'], { header: null })
    const source = { partner: 'acme', partition: 0, cursor: 'whatsapp||', from: -1, to: 8 }
    for (const unitPriceMicros of [7, null]) {
      await acceptJob({ ...chunk!.value, feed: { ...source, unitPriceMicros } }, counts,
        { store, unitPriceMicros: () => 10, maxActiveJobs: 3 })
    }
    expect(store.accepts.map(accept => [accept.unitPriceMicros, accept.feed?.to]))
      .toEqual([[7, 8], [10, 8]])
  })

  it('is free in test mode', async () => {
    expect((await accepted({}, 0))?.preflight.maxQuoteMicros).toBe(0)
  })
})
