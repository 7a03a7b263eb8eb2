import { describe, expect, it } from 'vitest'
import type { Submitted } from '../../../schemas/types.ts'
import { yieldToEventLoop } from '../../../services/platform/event-loop.ts'
import { createNormalizeStage } from '../../../services/normalize/stage.ts'
import { createTokenizer } from '../../../services/normalize/token.ts'
import { decideAll } from '../../support/decide-all.ts'
import {
  acceptedJob, createManualClock, createStoreDouble, incoming, JOB, QUOTED_AT_MS, TENANT,
} from '../../support/stage-doubles.ts'

const signal = new AbortController().signal
const ACCEPT_BY_MS = QUOTED_AT_MS + 25_000

function chunkOf (inputs: readonly string[], change: Partial<Submitted> = {}) {
  const value: Submitted = {
    tenant: TENANT,
    job: JOB,
    service: 'phone-validation',
    chunk: 0,
    chunks: 1,
    firstRow: 0,
    rows: inputs.length,
    totalRows: inputs.length,
    country: '',
    submittedAt: QUOTED_AT_MS,
    acceptBy: ACCEPT_BY_MS,
    forceFresh: false,
    tokenVersion: '1',
    idempotencyKey: 'key',
    header: Buffer.from('header'),
    rowsSchema: 1,
    sealed: Buffer.alloc(0),
    ...change,
  }
  return incoming('rows.submitted', value, { rows: () => ({ inputs }) })
}

function setUp () {
  const clock = createManualClock()
  const store = createStoreDouble({ clock })
  const expired: number[] = []
  const stage = createNormalizeStage({
    store,
    clock,
    tokenize: createTokenizer(new Map([['1', Buffer.alloc(32)]])),
    batch: 8,
    onExpired: (rows) => expired.push(rows),
  })
  return { clock, store, expired, stage }
}

