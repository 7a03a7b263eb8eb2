import { describe, expect, it } from 'vitest'
import { FatalError } from '../../../services/lib/errors.ts'
import { decideOrGiveUp } from '../../../services/lookup/give-up.ts'
import { createLoader } from '../../../services/lookup/load.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import {
  chunksOf, createManualClock, createStoreDouble, JOB, TENANT,
} from '../../support/stage-doubles.ts'

const parts = chunksOf(['+12127365000'])
const unit = { parts, members: parts }

function setUp (unitPriceMicros: () => number) {
  const store = createStoreDouble()
  const told: string[] = []
  const decided = decideOrGiveUp(unit, {
    store,
    outbox: { remove: async () => {} },
    load: createLoader(createCacheDouble()),
    clock: createManualClock(),
    unitPriceMicros,
    freshnessMs: async () => 1_000,
    partRows: () => 50,
    maxActiveJobs: 10,
    onUndecidable: (job) => told.push(job),
  })
  return { store, told, decided }
}

describe('a job that fails while it is decided', () => {
  it('is refused, its chunks are dead, and somebody is told', async () => {
    const { store, told, decided } = setUp(() => { throw new RangeError('no price') })
    expect(await decided).toEqual({ finishes: parts, emits: [], dead: 'undecidable' })
    expect(told).toEqual([JOB])
    expect(await store.outcome(TENANT, JOB)).toMatchObject({ refusal: { code: 'internal' } })
  })

  it('is left alone when the process cannot go on', async () => {
    const { store, told, decided } = setUp(() => { throw new FatalError('stop') })
    await expect(decided).rejects.toThrow('stop')
    expect([told, await store.outcome(TENANT, JOB)]).toEqual([[], { kind: 'open' }])
  })
})
