import { describe, expect, it } from 'vitest'
import { joinLua } from '../../services/runtime/platform/redis.ts'
import { ACTIVE_KEY, moneyKeys } from '../../services/money/redis-keys.ts'
import { createOutbox, createWallet, GUARD_LUA, WALLET_LUA } from '../../services/money/wallet.ts'
import { unlockAll } from '../support/redis/unlock.ts'
import { CLOCKS_MS } from '../support/lifetime.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis } = await startRedis()
const wallet = createWallet(redis)
const outbox = createOutbox(redis)
let tenants = 0
const newTenant = () => {
  tenants += 1
  return `org_${tenants}.live`
}

describe('a wallet', () => {
  it('takes a top-up once, and writes what moved', async () => {
    const tenant = newTenant()
    const beganMs = Date.now()
    const first = await wallet.topUp(
      tenant, { id: 'inv-1', amountMicros: 500, reason: 'invoice "1" é' }
    )
    expect(first).toEqual({ kind: 'posted', seq: 1 })
    const [pending] = await outbox.pending(tenant)
    const { at, text: _, ...entry } = pending!
    expect(at).toBeGreaterThanOrEqual(beganMs - CLOCKS_MS)
    expect(at).toBeLessThanOrEqual(Date.now() + CLOCKS_MS)
    expect(entry).toEqual({
      tenant,
      seq: 1,
      entryId: 'topup:inv-1',
      type: 'topup',
      job: '',
      amountMicros: 500,
      chargeMicros: 0,
      availableMicros: 500,
      reservedMicros: 0,
      chargedMicros: 0,
      fundedMicros: 500,
      reason: 'invoice "1" é',
      header: null,
    })
    const again = { id: 'inv-1', amountMicros: 500, reason: 'else' }
    expect(await wallet.topUp(tenant, again)).toEqual({ kind: 'known', seq: 1 })
    expect(await wallet.isShipped(tenant, 'topup', again)).toBe(false)
    await outbox.remove(tenant, [pending!])
    expect(await wallet.isShipped(tenant, 'topup', again)).toBe(true)
    expect(await wallet.isShipped(tenant, 'adjust', again)).toBe(false)
    expect(await wallet.topUp(tenant, again)).toEqual({ kind: 'known', seq: 1 })
    expect(await wallet.topUp(tenant, { ...again, amountMicros: 501 }))
      .toEqual({ kind: 'conflict' })
    expect(await wallet.balance(tenant)).toMatchObject({ availableMicros: 500, seq: 1 })
  })

  it('is adjusted both ways, but never below nothing', async () => {
    const tenant = newTenant()
    await wallet.topUp(tenant, { id: 'a', amountMicros: 500, reason: '' })
    const adjust = (id: string, amountMicros: number) =>
      wallet.adjust(tenant, { id, amountMicros, reason: 'goodwill' })
    expect(await adjust('a', -501)).toEqual({ kind: 'insufficient', availableMicros: 500 })
    expect(await adjust('a', -500)).toEqual({ kind: 'posted', seq: 2 })
    expect(await adjust('a', -500)).toMatchObject({ kind: 'known' })
    expect(await adjust('b', 3)).toEqual({ kind: 'posted', seq: 3 })
    expect(await adjust('b', -3)).toEqual({ kind: 'conflict' })
    expect(await outbox.pending(tenant)).toMatchObject([
      { type: 'topup', amountMicros: 500, fundedMicros: 500 },
      { type: 'adjust', amountMicros: -500, fundedMicros: 0 },
      { type: 'adjust', amountMicros: 3, fundedMicros: 3 },
    ])
  })

  it('takes no more than its maximum', async () => {
    const tenant = newTenant()
    const topUp = (id: string, amountMicros: number) =>
      wallet.topUp(tenant, { id, amountMicros, reason: '' })
    expect(await topUp('a', 999_999_999_999_998)).toEqual({ kind: 'posted', seq: 1 })
    expect(await topUp('b', 2)).toEqual({ kind: 'too_much', fundedMicros: 999_999_999_999_998 })
    expect(await topUp('b', 1)).toEqual({ kind: 'posted', seq: 2 })
    expect(await wallet.balance(tenant)).toMatchObject({ fundedMicros: 999_999_999_999_999 })
  })

  it.each([0, -1, 1.5, 2 ** 53])('takes no top-up of %d', async amountMicros => {
    const tenant = newTenant()
    await expect(wallet.topUp(tenant, { id: 'a', amountMicros, reason: '' })).rejects.toThrow()
    expect(await redis.hexists(moneyKeys(tenant).wallet, 'seq')).toBe(0)
    expect(await wallet.balance(tenant)).toEqual({
      availableMicros: 0, reservedMicros: 0, chargedMicros: 0, fundedMicros: 0, seq: 0,
    })
  })

  it.each(['07', '1e3', '-5', '', '0x10', '1.0', '1000000000000000'])(
    'takes no amount written %s, even from elsewhere than this code', async amount => {
      const tenant = newTenant()
      const fund = new URL('../../services/money/fund.lua', import.meta.url)
      const source = joinLua(GUARD_LUA, WALLET_LUA, fund)
      const { wallet: key, posted } = moneyKeys(tenant)
      await unlockAll(redis, [tenant])
      const args = JSON.stringify({ tenant, type: 'topup', id: 'a', amount, reason: '' })
      await expect(redis.eval(source, 2, key, posted, args))
        .rejects.toThrow(`is "${amount}", expected an integer of at most 15 digits`)
      expect(await redis.hkeys(key)).toEqual(['run'])
      expect(await redis.exists(posted)).toBe(0)
    })
})

describe('an outbox', () => {
  it('keeps entries in order of seq until they are removed', async () => {
    const tenant = newTenant()
    for (let id = 1; id <= 12; id += 1) {
      await wallet.topUp(tenant, { id: String(id), amountMicros: id, reason: '' })
    }
    const entries = await outbox.pending(tenant)
    expect(entries.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    await outbox.remove(tenant, entries.filter(({ seq }) => [1, 2, 10].includes(seq)))
    await outbox.remove(tenant, entries.slice(0, 1))
    await outbox.remove(tenant, [])
    expect((await outbox.pending(tenant)).map(({ seq }) => seq))
      .toEqual([3, 4, 5, 6, 7, 8, 9, 11, 12])
  })

  it('keeps an entry with the seq of a shipped one that Redis lost', async () => {
    const tenant = newTenant()
    const { wallet: key, posted } = moneyKeys(tenant)
    await wallet.topUp(tenant, { id: 'lost', amountMicros: 1, reason: '' })
    const shipped = await outbox.pending(tenant)
    await redis.del(key, posted)
    await unlockAll(redis, [tenant])
    await wallet.topUp(tenant, { id: 'next', amountMicros: 1, reason: '' })
    await outbox.remove(tenant, shipped)
    expect((await outbox.pending(tenant)).map(({ seq, entryId }) => [seq, entryId]))
      .toEqual([[1, 'topup:next']])
  })

  it('lists the tenants with pending entries', async () => {
    await redis.del(ACTIVE_KEY)
    const [one, other] = ['org_a.live', 'org_b.live'] as const
    for (const tenant of [other, one]) {
      await wallet.topUp(tenant, { id: 'a', amountMicros: 1, reason: '' })
    }
    expect(await outbox.tenantsWithPending()).toEqual([one, other])
    await outbox.remove(one, await outbox.pending(one))
    expect(await outbox.tenantsWithPending()).toEqual([other])
  })
})
