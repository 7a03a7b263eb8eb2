import { describe, expect, it } from 'vitest'
import type { Decision, Emission } from '../../../services/runtime/engine/stage.ts'
import { Checker } from '../../../services/verify/checker.ts'
import {
  type Provider, type ProviderAnswer, ProviderError,
} from '../../../services/verify/provider.ts'
import { createSandboxProvider } from '../../../services/verify/providers/sandbox.ts'
import { cellsIn } from '../../support/clickhouse/results.ts'
import { delivered, emitted, PROVIDER_LIMITS, rowsOf } from '../../support/stage-messages.ts'
import { startVerify } from './start-verify.ts'

const { acceptJob } = await startVerify()

const signal = new AbortController().signal
const MINUTE_MS = 60_000

const DELIVERABLE = {
  status: 'valid', reason: 'deliverable', confidence: 95, fields: {},
} as const
const GREYLISTED = { status: 'unknown', reason: 'greylisted', confidence: 0, fields: {} } as const

type Setting = Parameters<typeof acceptJob>[0] & { readonly retryDelayMs?: number }

/** A verify stage whose only provider answers so; rows of test keys have the sandbox. */
async function setUp (
  check: Provider['check'], { retryDelayMs = MINUTE_MS, ...terms }: Setting = {}
) {
  const checker = new Checker({
    lists: { 'email-validation': ['email-domain'] },
    limits: PROVIDER_LIMITS,
    factories: {
      sandbox: createSandboxProvider,
      'email-domain': () => ({ id: 2, services: ['email-validation'], check }),
    },
  })
  const job = await acceptJob(terms)
  const { clock, acceptedAtMs } = job
  const stage = job.start({ checker, retryDelayMs })
  const decide = async (message: Parameters<typeof stage.decide>[0][number]) => {
    const decisions = await stage.decide([message], signal)
    for (const decision of decisions) await (decision as Decision).afterProduced?.()
    return decisions
  }
  /** The blocks of these addresses until the last row is finished, with the number of retries. */
  const run = async (addresses: readonly string[], change: { readonly batch?: number } = {}) => {
    let decisions = await decide(job.batch(addresses, { service: 'email-validation', ...change }))
    const blocks: Emission<'rows.completed'>[] = []
    for (let retries = 0; ; retries++) {
      blocks.push(...emitted(decisions, 'rows.completed'))
      const [retry] = emitted(decisions, 'rows.retry')
      if (retry === undefined) {
        const summary = blocks.map(({ value, rows }) =>
          [rowsOf(value.finished), cellsIn(rows, 'reason'), rowsOf(value.live)])
        return { summary, retries, waitedMs: clock.now() - acceptedAtMs }
      }
      clock.advance(retry.value.notBefore - clock.now())
      decisions = await decide(delivered(retry))
    }
  }
  return { ...job, decide, run }
}

describe('a row that its provider wants to retry', () => {
  const setUpSandbox = () => setUp(async () => [], { mode: 'test' })

  it('does not delay the other rows of its batch', async () => {
    const { run } = await setUpSandbox()
    const { summary, retries, waitedMs } =
      await run(['jane@x.org', 'unavailable@x.org', 'invalid@x.org', 'timeout@x.org'])
    expect(summary).toEqual([
      [[0, 2], ['deliverable', 'mailbox_not_found'], [0, 2]],
      [[1, 3], ['unavailable', 'timeout'], []],
    ])
    expect([retries, waitedMs]).toEqual([15, 15 * MINUTE_MS])
  })

  it('waits for the reason that it would have if it ended', async () => {
    const { batch, decide, waiting } = await setUpSandbox()
    await decide(batch(
      ['jane@x.org', 'unavailable@x.org', 'timeout@x.org'], { service: 'email-validation' }))
    expect(await waiting())
      .toMatchObject({ '0:0': { reasons: { unavailable: 1, timeout: 1 }, dueRows: 2 } })
  })

  it('is billed once, after the retry with a verdict', async () => {
    let calls = 0
    const { run } = await setUp(async rows => {
      calls++
      return rows.map(({ row, canonical }) => canonical === 'grey@x.org' && calls < 6
        ? { row, verdict: GREYLISTED, retry: true }
        : { row, verdict: DELIVERABLE })
    })
    const { summary, retries } = await run(['jane@x.org', 'grey@x.org'])
    expect(summary).toEqual([[[0], ['deliverable'], [0]], [[1], ['deliverable'], [1]]])
    expect([retries, calls]).toEqual([5, 6])
  })

  it('is marked, and ends with its last reason, free, at the retry deadline', async () => {
    const seen: (readonly [boolean | undefined, boolean | undefined])[] = []
    const { run } = await setUp(async (rows, { isFirst, isLast }) => {
      seen.push([isFirst, isLast])
      return rows.map(({ row }) => ({ row, verdict: GREYLISTED, retry: true }))
    })
    const { summary, retries } = await run(['grey@x.org'])
    expect(seen).toEqual([[true, false], ...Array(14).fill([false, false]), [false, true]])
    expect([summary, retries]).toEqual([[[[0], ['greylisted'], []]], 15])
  })
})

