import { describe, expect, it } from 'vitest'
import type { Submitted } from '../../../schemas/types.ts'
import { yieldToEventLoop } from '../../../services/runtime/platform/event-loop.ts'
import { canonicalFor, createNormalizeStage } from '../../../services/normalize/stage.ts'
import { createTokenizer } from '../../../services/cache/tokens.ts'
import { identitiesOf } from '../../../services/jobs/results/columns.ts'
import { decideAll } from '../../support/decide-all.ts'
import {
  acceptedJob, createManualClock, createStoreDouble, DEAD, incoming, JOB, QUOTED_AT_MS, TENANT,
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

describe('the normalize stage', () => {
  it('passes on what the sender gave with each input', async () => {
    const { stage } = setUp()
    const contacts = { offsets: [], references: ['a,+12127365000'] }
    const inputs = ['+12127365000']
    const chunk = { ...chunkOf(inputs), rows: () => ({ inputs, contacts }) }
    const [decision] = await stage.decide([chunk], signal)
    const [emission] = decision && 'emits' in decision ? decision.emits : []
    expect(emission?.rows).toMatchObject({ contacts })
  })

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

  it('parses inputs by the kind of the service', async () => {
    const { stage } = setUp()
    const chunk = chunkOf(['Ann@Example.COM', '+12127365000'], { service: 'email-validation' })
    const [decision] = await stage.decide([chunk], signal)
    const [emission] = decision && 'emits' in decision ? decision.emits : []
    expect(emission?.rows.canonicals).toEqual(['Ann@example.com', ''])
  })

  it('gives one token to addresses that differ in case, and keeps the spelling', async () => {
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

  it('yields to a small job within a chunk of expensive inputs', async () => {
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

  it('parses only international numbers for a country without a numbering plan', async () => {
    const { stage } = setUp()
    const chunk = chunkOf(['+12127365000', '2127365000'], { country: 'AQ' })
    const [decision] = await stage.decide([chunk], signal)
    const [emission] = decision && 'emits' in decision ? decision.emits : []
    expect(emission?.rows).toMatchObject({
      canonicals: ['+12127365000', ''], reasons: ['', 'no_calling_code'],
    })
  })

  it('interleaves a chunk with a batch of another tenant', async () => {
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

  it('sends chunks of big jobs to the lane bulk', async () => {
    const { stage } = setUp()
    const chunk = chunkOf(['+12127365000'], { totalRows: 1_001, chunks: 2 })
    const [decision] = await stage.decide([chunk], signal)
    expect(decision).toMatchObject({ emits: [{ lane: 'bulk' }] })
  })

  it('drops chunks past acceptBy', async () => {
    const { stage, clock, expired } = setUp()
    clock.advance(25_000)
    const chunk = chunkOf(['+12127365000'])
    expect((await stage.decide([chunk], signal))[0]).toMatchObject({ emits: [{}] })
    clock.advance(1)
    expect(await stage.decide([chunk], signal)).toEqual([{ completes: [chunk], emits: [] }])
    expect(expired).toEqual([1])
  })

  it('refuses the job of a chunk that cannot be decoded', async () => {
    const { stage, store } = setUp()
    expect(await stage.resolveDead({ tenant: TENANT, job: JOB }, DEAD)).toEqual([])
    expect(await store.outcome(TENANT, JOB))
      .toEqual({ kind: 'refused', refusal: { code: 'internal' } })
  })

  it('does not refuse an accepted job', async () => {
    const { stage, store } = setUp()
    store.jobs.set(JOB, acceptedJob())
    await stage.resolveDead({ tenant: TENANT, job: JOB }, DEAD)
    expect((await store.outcome(TENANT, JOB)).kind).toBe('accepted')
    expect(await stage.resolveDead({}, DEAD)).toEqual([])
  })
})

describe('canonicalFor', () => {
  it('reads phone numbers with the job\'s country', () => {
    expect(canonicalFor('phone')('212 736 5000', 'US'))
      .toEqual({ ok: true, canonical: '+12127365000' })
  })

  it('reads e-mail addresses', () => {
    expect(canonicalFor('email')('Jane@X.org', 'US')).toEqual({ ok: true, canonical: 'Jane@x.org' })
  })

  it('treats the other kind of contact as an invalid row', () => {
    expect(canonicalFor('email')('+12127365000', undefined))
      .toEqual({ ok: false, reason: 'not_an_email' })
    expect(canonicalFor('phone')('jane@x.org', 'US'))
      .toEqual({ ok: false, reason: 'not_a_phone_number' })
  })
})

describe('identitiesOf', () => {
  it('compares addresses without case and phone numbers exactly', () => {
    expect(identitiesOf('email', ['Jane@x.org', ''])).toEqual(['jane@x.org', ''])
    expect(identitiesOf('phone', ['+12127365000', ''])).toEqual(['+12127365000', ''])
  })
})
