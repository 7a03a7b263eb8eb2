import { describe, expect, it } from 'vitest'
import {
  type LimitedRequest, createLocalLimiter,
} from '../../../../services/ingest/limits/limiter.ts'

const post = { org: 'org_1', kind: 'post' } as const
const get = { org: 'org_1', kind: 'get' } as const

/** Local limits and their clock. */
function setUp () {
  const clock = { ms: 5_000 }
  const limiter = createLocalLimiter(() => ({
    post: [{ capacity: 4, seconds: 2 }, { capacity: 6, seconds: 60 }],
    get: [{ capacity: 2, seconds: 1 }],
  }), () => clock.ms)
  const kinds = (request: LimitedRequest, times: number) =>
    Array.from({ length: times }, () => limiter.admit(request).kind)
  const tokens = (request: LimitedRequest) =>
    limiter.admit(request).levels.map(level => level.tokens)
  return { clock, limiter, kinds, tokens }
}

const admitted = (times: number) => Array(times).fill('admitted')

describe('local buckets', () => {
  it('start full and admit a burst of their capacity', () => {
    const { kinds, tokens } = setUp()
    expect(kinds(get, 3)).toEqual([...admitted(2), 'throttled'])
    expect(tokens(post)).toEqual([3, 5])
  })

  it('fill in proportion to time, up to their capacity', () => {
    const { clock, kinds, tokens } = setUp()
    kinds(get, 2)
    clock.ms += 250
    expect(tokens(get)).toEqual([0.5])
    clock.ms += 250
    expect(kinds(get, 2)).toEqual(['admitted', 'throttled'])
    clock.ms += 3_600_000
    expect(kinds(get, 3)).toEqual([...admitted(2), 'throttled'])
  })

  it('refuse a request when one of two is empty, and take from neither', () => {
    const { clock, kinds, tokens } = setUp()
    expect(kinds(post, 5)).toEqual([...admitted(4), 'throttled'])
    clock.ms += 2_000
    expect(kinds(post, 3)).toEqual([...admitted(2), 'throttled'])
    expect(tokens(post)).toEqual([2, expect.closeTo(0.2, 9)])
  })

  it('take back what a request took, up to their capacity', () => {
    const { limiter, kinds } = setUp()
    kinds(get, 2)
    limiter.refund(get)
    expect(limiter.levels(get)).toMatchObject([{ tokens: 1 }])
    limiter.refund(get)
    limiter.refund(get)
    expect(limiter.levels(get)).toMatchObject([{ tokens: 2 }])
    expect(kinds(get, 3)).toEqual([...admitted(2), 'throttled'])
  })

  it('are of one organization and one kind of request', () => {
    const { kinds, tokens } = setUp()
    kinds(get, 3)
    expect(tokens({ ...get, org: 'org_2' })).toEqual([1])
    expect(tokens(post)).toEqual([3, 5])
  })

  it('are forgotten, so full again, for the organizations not seen for longest', () => {
    const { kinds, limiter, tokens } = setUp()
    kinds(get, 2)
    for (let other = 0; other < 10_000; other++) {
      limiter.admit({ org: `org_other_${other}`, kind: 'get' })
    }
    expect(tokens(get)).toEqual([1])
  })
})
