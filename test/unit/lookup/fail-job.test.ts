import { describe, expect, it } from 'vitest'
import type { Job } from '../../../services/jobs/job.ts'
import { FatalError } from '../../../services/platform/errors.ts'
import { decideOrFailJob, failJob } from '../../../services/lookup/fail-job.ts'
import { createLoader } from '../../../services/lookup/chunk-loader.ts'
import { BATCHLESS } from '../../../services/results/block.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import {
  acceptedJob, chunksOf, createManualClock, createStoreDouble, emitted, entryOf, JOB, rowsOf,
  TENANT,
} from '../../support/stage-doubles.ts'

const messages = chunksOf(['+12127365000'])
const unit = { messages, members: messages }

const partsWith = (unitPriceMicros: () => number) => ({
  store: createStoreDouble(),
  load: createLoader(createCacheDouble()),
  clock: createManualClock(),
  unitPriceMicros,
  policy: async () => ({ freshnessMs: 1_000, maxActiveJobs: 10 }),
  batchRows: () => 50,
})

function setUp (unitPriceMicros: () => number) {
  const events: string[] = []
  const messages = partsWith(unitPriceMicros)
  const { store } = messages
  const onUndecidable = (of: { tenant: string, job: string }) => events.push(of.tenant, of.job)
  const decided = decideOrFailJob(unit, { ...messages, onUndecidable })
  return { store, events, decided }
}

describe('a job that fails while it is decided', () => {
  it('is refused and logged, and its chunks are dead letters', async () => {
    const { store, events, decided } = setUp(() => { throw new RangeError('no price') })
    expect(await decided).toEqual({ completes: messages, emits: [], dead: 'undecidable' })
    expect(events).toEqual([TENANT, JOB])
    expect(await store.outcome(TENANT, JOB)).toMatchObject({ refusal: { code: 'internal' } })
  })

  it('after acceptance is announced once its reservation is in the journal', async () => {
    const events: string[] = []
    const job = { id: JOB, preflight: { maxQuoteMicros: 5 } } as Job
    const entry = entryOf(TENANT, job)
    const decision = await failJob(unit, {
      ...partsWith(() => 5),
      store: {
        ...createStoreDouble(),
        refuse: async () => ({ kind: 'accepted', job, entry }),
        announce: async (_tenant, _job, seq) => { events.push(`announced with entry ${seq}`) },
      },
    })
    expect(emitted([decision], 'rows.completed')).toHaveLength(1)
    expect(emitted([decision], 'wallet.journal').map(({ value }) => value)).toEqual([entry])
    expect(events).toEqual([])
    await decision.afterProduced?.()
    expect(events).toEqual(['announced with entry 7'])
  })

  it('leaves the rows of a rebuilt job to batches that may be in progress', async () => {
    const [rows, store] = [partsWith(() => 5), createStoreDouble()]
    store.jobs.set(JOB, { ...acceptedJob(), rebuilt: true })
    const { dead, emits } = await failJob(unit, { ...rows, store })
    expect(dead).toBe('undecidable')
    const [block, ...others] = emitted([{ emits }], 'rows.completed')
    expect(block?.rows.inputs).toEqual([' +12127365000'])
    expect(rowsOf(block!.value.finished)).toEqual([])
    expect(others).toEqual([])
  })

  it('ends its rows with blocks that wait for a recount', async () => {
    const [rows, store] = [partsWith(() => 5), createStoreDouble()]
    store.jobs.set(JOB, acceptedJob())
    const { emits } = await failJob(unit, { ...rows, store })
    const [block, ...others] = emitted([{ emits }], 'rows.completed').map(({ value }) => value)
    expect(block).toMatchObject({ batch: BATCHLESS.replacingLost, inputs: true })
    expect([rowsOf(block!.finished), others]).toEqual([[0], []])
  })

  it('is not touched after a fatal error', async () => {
    const { store, events, decided } = setUp(() => { throw new FatalError('stop') })
    await expect(decided).rejects.toThrow('stop')
    expect([events, await store.outcome(TENANT, JOB)]).toEqual([[], { kind: 'open' }])
  })
})
