import { isValidPhoneNumber } from 'libphonenumber-js/max'
import { describe, expect, it } from 'vitest'
import { mobileNumber, downloadRate } from '../../bench/jobs.ts'
import { memoryGrowth, memoryOf } from '../../bench/usage.ts'
import { verifyChunk } from '../../bench/peers/plain-chunk.ts'
import { scenarioLines } from '../../bench/table.ts'
import { mailZones, mixedEmails } from '../../bench/scenarios/email.ts'
import { growthRatio, stepsOf } from '../../bench/scenarios/growth.ts'
import { postFigures } from '../../bench/scenarios/scaling.ts'
import { bestFirst } from '../../bench/scenarios/small.ts'
import { CORE_REPORT, FULL_REPORT } from './sample-reports.ts'

describe('growth', () => {
  it('has steps up to all rows, including a tenth of them', () => {
    expect(stepsOf(100_000)).toEqual([1_000, 3_000, 10_000, 30_000, 100_000])
    expect(stepsOf(1_000)).toEqual([10, 30, 100, 300, 1_000])
  })

  it('is the wall time of all rows divided by that of a tenth', () => {
    const steps = [
      { rows: 10_000, wallMs: 125 }, { rows: 100_000, wallMs: 1_000 }, { rows: 1_000, wallMs: 50 },
    ]
    expect(growthRatio(steps)).toBe(8)
    expect(growthRatio(steps.slice(1))).toBe(NaN)
    expect(growthRatio([])).toBe(NaN)
  })
})

describe('the growth of memory', () => {
  const every5 = (seconds: number, mbAt: (second: number) => number) =>
    Array.from({ length: seconds / 5 }, (_, index) => (index + 1) * 5)
      .map(second => ({ second, mb: { settle: mbAt(second) } }))

  it.each([
    ['compares the second minute with the last half minute',
      every5(600, second => second < 100 ? 100 : 130), [100, 130, 1.3]],
    ['ignores a single outlier',
      every5(600, second => second === 75 || second === 595 ? 900 : 100), [100, 100, 1]],
    ['starts after a quarter of a short load',
      every5(60, second => second <= 30 ? 100 : second <= 45 ? 110 : 120), [100, 120, 1.2]],
  ] as const)('%s', (_, samples, [firstMb, lastMb, ratio]) => {
    expect(memoryGrowth(samples)).toEqual([{ name: 'settle', firstMb, lastMb, ratio }])
    expect(memoryGrowth([])).toEqual([])
  })
})

describe('postFigures', () => {
  it('counts posts by the status of their responses', () => {
    const posts = [202, 503, 429, 0, 202].map((status, index) => ({ ms: index * 10, status }))
    expect(postFigures(posts))
      .toEqual({ posts: 5, p50Ms: 20, p99Ms: 40, unavailable: 1, otherRefusals: 2 })
  })
})

describe('bestFirst', () => {
  const probe = (clients: number, jobsPerSecond: number, p95Ms: number) =>
    ({ clients, jobsPerSecond, post: { p50Ms: 1, p95Ms }, refused: 0 })

  it('orders by rate, and omits probes that are too slow or refused a job', () => {
    const probes = [
      probe(4, 90, 60), probe(8, 130, 80), probe(16, 120, 249),
      { ...probe(32, 140, 100), refused: 1 }, probe(64, 150, 250),
    ]
    expect(bestFirst(probes).map(({ clients }) => clients)).toEqual([8, 16, 4])
  })
})

describe('memoryOf', () => {
  it('counts pages that processes share once only in the proportional size', () => {
    const own = [{ name: 'this', pid: process.pid }, { name: 'stopped', pid: undefined }]
    const { residentMb, proportionalMb } = memoryOf(own)
    expect(proportionalMb).toBeGreaterThan(1)
    expect(residentMb).toBeGreaterThan(proportionalMb)
  })
})

describe('mobileNumber', () => {
  it('returns another valid number for every serial', () => {
    const numbers = [0, 1, 12, 13, 999_999, 1_000_000].map(mobileNumber)
    expect(new Set(numbers).size).toBe(numbers.length)
    expect(numbers.filter(number => !isValidPhoneNumber(number))).toEqual([])
  })
})

describe('downloadRate', () => {
  it('divides the bytes by the time since the end of the job', () => {
    const times = { preflightMs: 400, wallMs: 1_000, csvMs: 1_250, csvBytes: 20_000_000 }
    expect(downloadRate(times)).toBe(80)
  })
})

describe('mixedEmails', () => {
  const inputs = mixedEmails(2_000, 0)

  it('returns the same addresses for the same serial numbers, and others for others', () => {
    expect(mixedEmails(2_000, 0)).toEqual(inputs)
    expect(mixedEmails(10, 2_000)).not.toEqual(inputs.slice(0, 10))
  })

  it('uses domains of mailZones and missing company domains', () => {
    const zones = mailZones()
    const domains = new Set(inputs.filter(input => input.includes('@'))
      .map(input => input.slice(input.lastIndexOf('@') + 1)))
    const unknown = [...domains].filter(domain => zones[domain] === undefined)
    expect(unknown.length).toBeGreaterThan(0)
    expect(unknown.every(domain => /^company-(\d*[05])?0\.net$/.test(domain))).toBe(true)
  })
})

describe('verifyChunk', () => {
  it('returns a result for every input, valid or not', () => {
    const inputs = ['(212) 736-5000', 'call me', '+12']
    const { rows } = JSON.parse(verifyChunk(JSON.stringify({ inputs }))) as { rows: object[] }
    expect(rows[0]).toEqual({
      input: '(212) 736-5000',
      e164: '+12127365000',
      valid: true,
      type: 'FIXED_LINE_OR_MOBILE',
      token: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    expect(rows[1]).toEqual({ input: 'call me', e164: '', valid: false, type: '', token: '' })
    expect(rows).toHaveLength(3)
  })
})

it('the lines of scenarios are those of the scenarios that ran', () => {
  expect(scenarioLines(CORE_REPORT)).toEqual([])
  const lines = scenarioLines(FULL_REPORT)
  expect(lines).toHaveLength(25)
  for (const line of [
    ['growth: all / a tenth', '8.00'],
    ['e-mail: 50000 rows', '4000 ms, 12500 rows/s, 1006 domains'],
    ['verification: 100 cached', 'p50 28 ms, p95 38 ms'],
    ['small: memory after start', '1100 MB resident, 700 MB with shared pages once'],
    ['small: 50 jobs/s', '50.0 jobs/s, POST p50 60 ms, p95 180 ms, 1500 jobs, 0 refused'],
    ['  CPU per job', '5.50 ms'],
    ['    kafka', '3.50 ms'],
    ['soak: 10 minutes', '700 jobs, 1260000 rows'],
    ['  CPU', '0.35 ms per job, 53 % of a core, the client 98 %'],
  ]) expect(lines).toContainEqual(line)
})