const LATE = { status: 'unknown', reason: 'timeout', confidence: 0, fields: {} } as const

type Answer = Omit<ProviderAnswer, 'row'> | 'down'

/** A host that says so of its only address; `asked` has the minute and tries of each question. */
async function hostThat (
  answers: (asked: number) => Answer | Promise<Answer>, setting?: Setting
) {
  const asked: (readonly [minute: number, tries: number | undefined, isLast: boolean])[] = []
  const scenario = await setUp(async (rows, { isLast = false }) =>
    await Promise.all(rows.map(async ({ row, canonical, tries }) => {
      if (canonical !== 'grey@x.org') return { row, verdict: DELIVERABLE }
      const { clock, acceptedAtMs } = scenario
      asked.push([(clock.now() - acceptedAtMs) / MINUTE_MS, tries, isLast])
      const answer = await answers(asked.length)
      if (answer === 'down') throw new ProviderError('unavailable')
      return { row, ...answer }
    })), setting)
  const run = () => scenario.run(['jane@x.org', 'grey@x.org'], { batch: 3 })
  return { ...scenario, asked, run }
}

const greylistedFor = (minutes: number): Answer =>
  ({ verdict: GREYLISTED, retry: { afterMs: minutes * MINUTE_MS } })

describe('a row that waits for a host', () => {
  it('is asked once for each time that it is due, and waits until then', async () => {
    const { asked, run } = await hostThat((at) =>
      [greylistedFor(5), greylistedFor(90)][at - 1] ?? { verdict: DELIVERABLE })
    const { summary, retries } = await run()
    expect(asked).toEqual([[0, 0, false], [5, 1, false], [95, 2, false]])
    expect(retries).toBe(95)
    expect(summary).toEqual([[[0], ['deliverable'], [0]], [[1], ['deliverable'], [1]]])
  })

  it('in the queue of its host is asked at every retry, which is no try', async () => {
    const queued = { verdict: LATE, retry: { afterMs: 0 } }
    const { asked, run } = await hostThat((at) => at < 4 ? queued : { verdict: DELIVERABLE })
    await run()
    expect(asked).toEqual([0, 1, 2, 3].map((minute) => [minute, 0, false]))
  })

  it('has no try while its host takes no more of us', async () => {
    const forTurn: Answer = {
      verdict: GREYLISTED, retry: { afterMs: 10 * MINUTE_MS, isForTurn: true },
    }
    const { asked, run } = await hostThat((at) => at < 3 ? forTurn : { verdict: DELIVERABLE })
    await run()
    expect(asked).toEqual([0, 10, 20].map((minute) => [minute, 0, false]))
  })

  it('is asked a last time when hosts have been waited for long enough', async () => {
    const { asked, run } = await hostThat(() => greylistedFor(600))
    const { summary } = await run()
    expect(asked).toEqual([[0, 0, false], [360, 1, true]])
    expect(summary.at(-1)).toEqual([[1], ['greylisted'], []])
  })

  it('outlives an outage of its provider', async () => {
    const { asked, run } = await hostThat((at) =>
      at === 1 ? greylistedFor(120) : at < 9 ? 'down' : { verdict: DELIVERABLE })
    const { summary } = await run()
    expect(asked.map(([minute]) => minute)).toEqual([0, 120, 121, 122, 123, 124, 125, 126, 127])
    expect(summary.at(-1)).toEqual([[1], ['deliverable'], [1]])
  })

  it.each([
    [1, [[0, 0, false], [1, 1, true]]],
    [60, [[0, 0, false], [45, 1, false], [60, 2, true]]],
    [2_880, [...Array.from({ length: 64 }, (_, at) => [at * 45, at, false]), [2_880, 64, true]]],
  ])('ends at the deadline of its job after %i minutes', async (minutes, questions) => {
    const { asked, run } = await hostThat(() => greylistedFor(45), {
      endWithinMs: minutes * MINUTE_MS, retryDelayMs: 15 * MINUTE_MS,
    })
    const { waitedMs } = await run()
    expect([waitedMs / MINUTE_MS, asked]).toEqual([minutes, questions])
  })

  it.each([
    ['without a verdict', greylistedFor(5), 'greylisted', [0]],
    ['a verdict that may get better', { verdict: DELIVERABLE, retry: true } as const, 'deliverable',
      [0, 1]],
  ])('is not asked again after a first check that took until the deadline, and has %s',
    async (_, answer, reason, live) => {
      const scenario = await hostThat(() => {
        scenario.clock.advance(2 * MINUTE_MS)
        return answer
      }, { endWithinMs: MINUTE_MS })
      const { summary } = await scenario.run()
      expect(scenario.asked).toHaveLength(1)
      expect(summary).toEqual([[[0, 1], ['deliverable', reason], live]])
    })

  it('is asked again if it first waits for a host as the usual deadline passes', async () => {
    const scenario = await hostThat(at => {
      if (at === 1) return 'down'
      if (at === 2) scenario.clock.advance(20 * MINUTE_MS)
      return { verdict: DELIVERABLE, ...at === 2 && { retry: { afterMs: 5 * MINUTE_MS } } }
    })
    const { summary } = await scenario.run()
    expect(scenario.asked).toHaveLength(3)
    expect(summary.at(-1)).toEqual([[1], ['deliverable'], [1]])
  })

  it('of a job whose deadline has passed is asked once', async () => {
    const { asked, run, clock } = await hostThat(() => greylistedFor(5), { endWithinMs: MINUTE_MS })
    clock.advance(2 * MINUTE_MS)
    await run()
    expect(asked).toEqual([[2, 0, true]])
  })

  it('is on the record of its job until its batch ends', async () => {
    const recorded: unknown[] = []
    const { acceptedAtMs, run, waiting } = await hostThat(async (at) => {
      recorded.push(await waiting())
      return at === 1 ? greylistedFor(5) : { verdict: DELIVERABLE }
    })
    await run()
    recorded.push(await waiting())
    expect(recorded).toEqual([{}, {
      '0:3': {
        reasons: { greylisted: 1 },
        lastDueMs: acceptedAtMs + 5 * MINUTE_MS,
        dueRows: 0,
        deadlineMs: acceptedAtMs + 360 * MINUTE_MS,
      },
    }, {}])
  })

  it('ends free when its job is cancelled, and what is there stays', async () => {
    const scenario = await hostThat(async () => {
      await scenario.cancel()
      return greylistedFor(5)
    })
    const { summary } = await scenario.run()
    expect(scenario.asked).toHaveLength(1)
    expect(summary).toEqual([[[0], ['deliverable'], [0]], [[1], ['cancelled'], []]])
    expect(await scenario.waiting()).toEqual({})
  })

  it('is no outage of a provider', async () => {
    const waiting = await hostThat((at) => at === 1 ? greylistedFor(5) : { verdict: DELIVERABLE })
    await waiting.run()
    const down = await hostThat((at) => at === 1 ? 'down' : { verdict: DELIVERABLE })
    await down.run()
    expect([waiting, down].map(({ counted }) =>
      counted.filter((name) => name === 'verification_batches_retried_total').length))
      .toEqual([0, 1])
  })
})
