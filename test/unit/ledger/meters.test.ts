import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import {
  countMovements, watchAccessLog, watchGaps, watchMoney, watchOutboxes,
} from '../../../services/ledger/meters.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { createLog } from '../../../services/runtime/platform/log.ts'
import { IDLE_AFTER_MS } from '../../../services/money/wallet.ts'
import { acceptedJob, entryOf } from '../../support/stage-messages.ts'
import { accessEntry } from '../../support/access.ts'

const log = createLog('test', { level: 'silent' })
const entry = (tenant: string, change: Partial<Journal>) =>
  ({ ...entryOf(tenant, acceptedJob()), ...change })

// Readings are cached by this clock.
beforeEach(() => { vi.useFakeTimers({ toFake: ['performance'] }) })
afterEach(() => { vi.useRealTimers() })
/** Scrapes are that far apart, so that each reads again. */
const SCRAPE_MS = 10_000

const OPEN = ['open:job_1', 'open:job_2', 'open:job_3']

/** Redis with two tenants, one with three open jobs. */
function redisDouble () {
  const wallets: Record<string, readonly string[]> = {
    'w:{a}.live': ['70', '20', '10', '100'], 'w:{b}.live': ['1', '0', '0', '1'],
  }
  const reads: string[] = []
  const redis = {
    hmget: async (key: string) => {
      reads.push(key)
      return wallets[key] ?? [null, null, null, null]
    },
    hkeys: async (key: string) => ['seq', ...key === 'w:{a}.live' ? OPEN : []],
  }
  return { wallets, redis: redis as never, reads }
}

const tenantsDouble = (active: readonly string[]) => ({
  all: async () => ['a.live', 'b.live', 'b.test'],
  active: async () => active.map(tenant => ({ tenant, sinceMs: 0 })),
})