describe('normalize', () => {
  it('gives every row its canonical form and token, or the reason why there is none', async () => {
    const { stage } = setUp()
    const chunk = chunkOf([' (212) 736-5000', 'nonsense', '+44 20 7946 0958'], { country: 'US' })
    const [decision] = await stage.decide([chunk], signal)
    expect(decision).toMatchObject({ completes: [chunk] })
    const [emission] = decision && 'emits' in decision ? decision.emits : []
    expect(emission).toMatchObject({ topic: 'rows.normalized', lane: 'small' })
    expect(emission?.rows).toMatchObject({
      inputs: [' (212) 736-5000', 'nonsense', '+44 20 7946 0958'],
      canonicals: ['+12127365000', '', '+442079460958'],
      reasons: ['', 'not_a_phone_number', ''],
    })
    expect(emission?.rows.tokens.length).toBe(48)
    expect(emission?.rows.tokens.subarray(16, 32)).toEqual(Buffer.alloc(16))
    expect(emission?.value).toEqual({
      tenant: TENANT,
      job: JOB,
      service: 'phone-validation',
      chunk: 0,
      chunks: 1,
      firstRow: 0,
      rows: 3,
      totalRows: 3,
      submittedAt: QUOTED_AT_MS,
      acceptBy: ACCEPT_BY_MS,
      forceFresh: false,
      tokenVersion: '1',
      idempotencyKey: 'key',
      header: Buffer.from('header'),
    })
  })

  it('reads inputs as what the service takes', async () => {
    const { stage } = setUp()
    const chunk = chunkOf(['Ann@Example.COM', '+12127365000'], { service: 'email-validation' })
    const [decision] = await stage.decide([chunk], signal)
    const [emission] = decision && 'emits' in decision ? decision.emits : []
    expect(emission?.rows.canonicals).toEqual(['Ann@example.com', ''])
  })

  it('gives addresses that differ in case or form one token, and each its spelling', async () => {
    const { stage } = setUp()
    const inputs = ['Ann@example.com', 'ANN@example.com.', 'Ann <"ann"@example.com>', 'an@x.org']
    const chunk = chunkOf(inputs, { service: 'email-validation' })
    const [decision] = await stage.decide([chunk], signal)
    const [emission] = decision && 'emits' in decision ? decision.emits : []
    const { canonicals = [], tokens = Buffer.alloc(0) } = emission?.rows ?? {}
    expect(canonicals)
      .toEqual(['Ann@example.com', 'ANN@example.com', 'ann@example.com', 'an@x.org'])
    const names = canonicals.map((_, row) => tokens.toString('hex', 16 * row, 16 * row + 16))
    expect([new Set(names.slice(0, 3)).size, new Set(names).size]).toEqual([1, 2])
  })

  it('lets a small job have its turn amid a chunk of inputs that take long', async () => {
    const { stage } = setUp()
    const ended: string[] = []
    const inputs = Array.from({ length: 1_001 }, () => `${'"'.repeat(60)}@x.com`)
    const big = stage.decide([chunkOf(inputs, { service: 'email-validation' })], signal)
      .then(() => { ended.push('big') })
    await yieldToEventLoop('bulk')
    await stage.decide([chunkOf(['+12127365000'])], signal)
    ended.push('small')
    await big
    expect(ended).toEqual(['small', 'big'])
  })

  it('reads international numbers alone for a country without a numbering plan', async () => {
    const { stage } = setUp()
    const chunk = chunkOf(['+12127365000', '2127365000'], { country: 'AQ' })
    const [decision] = await stage.decide([chunk], signal)
    const [emission] = decision && 'emits' in decision ? decision.emits : []
    expect(emission?.rows).toMatchObject({
      canonicals: ['+12127365000', ''], reasons: ['', 'no_calling_code'],
    })
  })

  it('decides a chunk beside a batch of those of another tenant, not behind all', async () => {
    const { stage } = setUp()
    const inputs = Array.from({ length: 100 }, () => '7'.repeat(100))
    const [characters, chunksOfFlood] = [10_000, 30]
    let normalized = 0
    const flood = Array.from({ length: chunksOfFlood }, () => 'org_flood.live')
    const messages = [...flood, TENANT].map(tenant => {
      const chunk = chunkOf(tenant === TENANT ? ['+12127365000'] : inputs, { tenant })
      const rows = () => {
        normalized += chunk.rows().inputs.join('').length
        return chunk.rows()
      }
      return { ...chunk, rows }
    })
    const waitedFor: number[] = []
    await decideAll(stage, { topic: 'rows.submitted.bulk', messages }, ({ tenant }) => {
      if (tenant === TENANT) waitedFor.push(normalized)
    })
    expect(waitedFor).toEqual([7 * characters + '+12127365000'.length])
    expect(normalized).toBe(chunksOfFlood * characters + '+12127365000'.length)
  })

  it('sends chunks of big jobs down their own lane', async () => {
    const { stage } = setUp()
    const chunk = chunkOf(['+12127365000'], { totalRows: 1_001, chunks: 2 })
    const [decision] = await stage.decide([chunk], signal)
    expect(decision).toMatchObject({ emits: [{ lane: 'bulk' }] })
  })

  it('ends chunks that are too late to be accepted', async () => {
    const { stage, clock, expired } = setUp()
    clock.advance(25_000)
    const chunk = chunkOf(['+12127365000'])
    expect((await stage.decide([chunk], signal))[0]).toMatchObject({ emits: [{}] })
    clock.advance(1)
    expect(await stage.decide([chunk], signal)).toEqual([{ completes: [chunk], emits: [] }])
    expect(expired).toEqual([1])
  })

  it('has the job refused when a chunk can never be read', async () => {
    const { stage, store } = setUp()
    expect(await stage.whenDead({ tenant: TENANT, job: JOB }, '')).toEqual([])
    expect(await store.outcome(TENANT, JOB))
      .toEqual({ kind: 'refused', refusal: { code: 'internal' } })
  })

  it('leaves a job that is accepted already alone', async () => {
    const { stage, store } = setUp()
    store.jobs.set(JOB, acceptedJob())
    await stage.whenDead({ tenant: TENANT, job: JOB }, '')
    expect((await store.outcome(TENANT, JOB)).kind).toBe('accepted')
    expect(await stage.whenDead({}, '')).toEqual([])
  })
})
