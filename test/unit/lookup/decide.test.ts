import { describe, expect, it } from 'vitest'
import { Redis } from 'ioredis'
import {
  decideJob, type LookupDeps, failJob, connectPolicies,
} from '../../../services/lookup/decide.ts'
import { ChunkLoader } from '../../../services/lookup/read.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import {
  chunksOf, createManualClock, createStoreDouble, emitted, JOB, acceptedJob, entryOf, rowsOf,
  TENANT,
} from '../../support/stage-doubles.ts'
import type { Job } from '../../../services/jobs/job.ts'
import { FatalError } from '../../../services/runtime/platform/errors.ts'
import { NO_BATCH } from '../../../services/jobs/results/block.ts'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { batchRowsOf, lookupConfig } from '../../../services/lookup/config.ts'
import { STAGE_ENVIRONMENT } from '../../support/stacks/stage-environment.ts'

const phone = (last: number) => `+1212736${5_000 + last}`

const partsWith = (change: Partial<LookupDeps> = {}): LookupDeps => ({
  store: createStoreDouble(),
  loader: new ChunkLoader(createCacheDouble()),
  clock: createManualClock(),
  unitPriceMicros: () => 10,
  policy: async () => ({ freshnessMs: 1_000, maxActiveJobs: 10 }),
  batchRows: lane => lane === 'small' ? 50 : 200,
  batch: 25,
  ...change,
})

const unitOf = (messages: ReturnType<typeof chunksOf>) => ({ messages, members: messages })

