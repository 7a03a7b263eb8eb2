import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readSnapshots, snapshotIn } from '../../services/ledger/snapshots.ts'
import { Leader, type LeaderDeps } from '../../services/ledger/leader-election.ts'
import {
  ACTIVE_KEY, FENCE_KEY, LEADER_KEY, LOCKED_TENANTS_CHANNEL, moneyKeys,
} from '../../services/money/redis-keys.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import { createRecoveryStore } from '../../services/ledger/recovery-store.ts'
import { createRecoveryGuards, createWallet, IDLE_AFTER_MS } from '../../services/money/wallet.ts'
import { eventually } from '../support/eventually.ts'
import { createScenario } from '../support/recovery/recovery-scenario.ts'
import {
  createRecoveryEnvironment, entriesOf, snapshotAll, type RecoveryEnvironment,
} from '../support/recovery/recovery-environment.ts'
import { startRestartableRedis } from '../support/redis/redis.ts'

const { redis, connect, restart } = await startRestartableRedis()
const [TENANT, NEW] = ['org_a.live', 'org_b.live']
/** However slow the machine is, no lead ends but by a test. */
const SOME_MINUTES_MS = 600_000

let environment: RecoveryEnvironment
beforeEach(async () => {
  await redis.flushall()
  environment = createRecoveryEnvironment(redis)
})

