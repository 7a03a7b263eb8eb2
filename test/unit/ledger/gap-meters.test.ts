import { describe, expect, it, vi } from 'vitest'
import { createGapCount } from '../../../services/ledger/gap-meters.ts'
import { IDLE_AFTER_MS } from '../../../services/money/tenants.ts'

/** Redis, the brokers and the copy, whose contents a test sets. */
function createEnvironment () {
  const wallets: Record<string, { seq: string, outbox: readonly string[] }> = {
    'a.live': { seq: '5', outbox: [] }, 'b.live': { seq: '2', outbox: [] },
  }
  const copied: Record<string, readonly number[]> = { 'a.live': [1, 2, 3, 4, 5], 'b.live': [1, 2] }
  const state = { active: ['a.live'], nowMs: 0, lags: [{ partition: 0, offset: 7, lag: 0 }] }
  const reads: (readonly string[])[] = []
  const hgetall = async (key: string) => {
    const wallet = wallets[key.replace(/^w:\{(.+)\}/, '$1')]
    if (wallet === undefined) return {}
    const pending = wallet.outbox.map(seq => [`entry:${seq}`, '{}'] as const)
    return { seq: wallet.seq, ...Object.fromEntries(pending) }
  }
  const log = { warn: vi.fn(), error: vi.fn() }
  const count = createGapCount({
    redis: { hgetall } as never,
    tenants: {
      all: async () => ['a.live', 'b.live', 'new.live'],
      active: async () => state.active.map(tenant => ({ tenant, sinceMs: 0 })),
    },
    journal: {
      counts: async (last: ReadonlyMap<string, number>) => {
        reads.push([...last.keys()])
        return new Map([...last].map(([tenant, seq]) =>
          [tenant, (copied[tenant] ?? []).filter(one => one >= 1 && one <= seq).length]))
      },
    },
    lags: async () => state.lags,
    log,
  }, () => state.nowMs)
  return { wallets, copied, state, reads, log, count }
}

describe('the count of missing entries', () => {
  it('starts when the ledgers have committed the end offsets of the first read', async () => {
    const { copied, state, reads, count } = createEnvironment()
    copied['a.live'] = [1, 5]
    state.lags = [{ partition: 0, offset: 7, lag: 2 }, { partition: 1, offset: 1, lag: 1 }]
    expect(await count()).toEqual([])
    state.lags = [{ partition: 0, offset: 9, lag: 4 }, { partition: 1, offset: 1, lag: 1 }]
    expect(await count()).toEqual([])
    expect(reads).toEqual([])
    state.lags = [{ partition: 0, offset: 9, lag: 4 }, { partition: 1, offset: 2, lag: 0 }]
    expect(await count()).toEqual([3])
    expect(reads).toEqual([['a.live', 'b.live', 'new.live']])
  })

  it('drops when a late entry arrives', async () => {
    const { copied, log, count } = createEnvironment()
    copied['b.live'] = [2]
    await count()
    expect([await count(), await count()]).toEqual([[1], [1]])
    expect(log.error.mock.calls).toEqual([
      [{ tenant: 'b.live', entries: 1 }, expect.stringContaining('run the audit to list them')],
    ])
    copied['b.live'] = [1, 2]
    expect(await count()).toEqual([0])
  })

  it('ignores movements in the outbox and those after them', async () => {
    const { wallets, copied, count } = createEnvironment()
    wallets['a.live'] = { seq: '9', outbox: ['9', '7'] }
    copied['a.live'] = [1, 2, 3, 4, 5, 8]
    await count()
    expect(await count()).toEqual([1])
  })

  it('counts movements in Redis only, whatever seq a message claims', async () => {
    const { copied, count } = createEnvironment()
    copied['a.live'] = [0, 1, 2, 3, 4, 5, 900, 1_000]
    await count()
    expect(await count()).toEqual([0])
  })

  it('reads active tenants and those with a gap, and all of them after a pause', async () => {
    const { copied, state, reads, count } = createEnvironment()
    copied['b.live'] = []
    const all = ['a.live', 'b.live', 'new.live']
    for (let round = 0; round < 3; round += 1) await count()
    expect(reads).toEqual([all, ['a.live', 'b.live']])
    state.active = []
    copied['b.live'] = [1, 2]
    await count()
    await count()
    expect(reads.slice(2)).toEqual([['a.live', 'b.live']])
    state.nowMs = IDLE_AFTER_MS
    await count()
    await count()
    expect(reads.at(-1)).toEqual(all)
  })
})
