import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ProviderName } from '../../services/jobs/checks.ts'
import { Checker, type CheckResult } from '../../services/verify/checker.ts'
import { readHttpProviders } from '../../services/verify/providers/http-vendor.ts'
import { createVendorProvider } from '../../services/verify/providers/http.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { PROVIDER_LIMITS } from '../support/stage-messages.ts'
import { CANARIES } from '../support/vendors/vendor-words.ts'
import { batchDescription, singleDescription, startVendor } from '../support/vendors/vendor.ts'

const vendor = closeAfterAll(await startVendor())
beforeEach(async () => { await vendor.behave('well') })
afterEach(() => { vi.useRealTimers() })

/** Time passes only by the test, so that a provider at rest stays so for all of it. */
const stopClock = () => vi.useFakeTimers({ toFake: ['Date', 'performance'] })

const numbers = (count: number) => Array.from({ length: count }, (_, row) =>
  ({ row: row + 100, canonical: `+1212736${String(5_000 + row)}` }))

type Setting = {
  readonly described?: readonly unknown[]
  readonly whatsapp?: readonly ProviderName[]
  readonly timeoutMs?: number
}

function checkerOf ({ described, whatsapp = ['http:1'], timeoutMs = 300_000 }: Setting = {}) {
  const read = readHttpProviders(described ?? [batchDescription(vendor.url)])
  expect(read.faults).toEqual([])
  const counted: string[] = []
  const checker = new Checker({
    lists: { whatsapp },
    limits: { ...PROVIDER_LIMITS, timeoutMs, retries: 1 },
    factories: Object.fromEntries(read.providers.map((it) =>
      [`http:${it.id}`, () => createVendorProvider(it)])),
    metrics: {
      // Series begin at 0, before any request.
      count: (_, labels, more = 1) => {
        if (more > 0) counted.push([...Object.values(labels), more].join(' '))
      },
      observe: () => {},
      watch: () => {},
    },
  })
  const run = (count: number, signal = new AbortController().signal) =>
    checker.check(numbers(count), { service: 'whatsapp', mode: 'live', signal })
  return { run, counted }
}

function seen (checked: CheckResult): readonly string[] | string {
  const text = JSON.stringify(checked, (_, value: unknown) =>
    value instanceof Map ? [...value as Map<unknown, unknown>] : value)
  expect(text).not.toMatch(new RegExp(CANARIES.join('|'), 'i'))
  if (checked.verdicts.size === 0) return checked.open.size > 0 ? 'down' : 'rejected'
  return [...checked.verdicts].toSorted(([a], [b]) => a - b).map(([row, it]) =>
    [row, it.status, it.reason, it.confidence, it.fields.whatsapp ?? '-'].join(' '))
}

const FOUR = [
  '100 valid registered 95 true', '101 invalid not_registered 90 false',
  '102 valid registered 95 true', '103 invalid not_registered 90 false',
]
const unclear = FOUR.map((it) => `${it.slice(0, 3)} unknown unclear_answer 0 -`)
const nothing = FOUR.map((it) => `${it.slice(0, 3)} unknown no_answer 0 -`)