describe('money meters', () => {
  it('count the movements of entries when they are first stored', async () => {
    const metrics = createMetrics()
    let isDown = true
    const journal = countMovements({
      append: async (all: readonly Journal[]) => {
        if (isDown) throw new Error('down')
        return all.filter(({ reason }) => reason !== 'known')
      },
    } as never, metrics)
    const entries = [
      entry('a.live', { type: 'topup', amountMicros: 500 }),
      entry('a.live', { type: 'reserve', amountMicros: 300 }),
      entry('a.live', { type: 'settle', amountMicros: 300, chargeMicros: 200 }),
      entry('a.live', { type: 'adjust', amountMicros: -40 }),
      entry('b.test', { type: 'void', amountMicros: 7, chargeMicros: 0 }),
      entry('a.live', { type: 'topup', amountMicros: 1, reason: 'known' }),
    ]
    await expect(journal.append(entries)).rejects.toThrow('down')
    expect(await metrics.text()).not.toContain('money_moved_micros_total{')
    isDown = false
    await journal.append(entries)
    const output = (await metrics.text()).split('\n')
      .filter(line => /^(money_moved|jobs_total)/.test(line)).sort()
    expect(output).toEqual([
      'jobs_total{event="accepted",mode="live"} 1',
      'jobs_total{event="settled",mode="live"} 1',
      'jobs_total{event="voided",mode="test"} 1',
      'money_moved_micros_total{movement="charged",mode="live"} 200',
      'money_moved_micros_total{movement="charged",mode="test"} 0',
      'money_moved_micros_total{movement="released",mode="live"} 100',
      'money_moved_micros_total{movement="released",mode="test"} 7',
      'money_moved_micros_total{movement="reserved",mode="live"} 300',
      'money_moved_micros_total{movement="taken",mode="live"} 40',
      'money_moved_micros_total{movement="topped_up",mode="live"} 500',
    ])
  })

  it('sum all wallets for each mode', async () => {
    const metrics = createMetrics()
    watchMoney({ redis: redisDouble().redis, tenants: tenantsDouble([]), metrics, log })
    const lines = (await metrics.text()).split('\n')
      .filter(line => /^(money_micros|jobs_open)\{/.test(line))
    const sums = [['live', [71, 20, 10, 101], 3], ['test', [0, 0, 0, 0], 0]] as const
    expect(lines).toEqual([
      ...sums.map(([mode, , jobs]) => `jobs_open{mode="${mode}"} ${jobs}`),
      ...sums.flatMap(([mode, amounts]) => ['available', 'reserved', 'charged', 'funded']
        .map((state, at) => `money_micros{state="${state}",mode="${mode}"} ${amounts[at]}`)),
    ])
  })

  it('read idle wallets once, and active ones until one read later', async () => {
    const { redis, wallets, reads } = redisDouble()
    const active = ['a.live']
    const metrics = createMetrics()
    watchMoney({ redis, tenants: tenantsDouble(active), metrics, log })
    const funded = async (afterMs = SCRAPE_MS) => {
      vi.advanceTimersByTime(afterMs)
      reads.length = 0
      const text = await metrics.text()
      return [Number(/^money_micros\{state="funded",mode="live"\} (.+)$/m.exec(text)?.[1]),
        reads.join()]
    }
    const all = 'w:{a}.live,w:{b}.live,w:{b}.test'
    expect(await funded()).toEqual([101, all])
    wallets['w:{a}.live'] = ['170', '20', '10', '200']
    expect(await funded()).toEqual([201, 'w:{a}.live'])
    active.pop()
    wallets['w:{a}.live'] = ['270', '20', '10', '300']
    expect(await funded()).toEqual([301, 'w:{a}.live'])
    expect(await funded()).toEqual([301, ''])
    expect(await funded(IDLE_AFTER_MS)).toEqual([301, all])
  })

  it('report the age of the oldest entry, and nothing while Redis is unavailable', async () => {
    const metrics = createMetrics()
    const pending = [1_000, 4_000].map(at => ({ ...entry('a.live', { at }), text: '' }))
    const outbox = { tenantsWithPending: async () => ['a.live'], pending: async () => pending }
    const scard = async (key: string) => key === '{global}:accounts:outbox' ? 3 : 0
    const redis = { scard } as never
    watchOutboxes({ outbox, redis, clock: { now: () => 6_000 }, metrics, log })
    const text = await metrics.text()
    expect(text).toMatch(/^outbox_entries 2$[^]*^outbox_oldest_seconds 5$/m)
    expect(text).toMatch(/^accounts_outbox_entries 3$/m)
    const without = createMetrics()
    const down = async () => { throw new Error('down') }
    const gone = { ...outbox, tenantsWithPending: down }
    const parts = { outbox: gone, redis: { scard: down }, clock: { now: () => 6_000 }, log }
    watchOutboxes({ ...parts, metrics: without })
    expect(await without.text()).not.toMatch(/^(accounts_)?outbox_/m)
  })
})

/** Redis, the brokers and the copy, whose contents a test sets. */
function createEnvironment () {
  const wallets: Record<string, { seq: string, outbox: readonly string[] }> = {
    'a.live': { seq: '5', outbox: [] }, 'b.live': { seq: '2', outbox: [] },
  }
  const copied: Record<string, readonly number[]> = { 'a.live': [1, 2, 3, 4, 5], 'b.live': [1, 2] }
  const state = { active: ['a.live'], lags: [{ partition: 0, offset: 7, lag: 0 }] }
  const reads: (readonly string[])[] = []
  const hgetall = async (key: string) => {
    const wallet = wallets[key.replace(/^w:\{(.+)\}/, '$1')]
    if (wallet === undefined) return {}
    const pending = wallet.outbox.map(seq => [`entry:${seq}`, '{}'] as const)
    return { seq: wallet.seq, ...Object.fromEntries(pending) }
  }
  const log = { warn: vi.fn(), error: vi.fn() }
  const metrics = createMetrics()
  watchGaps({
    metrics,
    redis: { hgetall } as never,
    tenants: {
      all: async () => ['a.live', 'b.live', 'new.live'],
      active: async () => state.active.map(tenant => ({ tenant, sinceMs: 0 })),
    },
    journal: {
      counts: async (last: ReadonlyMap<string, number>) => {
        reads.push([...last.keys()])
        return new Map([...last].map(([tenant, seq]) =>
          [tenant, (copied[tenant] ?? []).filter(number => number >= 1 && number <= seq).length]))
      },
    },
    lags: async () => state.lags,
    log,
  })
  /** The metric at the next scrape; undefined if there is none. */
  const count = async (afterMs = SCRAPE_MS) => {
    vi.advanceTimersByTime(afterMs)
    return /^journal_entries_missing (.+)$/m.exec(await metrics.text())?.[1]
  }
  return { wallets, copied, state, reads, log, count }
}

describe('the count of missing entries', () => {
  it('starts when the ledgers have committed the end offsets of the first read', async () => {
    const { copied, state, reads, count } = createEnvironment()
    copied['a.live'] = [1, 5]
    state.lags = [{ partition: 0, offset: 7, lag: 2 }, { partition: 1, offset: 1, lag: 1 }]
    expect(await count()).toBeUndefined()
    state.lags = [{ partition: 0, offset: 9, lag: 4 }, { partition: 1, offset: 1, lag: 1 }]
    expect(await count()).toBeUndefined()
    expect(reads).toEqual([])
    state.lags = [{ partition: 0, offset: 9, lag: 4 }, { partition: 1, offset: 2, lag: 0 }]
    expect(await count()).toBe('3')
    expect(reads).toEqual([['a.live', 'b.live', 'new.live']])
  })

  it('drops when a late entry arrives', async () => {
    const { copied, log, count } = createEnvironment()
    copied['b.live'] = [2]
    await count()
    expect([await count(), await count()]).toEqual(['1', '1'])
    expect(log.error.mock.calls).toEqual([
      [{ tenant: 'b.live', entries: 1 }, expect.stringContaining('run the audit to list them')],
    ])
    copied['b.live'] = [1, 2]
    expect(await count()).toBe('0')
  })

  it('ignores movements in the outbox and those after them', async () => {
    const { wallets, copied, count } = createEnvironment()
    wallets['a.live'] = { seq: '9', outbox: ['9', '7'] }
    copied['a.live'] = [1, 2, 3, 4, 5, 8]
    await count()
    expect(await count()).toBe('1')
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
    await count(IDLE_AFTER_MS)
    await count()
    expect(reads.at(-1)).toEqual(all)
  })
})

async function textOf ({ waiting = [accessEntry({ at: 2_000 })], stored = 7 } = {}) {
  const metrics = createMetrics()
  watchAccessLog({
    outbox: { oldest: async () => waiting.map(entry => ({ id: '1', entry })) },
    head: { read: async () => 9 },
    copy: { count: async last => Math.min(stored, last) },
    clock: { now: () => 5_000 },
    metrics,
    log: { warn: () => {} },
  })
  return await metrics.text()
}

it('the access log reports the age of its oldest entry not shipped, and lost rows', async () => {
  const text = await textOf()
  expect(text).toMatch(/^access_log_oldest_seconds 3$/m)
  expect(text).toMatch(/^access_log_entries_missing 2$/m)
  const sound = await textOf({ waiting: [], stored: 12 })
  expect(sound).toMatch(/^access_log_oldest_seconds 0$/m)
  expect(sound).toMatch(/^access_log_entries_missing 0$/m)
})
