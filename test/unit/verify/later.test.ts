import { describe, expect, it } from 'vitest'
import type { Emission } from '../../../services/lib/stage.ts'
import type { Provider } from '../../../services/verify/provider.ts'
import { createChecker, FACTORIES } from '../../../services/verify/providers.ts'
import { createVerifyStage } from '../../../services/verify/stage.ts'
import { cellsIn } from '../../support/cells.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import {
  acceptedJob, createManualClock, createStoreDouble, delivered, emitted, JOB, partOf,
  QUOTED_AT_MS, rowsOf,
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
    factories: { ...FACTORIES, ...(provider ? { 'email-domain': () => provider } : {}) },
  })
  const stage = createVerifyStage({
    store,
    cache: createCacheDouble(),
    check,
    clock,
    sleep: clock.sleep,
    leaseMs: 30_000,
    leasePollMs: 250,
    concurrencyOf: () => 2,
    batch: 8,
    laterAfterMs: MINUTE_MS,
    giveUpAfterMs: 15 * MINUTE_MS,
  })
  return { clock, stage }
}

type Decisions = Parameters<typeof emitted>[0]

/** All blocks of a part until nothing of it is left, with how often it came back. */
async function finish (first: Decisions, { clock, stage }: ReturnType<typeof setUp>) {
  let decisions = first
  const blocks: Emission<'rows.finished'>[] = []
  let times = 0
  for (;;) {
    blocks.push(...emitted(decisions, 'rows.finished'))
    const [later] = emitted(decisions, 'rows.later')
    if (later === undefined) return { blocks, times, waitedMs: clock.now() - QUOTED_AT_MS }
    times++
    clock.advance(later.value.notBefore - clock.now())
    decisions = await stage.decide([delivered(later)], signal)
  }
}

const seen = (blocks: readonly Emission<'rows.finished'>[]) => blocks.map((block) =>
  [rowsOf(block.value.finished), cellsIn(block.rows, 'reason'), rowsOf(block.value.billable)])

describe('a row that is to be asked again', () => {
  it('of a test key waits alone: the others of its part are finished at once', async () => {
    const parts = setUp()
    const part = partOf(['jane@x.org', 'unavailable@x.org', 'invalid@x.org', 'timeout@x.org'],
      { tenant: 'org_1.test', service: 'email-validation' })
    const first = await parts.stage.decide([part], signal)
    const { blocks, times, waitedMs } = await finish(first, parts)
    expect(seen(blocks)).toEqual([
      [[0, 2], ['deliverable', 'mailbox_not_found'], [0, 2]],
      [[1, 3], ['unavailable', 'timeout'], []],
    ])
    expect([times, waitedMs]).toEqual([15, 15 * MINUTE_MS])
  })

  it('is billed once, when a server that put it off gives in', async () => {
    let calls = 0
    const verdict = { status: 'valid', reason: 'deliverable', confidence: 95, fields: {} } as const
    const later = { status: 'unknown', reason: 'greylisted', confidence: 0, fields: {} } as const
    const parts = setUp({
      id: 2,
      services: ['email-validation'],
      check: async (rows) => {
        calls++
        return rows.map(({ row, canonical }) => canonical === 'grey@x.org' && calls < 6
          ? { row, verdict: later, again: true }
          : { row, verdict })
      },
    })
    const part = partOf(['jane@x.org', 'grey@x.org'], { service: 'email-validation' })
    const { blocks, times } = await finish(await parts.stage.decide([part], signal), parts)
    expect(seen(blocks)).toEqual([
      [[0], ['deliverable'], [0]],
      [[1], ['deliverable'], [1]],
    ])
    expect([times, calls]).toEqual([5, 6])
  })

  it('ends with the reason of the last answer, free, when the time is over', async () => {
    const verdict = { status: 'unknown', reason: 'greylisted', confidence: 0, fields: {} } as const
    const parts = setUp({
      id: 2,
      services: ['email-validation'],
      check: async (rows) => rows.map(({ row }) => ({ row, verdict, again: true })),
    })
    const part = partOf(['grey@x.org'], { service: 'email-validation' })
    const { blocks, times } = await finish(await parts.stage.decide([part], signal), parts)
    expect(seen(blocks)).toEqual([[[0], ['greylisted'], []]])
    expect(times).toBe(15)
  })
})