describe('decideJob', () => {
  it('reserves every row at the price of the partner if there is one', async () => {
    const store = createStoreDouble()
    const [chunk] = chunksOf([phone(0)], { header: null })
    const source = { partner: 'acme', partition: 0, cursor: 'whatsapp||', from: -1, to: 8 }
    for (const [number, unitPriceMicros] of [7, null].entries()) {
      const value = { ...chunk!.value, job: `job_${number}`, feed: { ...source, unitPriceMicros } }
      await decideJob(unitOf([{ ...chunk!, value }]), partsWith({ store }))
    }
    expect(store.accepts.map(({ preflight, unitPriceMicros, feed, header }) =>
      [preflight.maxQuoteMicros, preflight.quoteId, unitPriceMicros, feed?.to, header.length]))
      .toEqual([[7, 'quot_0', 7, 8, 0], [10, 'quot_1', 10, 8, 0]])
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
    const overlapping = { ...second!, value: { ...second!.value, firstRow: 0 } }
    const faults: string[] = []
    const onUndecidable = (_of: object, error: unknown) => { faults.push(String(error)) }
    for (const some of [[second!], [first!], [first!, overlapping]]) {
      expect(await decideJob(unitOf(some), partsWith({ onUndecidable })))
        .toEqual({ completes: some, emits: [], dead: 'undecidable' })
    }
    expect(faults).toEqual([
      expect.stringContaining(`rows 0-0 of job ${JOB} are missing before chunk 1`),
      expect.stringContaining('have 1 rows, expected 2'),
      expect.stringContaining(`chunk 1 of job ${JOB} starts at row 0, expected 1`),
    ])
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

const messages = chunksOf(['+12127365000'])
const unit = { messages, members: messages }

function undecidable (unitPriceMicros: () => number) {
  const events: string[] = []
  const store = createStoreDouble()
  const onUndecidable = (of: { tenant: string, job: string }) => events.push(of.tenant, of.job)
  const decided = decideJob(unit, partsWith({ store, unitPriceMicros, onUndecidable }))
  return { store, events, decided }
}

describe('a job that fails while it is decided', () => {
  it('is refused and logged, and its chunks are dead letters', async () => {
    const { store, events, decided } = undecidable(() => { throw new RangeError('no price') })
    expect(await decided).toEqual({ completes: messages, emits: [], dead: 'undecidable' })
    expect(events).toEqual([TENANT, JOB])
    expect(await store.outcome(TENANT, JOB)).toMatchObject({ refusal: { code: 'internal' } })
  })

  it('after acceptance is announced once its reservation is in the journal', async () => {
    const events: string[] = []
    const job = { id: JOB, preflight: { maxQuoteMicros: 5 } } as Job
    const entry = entryOf(TENANT, job)
    const decision = await failJob(unit, partsWith({
      store: {
        ...createStoreDouble(),
        refuse: async () => ({ kind: 'accepted', job, entry }),
        announce: async (_tenant, _job, seq) => { events.push(`announced with entry ${seq}`) },
      },
    }))
    expect(emitted([decision], 'rows.completed')).toHaveLength(1)
    expect(emitted([decision], 'wallet.journal').map(({ value }) => value)).toEqual([entry])
    expect(events).toEqual([])
    await decision.afterProduced?.()
    expect(events).toEqual(['announced with entry 7'])
  })

  it('leaves the rows of a rebuilt job to batches that may be in progress', async () => {
    const store = createStoreDouble()
    store.jobs.set(JOB, { ...acceptedJob(), rebuilt: true })
    const { dead, emits } = await failJob(unit, partsWith({ store }))
    expect(dead).toBe('undecidable')
    const [block, ...others] = emitted([{ emits }], 'rows.completed')
    expect(block?.rows.inputs).toEqual([' +12127365000'])
    expect(rowsOf(block!.value.finished)).toEqual([])
    expect(others).toEqual([])
  })

  it('ends its rows with blocks that wait for a recount', async () => {
    const store = createStoreDouble()
    store.jobs.set(JOB, acceptedJob())
    const { emits } = await failJob(unit, partsWith({ store }))
    const [block, ...others] = emitted([{ emits }], 'rows.completed').map(({ value }) => value)
    expect(block).toMatchObject({ batch: NO_BATCH.substitute, inputs: true })
    expect([rowsOf(block!.finished), others]).toEqual([[0], []])
  })

  it('is not touched after a fatal error', async () => {
    const { store, events, decided } = undecidable(() => { throw new FatalError('stop') })
    await expect(decided).rejects.toThrow('stop')
    expect([events, await store.outcome(TENANT, JOB)]).toEqual([[], { kind: 'open' }])
  })
})

function policyWith (stored: Record<string, string>) {
  const redis = new Redis({ lazyConnect: true })
  redis.hmget = (async (_key: string, ...names: readonly string[]) =>
    names.map(name => stored[name] ?? null)) as never
  return connectPolicies(redis, 7)
}

describe('the policy of an organization', () => {
  it('has its limits, or those of the configuration', async () => {
    expect(await policyWith({})('org_1.live'))
      .toEqual({ freshnessMs: 90 * 86_400_000, maxActiveJobs: 7 })
    expect(await policyWith({ activeJobs: '30', freshnessDays: '0' })('org_1.live'))
      .toEqual({ freshnessMs: 0, maxActiveJobs: 30 })
  })

  it('has the events that endpoints of the mode want before the end of a job', async () => {
    const subscription = { endpoint: 'we_1', events: ['job.progress', 'job.completed'] }
    const policy = policyWith({
      liveSubscriptions: JSON.stringify([subscription]), lowBalanceMicros: '5000',
    })
    expect(await policy('org_1.live'))
      .toMatchObject({ events: ['job.progress'], lowBalanceMicros: 5_000 })
    expect(await policy('org_1.test')).not.toHaveProperty('events')
  })

  it('knows an erased one', async () => {
    expect(await policyWith({ erasedAt: '1' })('org_1.live')).toMatchObject({ isErased: true })
  })
})

describe('the settings of lookup', () => {
  const configOf = (more: Record<string, string>) =>
    loadConfig(lookupConfig, { ...STAGE_ENVIRONMENT, ...more })

  it('are the documented ones by default', () => {
    const config = configOf({})
    expect([config.MAX_ACTIVE_JOBS, config.LOOKUP_BATCH_MESSAGES]).toEqual([10, 25])
    const batchRows = batchRowsOf(config)
    expect(batchRows('small', 'phone-validation')).toBe(50)
    expect(batchRows('bulk', 'whatsapp')).toBe(200)
    expect(batchRows('bulk', 'phone-validation')).toBe(2_000)
  })

  it('size verification batches by lane and service', () => {
    const batchRows = batchRowsOf(configOf({
      VERIFY_BATCH_ROWS_SMALL: '5', VERIFY_BATCH_ROWS_QUICK: '70', QUICK_SERVICES: '["whatsapp"]',
    }))
    expect(batchRows('small', 'whatsapp')).toBe(5)
    expect(batchRows('bulk', 'whatsapp')).toBe(70)
    expect(batchRows('bulk', 'phone-validation')).toBe(200)
  })
})
