import { describe, expect, it } from 'vitest'
import type { Emission } from '../../../services/runtime/engine/stage.ts'
import { createChecker } from '../../../services/verify/checker.ts'
import type { Provider } from '../../../services/verify/provider.ts'
import { createSandboxProvider } from '../../../services/verify/providers/sandbox.ts'
import { createVerifyStage } from '../../../services/verify/stage.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import { cellsIn } from '../../support/clickhouse/cells.ts'
import {
  acceptedJob, createManualClock, createStoreDouble, delivered, emitted, JOB, batchOf, QUOTED_AT_MS,
  rowsOf, VERIFY_SETTINGS,
} from '../../support/stage-doubles.ts'

const signal = new AbortController().signal
const MINUTE_MS = 60_000

function setUp (provider?: Provider) {
  const clock = createManualClock()
  const store = createStoreDouble({ clock })
  store.jobs.set(JOB, acceptedJob())
  const check = createChecker({
    lists: { 'email-validation': ['email-domain'] },
    limits: {
      timeoutMs: 300_000,
      concurrency: 4,
      retries: 0,
      breaker: { failingShare: 0.5, sampledMs: 30_000, openMs: 60_000 },
    },
    factories: {
      sandbox: createSandboxProvider, 'email-domain': () => provider ?? createSandboxProvider(),
    },
  })
  const stage = createVerifyStage({
    store,
    cache: createCacheDouble(),
    check,
    clock,
    sleep: clock.sleep,
    ...VERIFY_SETTINGS,
  })
  return { clock, stage }
}

type Decisions = Parameters<typeof emitted>[0]

/** All blocks of a batch until its last row is finished, with the number of retries. */
async function finish (first: Decisions, { clock, stage }: ReturnType<typeof setUp>) {
  let decisions = first
  const blocks: Emission<'rows.completed'>[] = []
  let retries = 0
  for (;;) {
    blocks.push(...emitted(decisions, 'rows.completed'))
    const [retry] = emitted(decisions, 'rows.retry')
    if (retry === undefined) return { blocks, retries, waitedMs: clock.now() - QUOTED_AT_MS }
    retries++
    clock.advance(retry.value.notBefore - clock.now())
    decisions = await stage.decide([delivered(retry)], signal)
  }
}

const summaryOf = (blocks: readonly Emission<'rows.completed'>[]) => blocks.map((block) =>
  [rowsOf(block.value.finished), cellsIn(block.rows, 'reason'), rowsOf(block.value.live)])

describe('a row that its provider wants to retry', () => {
  it('does not delay the other rows of its batch', async () => {
    const scenario = setUp()
    const batch = batchOf(['jane@x.org', 'unavailable@x.org', 'invalid@x.org', 'timeout@x.org'],
      { tenant: 'org_1.test', service: 'email-validation' })
    const first = await scenario.stage.decide([batch], signal)
    const { blocks, retries, waitedMs } = await finish(first, scenario)
    expect(summaryOf(blocks)).toEqual([
      [[0, 2], ['deliverable', 'mailbox_not_found'], [0, 2]],
      [[1, 3], ['unavailable', 'timeout'], []],
    ])
    expect([retries, waitedMs]).toEqual([15, 15 * MINUTE_MS])
  })

  it('is billed once, after the retry with a verdict', async () => {
    let calls = 0
    const verdict = { status: 'valid', reason: 'deliverable', confidence: 95, fields: {} } as const
    const greylisted = {
      status: 'unknown', reason: 'greylisted', confidence: 0, fields: {},
    } as const
    const scenario = setUp({
      id: 2,
      services: ['email-validation'],
      check: async (rows) => {
        calls++
        return rows.map(({ row, canonical }) => canonical === 'grey@x.org' && calls < 6
          ? { row, verdict: greylisted, retry: true }
          : { row, verdict })
      },
    })
    const batch = batchOf(['jane@x.org', 'grey@x.org'], { service: 'email-validation' })
    const { blocks, retries } = await finish(await scenario.stage.decide([batch], signal), scenario)
    expect(summaryOf(blocks)).toEqual([
      [[0], ['deliverable'], [0]],
      [[1], ['deliverable'], [1]],
    ])
    expect([retries, calls]).toEqual([5, 6])
  })

  it('is marked, unlike rows that were not checked before', async () => {
    const seen: (readonly [boolean | undefined, boolean | undefined])[] = []
    const verdict = { status: 'unknown', reason: 'greylisted', confidence: 0, fields: {} } as const
    const scenario = setUp({
      id: 2,
      services: ['email-validation'],
      check: async (rows, { isFirst, isLast }) => {
        seen.push([isFirst, isLast])
        return rows.map(({ row }) => ({ row, verdict, retry: true }))
      },
    })
    const batch = batchOf(['grey@x.org'], { service: 'email-validation' })
    await finish(await scenario.stage.decide([batch], signal), scenario)
    expect(seen.slice(0, 2)).toEqual([[true, false], [false, false]])
    expect(seen.at(-1)).toEqual([false, true])
  })

  it('ends with the reason of the last answer, free, at the retry deadline', async () => {
    const verdict = { status: 'unknown', reason: 'greylisted', confidence: 0, fields: {} } as const
    const scenario = setUp({
      id: 2,
      services: ['email-validation'],
      check: async (rows) => rows.map(({ row }) => ({ row, verdict, retry: true })),
    })
    const batch = batchOf(['grey@x.org'], { service: 'email-validation' })
    const { blocks, retries } = await finish(await scenario.stage.decide([batch], signal), scenario)
    expect(summaryOf(blocks)).toEqual([[[0], ['greylisted'], []]])
    expect(retries).toBe(15)
  })
})
