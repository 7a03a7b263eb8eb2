import { isValidPhoneNumber } from 'libphonenumber-js/max'
import { describe, expect, it } from 'vitest'
import {
  atConstantRate, downloadRate, median, mobileNumber, percentilesOf, quantile,
} from '../../bench/jobs.ts'
import { checkLimit } from '../../bench/limits.ts'
import { verifyChunk } from '../../bench/peers/plain-chunk.ts'
import { mailZones, mixedEmails } from '../../bench/scenarios/email.ts'
import { growthRatio, stepsOf } from '../../bench/scenarios/growth.ts'
import { postFigures } from '../../bench/scenarios/scaling.ts'
import { bestFirst } from '../../bench/scenarios/small.ts'
import { memoryGrowth, memoryOf } from '../../bench/usage.ts'

const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1)

describe('a measured figure', () => {
  it.each([
    [[30, 10, 50, 20, 40], 30, 50], [upTo(40), 21, 39], [[7], 7, 7], [[], NaN, NaN],
  ])('is a percentile among the values, whatever their order: %j', (times, p50Ms, p95Ms) => {
    expect(percentilesOf(times)).toEqual({ p50Ms, p95Ms })
  })

  it('is the upper one of two middle values, and a quantile of a sorted copy', () => {
    const times = [3, 1, 2]
    expect([median([5, 1, 3]), median([4, 1, 3, 2])]).toEqual([3, 3])
    expect([quantile(upTo(10), 1), quantile(upTo(10), 0), quantile(upTo(200), 0.99)])
      .toEqual([10, 1, 199])
    quantile(times, 0.5)
    expect(times).toEqual([3, 1, 2])
  })

  type Limit = Parameters<typeof checkLimit>[0]
  const upper = { figure: 'a ratio', unit: 'ratio', bound: 'upper', limit: 1 } as const
  const target = { ...upper, target: 0.75 }
  const lower = {
    figure: 'a rate', unit: 'rows/s', bound: 'lower', limit: 15_000, target: 30_000,
  } as const

  it.each<[limit: Limit, value: number | undefined, status: string, missedByPercent?: number]>([
    [target, 0.75, 'target met'], [target, 0.76, 'limit met'], [target, 1, 'limit met'],
    [target, 1.25, 'limit missed', 25], [target, NaN, 'limit missed', NaN],
    [lower, 30_000, 'target met'], [lower, 15_000, 'limit met'],
    [lower, 12_000, 'limit missed', 20], [upper, 0.1, 'limit met'],
    [upper, undefined, 'not measured'],
  ])('%j of %d: %s, by %d percent', (limit, value, status, missedByPercent) => {
    expect(checkLimit(limit, value)).toEqual({
      ...limit,
      status,
      ...value !== undefined && { value },
      ...missedByPercent !== undefined && { missedByPercent },
    })
  })

  it('of growth is the wall time of all rows divided by that of a tenth', () => {
    expect(stepsOf(1_000)).toEqual([10, 30, 100, 300, 1_000])
    const steps = [
      { rows: 10_000, wallMs: 125 }, { rows: 100_000, wallMs: 1_000 }, { rows: 1_000, wallMs: 50 },
    ]
    expect([steps, steps.slice(1), []].map(growthRatio)).toEqual([8, NaN, NaN])
  })

  const every5 = (seconds: number, mbAt: (second: number) => number) => upTo(seconds / 5)
    .map(step => ({ second: 5 * step, mb: { settle: mbAt(5 * step) } }))

  it.each([
    ['compares the second minute with the last half minute',
      every5(600, second => second < 100 ? 100 : 130), [100, 130, 1.3]],
    ['ignores a single outlier',
      every5(600, second => second === 75 || second === 595 ? 900 : 100), [100, 100, 1]],
    ['starts after a quarter of a short load',
      every5(60, second => second <= 30 ? 100 : second <= 45 ? 110 : 120), [100, 120, 1.2]],
  ] as const)('of the growth of memory %s', (_, samples, [firstMb, lastMb, ratio]) => {
    expect(memoryGrowth(samples)).toEqual([{ name: 'settle', firstMb, lastMb, ratio }])
  })

  it('of memory counts pages that processes share once only in the proportional size', () => {
    const { residentMb, proportionalMb } =
      memoryOf([{ name: 'this', pid: process.pid }, { name: 'stopped', pid: undefined }])
    expect(proportionalMb).toBeGreaterThan(1)
    expect(residentMb).toBeGreaterThan(proportionalMb)
  })

  it('of posts counts them by the status of their responses', () => {
    const posts = [202, 503, 429, 0, 202].map((status, index) => ({ ms: index * 10, status }))
    expect(postFigures(posts))
      .toEqual({ posts: 5, p50Ms: 20, p99Ms: 40, unavailable: 1, otherRefusals: 2 })
  })

  it('of a download divides its bytes by the time since the end of the job', () => {
    const times = { preflightMs: 400, wallMs: 1_000, csvMs: 1_250, csvBytes: 20_000_000 }
    expect(downloadRate(times)).toBe(80)
  })

  it('of small jobs is the highest rate without slow posts and refusals', () => {
    const probe = (clients: number, jobsPerSecond: number, p95Ms: number) =>
      ({ clients, jobsPerSecond, post: { p50Ms: 1, p95Ms }, refused: 0 })
    const probes = [
      probe(4, 90, 60), probe(8, 130, 80), probe(16, 120, 249),
      { ...probe(32, 140, 100), refused: 1 }, probe(64, 150, 250),
    ]
    expect(bestFirst(probes).map(({ clients }) => clients)).toEqual([8, 16, 4])
  })
})

