import type { Cluster } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRecoveryStore } from '../../services/ledger/recovery-store.ts'
import { LOCKED_TENANTS_CHANNEL, moneyKeys } from '../../services/money/redis-keys.ts'
import { createTenants } from '../../services/money/tenants.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { createNodeConnections, type NodeConnections } from '../../services/ops/cluster-nodes.ts'
import { moveSlot } from '../../services/ops/slot-move.ts'
import { addressOf, homeOf, mastersOf, serversOf, slotOf } from '../../services/platform/cells.ts'
import { sleep } from '../../services/platform/retry.ts'
import { scatteredTenants, startRedisCluster, type RedisCluster } from '../support/redis-cluster.ts'

const [TENANT = ''] = scatteredTenants(1)
const ORG = TENANT.slice(0, -'.live'.length)
const { wallet: WALLET } = moneyKeys(TENANT)
const SLOT = slotOf(WALLET)

let servers: RedisCluster
let redis: Cluster
let nodes: NodeConnections
beforeAll(async () => {
  servers = await startRedisCluster()
  redis = await servers.connect()
  await unlockOnRequest(await servers.connect())
  const [known] = await mastersOf(redis)
  if (known === undefined) throw new Error('no master')
  nodes = createNodeConnections(known)
  await createWallet(redis).topUp(TENANT, { id: 'a', amountMicros: 1_234, reason: '' })
  await createTenants(redis).add([TENANT])
})
afterAll(async () => {
  nodes?.close()
  await servers?.stop()
})

/** Unlocks each tenant that asks for it, as a ledger does that finds nothing wrong. */
async function unlockOnRequest (subscriber: Cluster): Promise<void> {
  const store = createRecoveryStore(redis)
  subscriber.on('message', async (_channel: string, tenant: string) => {
    const snapshot = await store.snapshotWallet(tenant, '1')
    if (snapshot === undefined || typeof snapshot === 'string') return
    await store.unlock(tenant, { run: snapshot.run, fence: '1' }, { seq: snapshot.seq })
  })
  await subscriber.subscribe(LOCKED_TENANTS_CHANNEL)
}

const otherThan = async (...addresses: readonly string[]) =>
  (await mastersOf(redis)).map(addressOf).find(address => !addresses.includes(address)) ?? ''

const move = (to: string, timeoutMs = 60_000) => moveSlot({
  redis, nodes, seed: `127.0.0.1:${servers.ports[0]}`, show: () => {}, sleep, now: Date.now,
}, { org: ORG, to, timeoutMs })

describe('the move of a slot', () => {
  it('takes all keys along, and ends when the tenants are unlocked', async () => {
    const from = homeOf(redis, WALLET)
    const to = await otherThan(from)
    const moved = await move(to)
    expect(moved).toMatchObject({ org: ORG, slot: SLOT, from, to, sharedWith: [] })
    expect(moved.keys).toBeGreaterThan(1)
    expect(moved.tenants).toMatchObject([{
      tenant: TENANT, before: { availableMicros: 1_234 }, frozen: '', isIntact: true,
    }])
    expect(homeOf(redis, WALLET)).toBe(to)
    expect(await nodes.to(from).call('CLUSTER', 'COUNTKEYSINSLOT', SLOT)).toBe(0)
    const run = (await serversOf(redis)).find(({ address }) => address === to)?.run
    expect(await redis.hget(WALLET, 'run')).toBe(run)
  })

  it('continues after a crash with some keys on either server', async () => {
    const from = homeOf(redis, WALLET)
    const to = await otherThan(from)
    const idOf = async (address: string) => String(await nodes.to(address).call('CLUSTER', 'MYID'))
    await nodes.to(to).call('CLUSTER', 'SETSLOT', SLOT, 'IMPORTING', await idOf(from))
    await nodes.to(from).call('CLUSTER', 'SETSLOT', SLOT, 'MIGRATING', await idOf(to))
    const { password = '' } = nodes.to(from).options
    const port = to.split(':')[1] ?? ''
    await nodes.to(from).call('MIGRATE', '127.0.0.1', port, '', 0, 5_000, 'AUTH', password ?? '',
      'KEYS', WALLET)
    const third = await otherThan(from, to)
    await expect(move(third)).rejects.toThrow(/is on its way from/)
    const moved = await move(to)
    expect(moved.tenants).toMatchObject([{
      before: { availableMicros: 1_234 }, after: { availableMicros: 1_234 }, isIntact: true,
    }])
    expect(homeOf(redis, WALLET)).toBe(to)
    expect(await createWallet(redis).topUp(TENANT, { id: 'a', amountMicros: 1_234, reason: '' }))
      .toMatchObject({ kind: 'known' })
  })

  it('completes an assignment that only the target knows of', async () => {
    const from = homeOf(redis, WALLET)
    const moved = await move(from)
    expect([moved.from, moved.to, moved.keys]).toEqual([from, from, 0])
  })

  it('does not begin while a tenant is locked that no ledger unlocks', async () => {
    const from = homeOf(redis, WALLET)
    await redis.hset(WALLET, { run: 'lost', fence: '9' })
    await expect(move(await otherThan(from), 200)).rejects.toThrow(/check that a ledger is running/)
    expect(homeOf(redis, WALLET)).toBe(from)
  })

  it('is refused for an unknown organization or server', async () => {
    await expect(move('127.0.0.1:1')).rejects.toThrow(/is not the address of a master/)
    const unknown = moveSlot({
      redis, nodes, seed: `127.0.0.1:${servers.ports[0]}`, show: () => {}, sleep, now: () => 0,
    }, { org: 'org_unknown', to: '', timeoutMs: 1 })
    await expect(unknown).rejects.toThrow('Organization org_unknown does not exist')
  })
})
