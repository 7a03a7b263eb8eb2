import { describe, expect, it, vi } from 'vitest'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import { type HostMemory, reportOwners } from '../../../../services/verify/mailboxes/memory.ts'

type OwnerState = Awaited<ReturnType<HostMemory['owners']>>[number]

const state = (owner: string, more: Partial<OwnerState> = {}): OwnerState => ({
  owner, egress: 'a', rate: 60, sessions: 1, restMs: 0, asked: 0, verdicts: 0, blocked: 0, ...more,
})

/** The series of a process while the memory knows this, without their HELP and TYPE. */
async function seriesOf (owners: () => Promise<readonly OwnerState[]>) {
  const metrics = createMetrics()
  const warn = vi.fn()
  reportOwners({ owners }, { metrics, log: { warn } })
  const text = await metrics.text()
  return { warn, series: text.split('\n').filter(line => line.startsWith('mailbox_egress_')) }
}

describe('the metrics of owners of mail servers', () => {
  it('are what all processes know of each egress', async () => {
    const { series } = await seriesOf(async () => [
      state('google', { rate: 312, sessions: 3, asked: 50, verdicts: 40, blocked: 4 }),
      state('google', { egress: 'b', restMs: 1_500 }),
    ])
    const [a, b] = ['{owner="google",egress="a"}', '{owner="google",egress="b"}']
    expect(series).toEqual(expect.arrayContaining([
      `mailbox_egress_recipients_per_minute${a} 312`,
      `mailbox_egress_sessions${a} 3`,
      `mailbox_egress_resting_seconds${a} 0`,
      `mailbox_egress_resting_seconds${b} 2`,
      'mailbox_egress_recent_recipients{owner="google",egress="a",outcome="verdict"} 40',
      'mailbox_egress_recent_recipients{owner="google",egress="a",outcome="block"} 4',
      'mailbox_egress_recent_recipients{owner="google",egress="a",outcome="other"} 6',
    ]))
    expect(series).toHaveLength(12)
  })

  it('name owners with a policy, and of the others the ten that were asked most', async () => {
    const others = Array.from({ length: 30 }, (_, index) =>
      state(`host${index}.net`, { asked: index }))
    const { series } = await seriesOf(async () => [
      ...others,
      // Asked little by each egress, but most by all of them together.
      ...['a', 'b', 'c'].map(egress => state('spread.net', { egress, asked: 10 })),
      state('yahoo'),
    ])
    const named = new Set(series.map(line => /owner="([^"]+)"/.exec(line)?.[1]))
    expect(named).toEqual(new Set([
      'yahoo', 'spread.net', ...others.slice(-9).map(({ owner }) => owner),
    ]))
  })

  it('are missing while the memory cannot be reached', async () => {
    const { series, warn } = await seriesOf(async () => { throw new Error('no Redis') })
    expect(series).toEqual([])
    expect(warn).toHaveBeenCalledOnce()
  })
})