describe('the ledger that leads', () => {
  const running: Leader[] = []
  afterEach(async () => { await Promise.all(running.splice(0).map(one => one.stop())) })
  const watched = new Map<string, () => number>()
  function lead (name: string, more: object = {}): Leader {
    const metrics = {
      ...environment.deps.metrics,
      watch: (gauge: string, _: object, read: () => number) => { watched.set(gauge, read) },
    }
    const leading = new Leader({
      ...environment.deps,
      recoveryStore: createRecoveryStore(redis),
      metrics: metrics as never,
      log: environment.deps.log,
      subscriber: connect(),
      name,
      leaseMs: SOME_MINUTES_MS,
      pollMs: 10,
      checkEveryMs: 20,
      snapshotEveryMs: 20,
      ...more,
    })
    running.push(leading)
    return leading
  }
  const topUp = (id: string) =>
    createWallet(redis).topUp(TENANT, { id, amountMicros: 1_000, reason: '' })

  it('unlocks new tenants, and after a restart or a loss those with entries', async () => {
    const leading = lead('one')
    expect(leading.ready()).toBe(false)
    expect((await topUp('a')).kind).toBe('posted')
    await eventually(() => expect(leading.ready()).toBe(true))
    const scenario = createScenario(redis, environment, TENANT)
    await scenario.accept('job_1', 10)
    await scenario.ship(false)
    expect((await topUp('lost')).kind).toBe('posted')
    await redis.flushall()
    expect((await topUp('b')).kind).toBe('posted')
    expect(await scenario.wallet.balance(TENANT)).toEqual({
      availableMicros: 1_900, reservedMicros: 100, chargedMicros: 0, fundedMicros: 2_000, seq: 3,
    })
    await scenario.ship(false)
    // A new organization is unlocked without being compared; then it has entries.
    await createWallet(redis).unlockNew(NEW)
    await createWallet(redis).topUp(NEW, { id: 'a', amountMicros: 5, reason: '' })
    await createScenario(redis, environment, NEW).ship(false)
    await redis.flushall()
    await createWallet(redis).topUp(NEW, { id: 'b', amountMicros: 5, reason: '' })
    expect(await scenario.wallet.balance(NEW)).toMatchObject({ availableMicros: 10, seq: 2 })
    await restart()
    expect((await topUp('b')).kind).toBe('known')
    expect((await topUp('c')).kind).toBe('posted')
    await scenario.endAll()
    expect(await scenario.wallet.balance(TENANT)).toEqual({
      availableMicros: 3_000, reservedMicros: 0, chargedMicros: 0, fundedMicros: 3_000, seq: 5,
    })
  })

  it('compares a tenant whose server loses it while the leader looks at it', async () => {
    const store = createRecoveryStore(redis)
    let loses = false
    const recoveryStore = {
      ...store,
      fenceWallet: async (...given: Parameters<typeof store.fenceWallet>) => {
        if (loses) {
          loses = false
          await redis.flushall()
          await restart()
        }
        return await store.fenceWallet(...given)
      },
    }
    const leading = lead('one', { recoveryStore })
    await eventually(() => expect(leading.ready()).toBe(true))
    const wallet = createWallet(redis)
    await wallet.unlockNew(NEW)
    await wallet.topUp(NEW, { id: 'a', amountMicros: 5, reason: '' })
    await createScenario(redis, environment, NEW).ship(false)
    loses = true
    await redis.publish(LOCKED_TENANTS_CHANNEL, NEW)
    await eventually(() => expect(loses).toBe(false))
    await wallet.topUp(NEW, { id: 'b', amountMicros: 5, reason: '' })
    expect(await wallet.balance(NEW)).toMatchObject({ availableMicros: 10, seq: 2 })
  })

  it('is a single process, and another one succeeds it', async () => {
    const first = lead('one')
    await eventually(async () => expect(await redis.get(LEADER_KEY)).toMatch(/^one \d+$/))
    const fence = Number(await redis.get(FENCE_KEY))
    const second = lead('two')
    await eventually(() => expect(second.ready()).toBe(true))
    expect(await redis.get(LEADER_KEY)).toBe(`one ${fence}`)
    expect([first.isLeader(), second.isLeader()]).toEqual([true, false])
    await first.stop()
    expect(await redis.pttl(LEADER_KEY)).toBeLessThanOrEqual(SOME_MINUTES_MS)
    // Its lease ends.
    await redis.del(LEADER_KEY)
    await eventually(async () => expect(await redis.get(LEADER_KEY)).toMatch(/^two \d+$/))
    await eventually(() => expect(second.isLeader()).toBe(true))
    expect(Number(await redis.get(FENCE_KEY))).toBeGreaterThan(fence)
    expect((await topUp('a')).kind).toBe('posted')
  })

  it('counts the waiting tenants, and none once another process leads', async () => {
    const before = lead('one')
    await topUp('a')
    await before.stop()
    await redis.del(LEADER_KEY)
    await redis.hdel(moneyKeys(TENANT).wallet, 'run')
    const unlock = async () => { throw new Error('no answer') }
    lead('two', { recoveryStore: { ...createRecoveryStore(redis), unlock } })
    await eventually(() => expect(watched.get('tenants_waiting')?.()).toBe(1))
    await redis.set(LEADER_KEY, 'three 99')
    await eventually(() => expect(watched.get('tenants_waiting')?.()).toBe(0))
  })

  it('counts the tenants that wait while the topics are read', async () => {
    let hangs = false
    const reader: typeof environment.deps.reader = {
      read: async (...given) => {
        const signal = given[2]?.signal
        if (!hangs || given[0] !== 'wallet.snapshots') {
          return await environment.deps.reader.read(...given)
        }
        signal?.throwIfAborted()
        return await new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason))
        })
      },
    }
    const before = lead('one', { reader })
    await topUp('a')
    // The first round unlocks a tenant before its end, from which on the leader knows it.
    await eventually(() => expect(before.ready()).toBe(true))
    hangs = true
    // Of a Redis that has nothing, the leader knows the tenants by itself.
    await redis.flushall()
    await eventually(() => expect(watched.get('tenants_waiting')?.()).toBe(1))
    await before.stop()
    await redis.flushall()
    await environment.deps.tenants.add([TENANT, NEW])
    lead('two', { reader })
    await eventually(() => expect(watched.get('tenants_waiting')?.()).toBe(2))
  })

  it('takes no snapshots while it compares wallets', async () => {
    const store = createRecoveryStore(redis)
    const unlocked = Promise.withResolvers<void>()
    let [hangs, isUnlocking, renewals, reads] = [false, false, 0, 0]
    const recoveryStore = {
      ...store,
      lead: async (...given: Parameters<typeof store.lead>) => {
        renewals += 1
        return await store.lead(...given)
      },
      unlock: async (...given: Parameters<typeof store.unlock>) => {
        isUnlocking = hangs
        if (hangs) await unlocked.promise
        return await store.unlock(...given)
      },
    }
    const reader: typeof environment.deps.reader = {
      read: async (topic, ...given) => {
        if (isUnlocking && topic === 'wallet.snapshots') reads += 1
        return await environment.deps.reader.read(topic, ...given)
      },
    }
    const leading = lead('one', { recoveryStore, reader })
    await topUp('a')
    await eventually(() => expect(leading.ready()).toBe(true))
    hangs = true
    await redis.hdel(moneyKeys(TENANT).wallet, 'run')
    const moving = eventually(async () => expect((await topUp('b')).kind).toBe('posted'))
    await eventually(() => expect(isUnlocking).toBe(true))
    const before = renewals
    try {
      // Snapshots are due every second renewal.
      await eventually(() => expect(renewals).toBeGreaterThan(before + 20))
      expect(reads).toBe(0)
    } finally {
      unlocked.resolve()
    }
    await moving
    await eventually(() => expect(reads).toBe(1))
  })

  it('unlocks what Redis has while ClickHouse is away, and the rest when it is back', async () => {
    const before = lead('one')
    for (const id of ['a', 'b']) await topUp(id)
    const scenario = createScenario(redis, environment, TENANT)
    await scenario.ship(false)
    const other = createScenario(redis, environment, NEW)
    await createWallet(redis).topUp(NEW, { id: 'a', amountMicros: 5, reason: '' })
    await other.ship(false)
    await before.stop()
    await redis.del(LEADER_KEY)
    await snapshotAll(environment.deps)
    await redis.del(moneyKeys(TENANT).wallet)
    await redis.hdel(moneyKeys(NEW).wallet, 'run')
    let isAway = true
    const journal = {
      ...environment.deps.journal,
      lengths: async () => {
        if (isAway) throw new InfrastructureError('away')
        return await environment.deps.journal.lengths()
      },
    }
    // Each look at the clock is a minute later, so it compares again in every round.
    let minutes = 0
    const clock = { now: () => Date.now() + 60_000 * minutes++ }
    const leading = lead('two', { journal, clock })
    await eventually(() => expect(leading.ready()).toBe(true))
    expect(await redis.hexists(moneyKeys(NEW).wallet, 'run')).toBe(1)
    expect(await redis.hexists(moneyKeys(TENANT).wallet, 'run')).toBe(0)
    expect(watched.get('tenants_waiting')?.()).toBe(1)
    isAway = false
    await eventually(async () =>
      expect(await redis.hexists(moneyKeys(TENANT).wallet, 'run')).toBe(1))
    expect(await scenario.wallet.balance(TENANT)).toMatchObject({ availableMicros: 2_000, seq: 2 })
  })

  it('compares who waits for ClickHouse when that is due, however often it is asked', async () => {
    const before = lead('one')
    await topUp('a')
    await createScenario(redis, environment, TENANT).ship(false)
    await before.stop()
    await redis.del(LEADER_KEY)
    await snapshotAll(environment.deps)
    await redis.del(moneyKeys(TENANT).wallet)
    const { deps } = environment
    let [compared, isAway, nowMs] = [0, true, Date.now()]
    const lengths = async () => {
      compared += 1
      if (isAway) throw new InfrastructureError('away')
      return await deps.journal.lengths()
    }
    const leading = lead('two', {
      journal: { ...deps.journal, lengths }, clock: { now: () => nowMs },
    })
    await eventually(() => expect(leading.ready()).toBe(true))
    expect(compared).toBe(1)
    for (const name of ['org_1.live', 'org_2.live', 'org_3.live']) {
      await redis.publish(LOCKED_TENANTS_CHANNEL, TENANT)
      // Is unlocked after the requests before its own.
      await createWallet(redis).topUp(name, { id: 'a', amountMicros: 5, reason: '' })
    }
    expect(compared).toBe(1)
    isAway = false
    nowMs += 2_000
    await eventually(async () =>
      expect(await redis.hexists(moneyKeys(TENANT).wallet, 'run')).toBe(1))
    expect(compared).toBe(2)
  })

  it('marks a tenant as active that a process marked before Redis lost it', async () => {
    const before = lead('one')
    await topUp('a')
    const scenario = createScenario(redis, environment, TENANT)
    await scenario.ship(false)
    // A request that is refused marks the tenant as well.
    expect(await scenario.accept('job_0', 1_000)).toMatchObject({ kind: 'refused' })
    await before.stop()
    await redis.flushall()
    const clock = { now: () => Date.now() + IDLE_AFTER_MS }
    const leading = lead('two', { clock })
    await eventually(() => expect(leading.ready()).toBe(true))
    expect(await redis.zscore(ACTIVE_KEY, TENANT)).toBe(null)
    await scenario.accept('job_1', 10)
    await eventually(async () => expect(await redis.zscore(ACTIVE_KEY, TENANT)).not.toBe(null))
  })

  it('reads no accounts again while it waits for the server of a tenant', async () => {
    const { deps } = environment
    await deps.tenants.add([TENANT])
    const reads: string[] = []
    const read: typeof deps.reader.read = async (topic, ...more) => {
      reads.push(topic)
      return await deps.reader.read(topic, ...more)
    }
    const recoveryStore = {
      ...createRecoveryStore(redis),
      fenceWallet: async () => 'unreachable',
      isAnyResponding: async () => false,
    }
    // Each look at the clock is a minute later, so it compares again in every round.
    let minutes = 0
    const clock = { now: () => 60_000 * minutes++ }
    const snapshotEveryMs = SOME_MINUTES_MS
    const leading = lead('one', { recoveryStore, clock, reader: { read }, snapshotEveryMs })
    await eventually(() =>
      expect(reads.filter(topic => topic === 'wallet.journal').length).toBeGreaterThan(2))
    expect(reads.filter(topic => topic === 'accounts')).toHaveLength(1)
    expect(leading.ready()).toBe(true)
  })

  it('freezes tenants with wrong sums, counts them, and unlocks them once thawed', async () => {
    lead('one')
    await topUp('a')
    await redis.hincrby(moneyKeys(TENANT).wallet, 'charged', 3)
    const guards = createRecoveryGuards(redis)
    await eventually(async () => expect(await guards.read(TENANT)).toEqual({
      isUnlocked: true,
      frozen: 'balances do not add up: available 1000 + reserved 0 + charged 3 = 1003, ' +
        'funded 1000; quotes of open jobs 0, reserved 0',
    }))
    await eventually(() => expect(watched.get('tenants_frozen')?.()).toBe(1))
    await guards.thaw(TENANT, true)
    await eventually(async () =>
      expect(await guards.read(TENANT)).toEqual({ isUnlocked: true, frozen: '' }))
    expect((await topUp('b')).kind).toBe('posted')
    await eventually(() => expect(watched.get('tenants_frozen')?.()).toBe(0))
    expect(await createWallet(redis).balance(TENANT)).toMatchObject({ chargedMicros: 0, seq: 2 })
  })

  it('goes on from no snapshots that it read before a recovery', async () => {
    const before = lead('one', { snapshotEveryMs: SOME_MINUTES_MS })
    const move = async (tenant: string, id: string) => {
      await createWallet(redis).topUp(tenant, { id, amountMicros: 1_000, reason: '' })
      await createScenario(redis, environment, tenant).ship(false)
    }
    for (const id of ['a', 'b']) for (const tenant of [TENANT, NEW]) await move(tenant, id)
    await before.stop()
    await redis.del(LEADER_KEY)
    // The journal contradicts itself, so that the snapshot of the tenant covers nothing.
    const last = (await entriesOf(environment, TENANT)).at(-1)!
    await environment.emitter.emit([{
      topic: 'wallet.journal',
      lane: 'small',
      value: {
        ...last,
        entryId: 'topup:elsewhere',
        amountMicros: 500,
        availableMicros: last.availableMicros - 500,
        fundedMicros: last.fundedMicros - 500,
      },
      rows: undefined,
    }])
    await snapshotAll(environment.deps)
    // The first round has read the snapshots when operators trust the journal.
    const [isRead, goesOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    let reads = 0
    const reader: LeaderDeps['reader'] = {
      read: async (topic, ...rest) => {
        const ends = await environment.deps.reader.read(topic, ...rest)
        if (topic !== 'wallet.snapshots' || (reads += 1) !== 2) return ends
        isRead.resolve()
        await goesOn.promise
        return ends
      },
    }
    const leading = lead('two', { reader })
    await isRead.promise
    const guards = createRecoveryGuards(redis)
    await guards.thaw(TENANT, true)
    await eventually(async () =>
      expect(await guards.read(TENANT)).toEqual({ isUnlocked: true, frozen: '' }))
    goesOn.resolve()
    for (const tenant of [TENANT, NEW]) await move(tenant, 'c')
    const { signal } = new AbortController()
    const seqs = async () => {
      const base = await readSnapshots(environment.deps, signal)
      return [TENANT, NEW].map(tenant => snapshotIn(base, tenant)?.seq)
    }
    await eventually(async () => expect(await seqs()).toEqual([4, 3]))
    await leading.stop()
  })

  it('subscribes to unlock requests again after a failure', async () => {
    const subscriber = connect()
    const subscribe = subscriber.subscribe.bind(subscriber)
    let [failures, subscribed] = [2, false]
    const failing = async (channel: string) => {
      if (failures-- > 0) throw new Error('no connection')
      await subscribe(channel)
      subscribed = true
    }
    const leading = lead('one', { subscriber: Object.assign(subscriber, { subscribe: failing }) })
    await eventually(() => expect([leading.ready(), subscribed]).toEqual([true, true]))
    expect((await topUp('a')).kind).toBe('posted')
    expect(environment.logged.filter(([, message]) =>
      message.startsWith('failed to subscribe to unlock requests, retrying'))).toHaveLength(2)
  })

  it('is not ready while the journal cannot be read, and continues when it can', async () => {
    let broken = true
    const reader = {
      read: async (...given: Parameters<typeof environment.deps.reader.read>) => {
        if (broken) throw new Error('no broker')
        await environment.deps.reader.read(...given)
      },
    }
    const leading = lead('one', { reader })
    await eventually(() => expect(environment.logged).toContainEqual(
      ['warn', 'leader round failed, retrying; locked wallets stay locked']))
    expect(leading.ready()).toBe(false)
    const moving = topUp('a')
    broken = false
    await eventually(() => expect(leading.ready()).toBe(true))
    expect((await moving).kind).toBe('posted')
  })
})
