import { describe, expect, it } from 'vitest'
import type { Submitted } from '../../../schemas/types.ts'
import { eventLoop } from '../../../services/runtime/platform/limits.ts'
import { createNormalizeStage } from '../../../services/normalize/main.ts'
import { createTokenizer } from '../../../services/cache/tokens.ts'
import { decideAll } from '../../support/decide-all.ts'
import {
  createManualClock, DEAD, incoming, JOB, QUOTED_AT_MS, TENANT,
} from '../../support/stage-messages.ts'

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
    sample: false,
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
  const expired = { chunks: 0 }
  const refused: unknown[] = []
  const stage = createNormalizeStage({
    store: {
      refuse: async (...claim) => {
        refused.push(claim)
        return { kind: 'open' }
      },
    },
    clock,
    tokenize: createTokenizer(new Map([['1', Buffer.alloc(32)]])),
    batch: 8,
    onExpired: () => { expired.chunks++ },
  })
  const normalize = async (chunk: ReturnType<typeof chunkOf>) => {
    const [decision] = await stage.decide([chunk], signal)
    if (decision === undefined || !('emits' in decision)) throw new Error('nothing is decided')
    expect(decision.completes).toEqual([chunk])
    return decision.emits
  }
  return { clock, refused, expired, stage, normalize }
}

describe('normalize', () => {
  it('gives every row its canonical form and token, or the reason why there is none', async () => {
    const inputs = [' (212) 736-5000', 'nonsense', '+44 20 7946 0958']
    const contacts = { offsets: [], references: ['a', 'b', 'c'] }
    const chunk = chunkOf(inputs, { country: 'US', totalRows: 1_001, chunks: 2 })
    const [emission] = await setUp().normalize({ ...chunk, rows: () => ({ inputs, contacts }) })
    const { country: _country, rowsSchema: _schema, sealed: _sealed, ...envelope } = chunk.value
    expect(emission).toEqual({
      topic: 'rows.normalized',
      lane: 'bulk',
      value: envelope,
      rows: {
        inputs,
        contacts,
        canonicals: ['+12127365000', '', '+442079460958'],
        reasons: ['', 'not_a_phone_number', ''],
        tokens: expect.anything(),
        rotatedTokens: null,
      },
    })
    expect(emission?.rows.tokens.length).toBe(48)
    expect(emission?.rows.tokens.subarray(16, 32)).toEqual(Buffer.alloc(16))
  })

  it('gives one token to addresses that differ in case, and keeps the spelling', async () => {
    const inputs = [
      'Ann@Example.COM', 'ANN@example.com.', 'Ann <"ann"@example.com>', 'an@x.org', '+12127365000',
    ]
    const [emission] = await setUp().normalize(chunkOf(inputs, { service: 'email-validation' }))
    const { canonicals = [], tokens = Buffer.alloc(0) } = emission?.rows ?? {}
    expect(canonicals)
      .toEqual(['Ann@example.com', 'ANN@example.com', 'ann@example.com', 'an@x.org', ''])
    const names = canonicals.map((_, row) => tokens.toString('hex', 16 * row, 16 * row + 16))
    expect([new Set(names.slice(0, 3)).size, new Set(names).size]).toEqual([1, 3])
  })

  it('yields to a small job within a chunk of expensive inputs', async () => {
    const { stage } = setUp()
    const ended: string[] = []
    const inputs = Array.from({ length: 1_001 }, () => `${'"'.repeat(60)}@x.com`)
    const big = stage.decide([chunkOf(inputs, { service: 'email-validation' })], signal)
      .then(() => { ended.push('big') })
    await eventLoop.yield('bulk')
    await stage.decide([chunkOf(['+12127365000'])], signal)
    ended.push('small')
    await big
    expect(ended).toEqual(['small', 'big'])
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

  it('drops chunks past acceptBy', async () => {
    const { normalize, clock, expired } = setUp()
    clock.advance(25_000)
    expect(await normalize(chunkOf(['+12127365000']))).toHaveLength(1)
    clock.advance(1)
    expect(await normalize(chunkOf(['+12127365000']))).toEqual([])
    expect(expired.chunks).toBe(1)
  })

  it('refuses the job of a chunk that cannot be decoded', async () => {
    const { stage, refused } = setUp()
    expect(await stage.resolveDead({ tenant: TENANT, job: JOB }, DEAD)).toEqual([])
    expect(await stage.resolveDead({}, DEAD)).toEqual([])
    expect(refused).toEqual([[TENANT, JOB, 'internal']])
  })
})