describe('a described vendor', () => {
  it('gives verdicts in standard terms, and only carrier names of its own', async () => {
    const { run } = checkerOf()
    const checked = await run(10)
    expect(seen(checked).slice(0, 4)).toEqual(FOUR)
    expect(seen(checked).at(-1)).toBe('109 unknown unclear_answer 0 -')
    expect(checked.verdicts.get(102)?.fields)
      .toEqual({ whatsapp: 'true', carrier: 'Example Mobile', line_type: 'mobile' })
    expect(checked.verdicts.get(104)?.fields).toEqual({ whatsapp: 'true' })
    expect(checked.verdicts.get(106)?.fields).toEqual({ whatsapp: 'true', line_type: 'mobile' })
  })

  it('gets at most its maximum of rows per call', async () => {
    expect(seen(await checkerOf().run(45))).toHaveLength(45)
    expect(await vendor.state()).toMatchObject({ calls: 3, rows: 45 })
  })

  it('may accept one row per call, identified by the repeated contact', async () => {
    const described = [singleDescription(vendor.url)]
    const { run } = checkerOf({ described, whatsapp: ['http:2'] })
    expect(seen(await run(4))).toEqual(FOUR)
    expect(await vendor.state()).toMatchObject({ calls: 4, rows: 4 })
  })

  it.each([
    ['slow', FOUR, ''],
    ['shuffled', FOUR, ''],
    ['long', FOUR, ''],
    ['short', FOUR.slice(1), ''],
    ['contradicting', unclear, ''],
    ['wrong', nothing, ''],
    ['swapped', 'down', 'bad_response'],
    ['none', 'down', 'bad_response'],
    ['nulls', 'down', 'bad_response'],
    ['garbage', 'down', 'bad_response'],
    ['erring', 'down', 'auth'],
    ['puzzling', 'down', 'bad_response'],
    ['broken', 'down', 'bad_response'],
    ['moved', 'down', 'bad_response'],
    ['huge', 'down', 'bad_response'],
    ['reset', 'down', 'bad_response'],
    ['cut', 'down', 'bad_response'],
    ['down', 'down', 'unavailable'],
    ['limiting', 'down', 'rate_limited'],
    ['hanging', 'down', 'timeout'],
    ['dripping', 'down', 'timeout'],
    ['refusing', 'rejected', 'rejected_input'],
  ] as const)('that is %s is understood or refused', async (mode, expected, failure) => {
    await vendor.behave(mode)
    const { run, counted } = checkerOf(failure === 'timeout' ? { timeoutMs: 300 } : {})
    expect(seen(await run(4))).toEqual(expected)
    if (failure !== '') expect(counted).toEqual([`whatsapp 101 ${failure} 4`])
  })

  it('that is unreachable, or rejects the credentials, is down', async () => {
    const auth = { kind: 'bearer', token: 'other' }
    const strange = checkerOf({ described: [batchDescription(vendor.url, { auth })] })
    expect(seen(await strange.run(1))).toBe('down')
    const stopped = await startVendor()
    await stopped.stop()
    const gone = checkerOf({ described: [batchDescription(stopped.url)] })
    expect(seen(await gone.run(1))).toBe('down')
    expect([...strange.counted, ...gone.counted])
      .toEqual(['whatsapp 101 auth 1', 'whatsapp 101 unavailable 1'])
  })
})

describe('the policies around it', () => {
  it('retry only rejected rows', async () => {
    for (const [mode, calls] of [['down', 1], ['broken', 1], ['limiting', 1]] as const) {
      await vendor.behave(mode)
      await checkerOf().run(1)
      expect([mode, (await vendor.state()).calls]).toEqual([mode, mode === 'down' ? 2 : calls])
    }
  })

  it('pause requests for as long as it asked', async () => {
    await vendor.behave('limiting')
    stopClock()
    const { run, counted } = checkerOf()
    for (let time = 0; time < 3; time++) await run(1)
    expect(await vendor.state()).toMatchObject({ calls: 1 })
    expect(counted).toEqual(Array(3).fill('whatsapp 101 rate_limited 1'))
  })

  it('keep answered rows and leave the others open', async () => {
    await vendor.behave('half')
    const errors = { statuses: { 503: 'auth' } }
    const described = [batchDescription(vendor.url, { maxRows: 2, concurrency: 1, errors })]
    const checked = await checkerOf({ described }).run(4)
    expect(seen(checked)).toEqual(FOUR.slice(0, 2))
    const down = { reason: 'unavailable' }
    expect(checked).toMatchObject({ open: new Map([[102, down], [103, down]]) })
  })

  it('respect the rate', async () => {
    const rate = { calls: 2, perMs: 3_600_000 }
    const { run } = checkerOf({ described: [batchDescription(vendor.url, { maxRows: 1, rate })] })
    const stopping = new AbortController()
    const checked = run(6, stopping.signal).then(seen, () => 'stopped')
    await expect.poll(async () => (await vendor.state()).calls).toBe(2)
    stopping.abort()
    expect(await checked).toBe('stopped')
    expect((await vendor.state()).calls).toBe(2)
  })
})
