import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import { createMetrics } from '../../../services/platform/metrics.ts'
import { createLog } from '../../../services/platform/log.ts'
import { meteredJournal } from '../../../services/ledger/meters.ts'
import {
  countMovements, createWalletSums, watchMoney,
} from '../../../services/ledger/money-meters.ts'
import { IDLE_AFTER_MS } from '../../../services/money/tenants.ts'
import { watchOutboxes } from '../../../services/ledger/outbox-meters.ts'
import { recordMacOf } from '../../support/signed.ts'
import { acceptedJob, entryOf } from '../../support/stage-doubles.ts'
import { createClickhouseDouble } from '../../support/stored.ts'

const log = createLog('test', { level: 'silent' })
const entry = (tenant: string, change: Partial<Journal>) =>
  ({ ...entryOf(tenant, acceptedJob()), ...change })

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

  it('wrap the copy of the journal in ClickHouse', async () => {
    const metrics = createMetrics()
    const { clickhouse, inserted } = createClickhouseDouble()
    await meteredJournal({ clickhouse, recordMac: recordMacOf(), metrics }).append(
      [entry('a.live', { type: 'topup', amountMicros: 5 })])
    expect(inserted).toHaveLength(1)
    expect(await metrics.text()).toContain('{movement="topped_up",mode="live"} 5')
  })

  it('sum all wallets for each mode', async () => {
    const { redis } = redisDouble()
    const tenants = tenantsDouble([])
    const found = await createWalletSums({ redis, tenants })()
    expect(found.map(({ mode, state, value }) => `${mode} ${state} ${value}`)).toEqual([
      'live available 71', 'live reserved 20', 'live charged 10', 'live funded 101', 'live jobs 3',
      'test available 0', 'test reserved 0', 'test charged 0', 'test funded 0', 'test jobs 0',
    ])
    const metrics = createMetrics()
    watchMoney({ redis, tenants, metrics, log })
    const text = await metrics.text()
    expect(text).toContain('money_micros{state="funded",mode="live"} 101')
    expect(text).toContain('jobs_open{mode="live"} 3')
  })

  it('read idle wallets once, and active ones until one read later', async () => {
    const { redis, wallets, reads } = redisDouble()
    const active = ['a.live']
    let nowMs = 0
    const sums = createWalletSums({ redis, tenants: tenantsDouble(active) }, () => nowMs)
    const funded = async () => {
      reads.length = 0
      const found = await sums()
      const value = found.find(({ mode, state }) => mode === 'live' && state === 'funded')?.value
      return [value, reads.join()]
    }
    expect(await funded()).toEqual([101, 'w:{a}.live,w:{b}.live,w:{b}.test'])
    wallets['w:{a}.live'] = ['170', '20', '10', '200']
    expect(await funded()).toEqual([201, 'w:{a}.live'])
    active.pop()
    wallets['w:{a}.live'] = ['270', '20', '10', '300']
    expect(await funded()).toEqual([301, 'w:{a}.live'])
    nowMs = IDLE_AFTER_MS / 2
    expect(await funded()).toEqual([301, ''])
    nowMs = IDLE_AFTER_MS
    expect((await funded())[1]).toBe('w:{a}.live,w:{b}.live,w:{b}.test')
  })

  it('report the age of the oldest entry, and nothing while Redis is unavailable', async () => {
    const metrics = createMetrics()
    const pending = [entry('a.live', { at: 1_000 }), entry('a.live', { at: 4_000 })]
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