describe('a load', () => {
  it('starts calls at its rate while earlier ones run, and resolves with all', async () => {
    const [end, first] = [Promise.withResolvers<void>(), Promise.withResolvers<number>()]
    let started = 0
    expect(await atConstantRate(1, {
      until: end.promise,
      work: async () => {
        started += 1
        if (started === 3) {
          end.resolve()
          first.resolve(1)
        }
        return started === 1 ? await first.promise : started
      },
    })).toEqual([1, 2, 3])
  })

  it('fails when a call or its end does', async () => {
    const work = async () => { throw new Error('no job') }
    await expect(atConstantRate(1, { until: Promise.resolve(), work })).rejects.toThrow('no job')
    const until = Promise.reject(new Error('no wave'))
    await expect(atConstantRate(1, { until, work: async () => {} })).rejects.toThrow('no wave')
  })

  it('has another valid number for every serial', () => {
    const numbers = [0, 1, 12, 13, 999_999, 1_000_000].map(mobileNumber)
    expect(new Set(numbers).size).toBe(numbers.length)
    expect(numbers.filter(number => !isValidPhoneNumber(number))).toEqual([])
  })

  it('has the same addresses for a serial, of mailZones and missing company domains', () => {
    const inputs = mixedEmails(2_000, 0)
    expect(mixedEmails(2_000, 0)).toEqual(inputs)
    expect(mixedEmails(10, 2_000)).not.toEqual(inputs.slice(0, 10))
    const zones = mailZones()
    const unknown = new Set(inputs.filter(input => input.includes('@'))
      .map(input => input.slice(input.lastIndexOf('@') + 1))
      .filter(domain => zones[domain] === undefined))
    expect(unknown.size).toBeGreaterThan(0)
    for (const domain of unknown) expect(domain).toMatch(/^company-(\d*[05])?0\.net$/)
  })

  it('of a plain process has a result for every input, valid or not', () => {
    const inputs = ['(212) 736-5000', 'call me', '+12']
    const invalid = { e164: '', valid: false, type: '', token: '' }
    expect(JSON.parse(verifyChunk(JSON.stringify({ inputs })))).toEqual({
      rows: [{
        input: '(212) 736-5000',
        e164: '+12127365000',
        valid: true,
        type: 'FIXED_LINE_OR_MOBILE',
        token: expect.stringMatching(/^[0-9a-f]{64}$/),
      }, { input: 'call me', ...invalid }, { input: '+12', ...invalid }],
    })
  })
})
