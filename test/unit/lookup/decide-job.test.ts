import { describe, expect, it } from 'vitest'
import { quoteIdOf } from '../../../services/lookup/accept.ts'
import { decideJob, type JobDeps } from '../../../services/lookup/decide-job.ts'
import { createLoader } from '../../../services/lookup/chunk-loader.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import {
  chunksOf, createManualClock, createStoreDouble, emitted, JOB,
} from '../../support/stage-doubles.ts'

const phone = (last: number) => `+1212736${5_000 + last}`

const partsWith = (change: Partial<JobDeps> = {}): JobDeps => ({
  store: createStoreDouble(),
  load: createLoader(createCacheDouble()),
  clock: createManualClock(),
  unitPriceMicros: () => 10,
  policy: async () => ({ freshnessMs: 1_000, maxActiveJobs: 10 }),
  batchRows: (lane) => lane === 'small' ? 50 : 200,
  ...change,
})

const unitOf = (messages: ReturnType<typeof chunksOf>) => ({ messages, members: messages })

describe('decideJob', () => {
  it('names the quote after the job', () => {
    expect(quoteIdOf('job_01jabc')).toBe('quot_01jabc')
  })

  it('sizes verification batches by the lane of the job', async () => {
    const rows = (count: number) => Array.from({ length: count }, (_, row) => phone(row))
    const small = await decideJob(unitOf(chunksOf(rows(120))), partsWith())
    expect(emitted([small], 'rows.to-verify').map(({ rows: { rows } }) => rows.length))
      .toEqual([50, 50, 20])
    const big = await decideJob(unitOf(chunksOf(rows(1_201))), partsWith())
    const sizes = emitted([big], 'rows.to-verify').map(({ lane, rows }) => [lane, rows.rows.length])
    expect(sizes).toEqual([...new Array(5).fill(['bulk', 200]), ['bulk', 200], ['bulk', 1]])
  })

  it('passes the policy of the organization to every batch', async () => {
    const decision = await decideJob(unitOf(chunksOf([phone(0)])),
      partsWith({
        policy: async tenant =>
          ({ freshnessMs: tenant === 'org_1.live' ? 77 : 0, maxActiveJobs: 10 }),
      }))
    expect(emitted([decision], 'rows.to-verify')[0]?.value.freshnessMs).toBe(77)
  })

  it('refuses a job of an erased organization, unless it was accepted before', async () => {
    const store = createStoreDouble()
    const isErased = { policy: async () => ({ freshnessMs: 0, maxActiveJobs: 10, isErased: true }) }
    const unit = unitOf(chunksOf([phone(0)]))
    const refused = await decideJob(unit, partsWith({ ...isErased, store }))
    expect([refused.emits, await store.outcome('org_1.live', JOB)])
      .toEqual([[], expect.objectContaining({ kind: 'refused' })])
    const kept = createStoreDouble()
    await decideJob(unit, partsWith({ store: kept }))
    const again = await decideJob(unit, partsWith({ ...isErased, store: kept }))
    expect(emitted([again], 'rows.to-verify')).toHaveLength(1)
  })

  it('rejects missing and overlapping chunks', async () => {
    const [first, second] = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    await expect(decideJob(unitOf([second!]), partsWith()))
      .rejects.toThrow(`rows 0-0 of job ${JOB} are missing before chunk 1`)
    await expect(decideJob(unitOf([first!]), partsWith()))
      .rejects.toThrow('have 1 rows, expected 2')
    const overlapping = { ...second!, value: { ...second!.value, firstRow: 0 } }
    await expect(decideJob(unitOf([first!, overlapping]), partsWith()))
      .rejects.toThrow(`chunk 1 of job ${JOB} starts at row 0, expected 1`)
  })

  it('yields while it decides a big job', async () => {
    let turns = 0
    let decided = false
    const count = () => {
      turns++
      if (!decided) setImmediate(count)
    }
    setImmediate(count)
    const rows = Array.from({ length: 20_000 }, (_, row) => `+1212${7_000_000 + row}`)
    await decideJob(unitOf(chunksOf(rows)), partsWith())
    decided = true
    expect(turns).toBeGreaterThan(5)
  })
})
