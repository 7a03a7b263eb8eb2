import { beforeEach, describe, expect, it } from 'vitest'
import type { Journal } from '../../schemas/types.ts'
import { recover } from '../../services/ledger/recovery.ts'
import {
  NO_BASE, readSnapshots, snapshotIn, takeSnapshots,
} from '../../services/ledger/snapshots.ts'
import type { ReadLimits } from '../../services/runtime/kafka/topic-reader.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import { ACTIVE_KEY, moneyKeys } from '../../services/money/redis-keys.ts'
import { IDLE_AFTER_MS } from '../../services/money/wallet.ts'
import { startLockedRedis } from '../support/redis/redis.ts'
import { unlockAll } from '../support/redis/unlock.ts'
import { endRun, putBack, snapshotOf } from '../support/redis/content.ts'
import { createScenario, type Scenario } from '../support/recovery/recovery-scenario.ts'
import {
  compareAll, createRecoveryEnvironment, entriesOf, snapshotAll, withoutMessages, type LedgerDeps,
  type RecoveryEnvironment,
} from '../support/recovery/recovery-environment.ts'

const { redis } = await startLockedRedis()
const [BUSY, IDLE] = ['org_busy.live', 'org_idle.live']
const { signal } = new AbortController()
const DAY_MS = 86_400_000

let environment: RecoveryEnvironment
let busy: Scenario
let idle: Scenario
beforeEach(async () => {
  await redis.flushall()
  environment = createRecoveryEnvironment(redis)
  busy = createScenario(redis, environment, BUSY)
  idle = createScenario(redis, environment, IDLE)
  await unlockAll(redis, [BUSY, IDLE])
  for (const scenario of [busy, idle]) await work(scenario, 'job_1')
})

const balances = () =>
  Promise.all([busy, idle].map(scenario => scenario.wallet.balance(scenario.tenant)))
const topUp = (scenario: Scenario, id: string) =>
  scenario.wallet.topUp(scenario.tenant, { id, amountMicros: 1_000, reason: '' })

/** Money comes, and a job that is closed and one that runs take some of it. */
async function work (scenario: Scenario, job: string): Promise<void> {
  await topUp(scenario, `for ${job}`)
  await scenario.accept(job, 20)
  await scenario.finish(job)
  await scenario.archive(job, true)
  await scenario.accept(`${job}_open`, 10)
  await scenario.ship(false)
}

/** The same dependencies, with a count of the journal messages that were read. */
function watched () {
  const read = { journal: 0 }
  const count = () => {
    read.journal += 1
    return true
  }
  return { read, deps: withoutMessages(environment.deps, 'wallet.journal', count) }
}

const entries = () => environment.bus.messages('wallet.journal').length

describe('a recovery from snapshots', () => {
  beforeEach(async () => {
    await snapshotAll(environment.deps)
    await work(busy, 'job_2')
    await snapshotAll(environment.deps)
    await work(busy, 'job_3')
  })

  it('of a Redis that lost nothing reads no entry before them', async () => {
    // An ended job that is not closed is in no snapshot.
    await busy.accept('job_ended', 5)
    await busy.finish('job_ended')
    await busy.ship(false)
    await snapshotAll(environment.deps)
    const before = await balances()
    await endRun(redis)
    const { deps, read } = watched()
    await compareAll(deps)
    expect(await balances()).toEqual(before)
    expect(read.journal).toBe(0)
    expect(await redis.hget(moneyKeys(BUSY).wallet, 'frozen')).toBe(null)
  })

  const lose = async () => { await redis.flushall() }
  it.each([
    ['a day ago', lose, 0, (nowMs: number) => nowMs - 25 * 3_600_000],
    ['the oldest open job', lose, 2, (_nowMs: number, openedMs: number) => openedMs],
    ['the snapshots alone if the wallets are there', () => endRun(redis), 0, () => undefined],
  ])('reads the entries from %s', async (_from, restart, days, sinceMs) => {
    const nowMs = Date.now() + days * DAY_MS
    const limits: ReadLimits[] = []
    const reader: LedgerDeps['reader'] = {
      read: (topic, onMessages, limit = {}) => {
        if (topic === 'wallet.journal') limits.push(limit)
        return environment.deps.reader.read(topic, onMessages, limit)
      },
    }
    const opened = (await entriesOf(environment, BUSY)).find(({ job }) => job === 'job_1_open')!
    await restart()
    await compareAll({ ...environment.deps, reader, clock: { now: () => nowMs } })
    expect(limits.slice(0, 2).map(limit => [limit.sinceMs, limit.from?.size]))
      .toEqual([[sinceMs(nowMs, opened.at), 2], [undefined, 2]])
  })

  it('a Redis that lost nothing is unlocked by the entries after them', async () => {
    const before = await balances()
    await endRun(redis)
    const { deps, read } = watched()
    await compareAll(deps)
    expect(await balances()).toEqual(before)
    expect(read.journal).toBeGreaterThan(0)
    expect(read.journal).toBeLessThan(entries() / 2)
    expect(environment.counted['job']).toBe(undefined)
  })

  it('a Redis that lost everything recovers money, jobs and ids of top-ups', async () => {
    const before = await balances()
    const posted = await redis.hgetall(moneyKeys(BUSY).posted)
    await redis.flushall()
    await compareAll(environment.deps)
    expect(await balances()).toEqual(before)
    expect(await redis.hgetall(moneyKeys(BUSY).posted)).toEqual(posted)
    expect((await busy.store.openJobs(BUSY)).map(({ job }) => job).toSorted())
      .toEqual([1, 2, 3].map(number => `job_${number}_open`))
    expect((await topUp(busy, 'for job_1')).kind).toBe('known')
  })

  it('a Redis from before them is compared with the whole journal, alone', async () => {
    const old = await snapshotOf(redis)
    await work(idle, 'job_4')
    await snapshotAll(environment.deps)
    const before = await balances()
    await putBack(redis, old)
    const { deps, read } = watched()
    const waiting: number[] = []
    await recover(deps, '5000', { signal, onWaiting: tenants => waiting.push(tenants) })
    expect(await balances()).toEqual(before)
    expect(read.journal).toBe(entries())
    // The other tenant is in before the whole journal is read.
    expect(waiting).toEqual([2, 1, 1, 0])
  })

  it('reports how many tenants wait before it reads the journal', async () => {
    await redis.flushall()
    const waiting: number[] = []
    const known: (number | undefined)[] = []
    const reader: LedgerDeps['reader'] = {
      read: (topic, ...rest) => {
        if (topic === 'wallet.journal') known.push(waiting.at(-1))
        return environment.deps.reader.read(topic, ...rest)
      },
    }
    const onWaiting = (tenants: number) => waiting.push(tenants)
    await recover({ ...environment.deps, reader }, '5000', { signal, onWaiting })
    expect(known[0]).toBe(2)
    expect(waiting.at(-1)).toBe(0)
  })

  it('a crash while some are written leaves the positions before them in force', async () => {
    await work(idle, 'job_4')
    await work(busy, 'job_5')
    const emitter: LedgerDeps['emitter'] = {
      emit: async ([first]) => {
        await environment.emitter.emit(first === undefined ? [] : [first])
        throw new InfrastructureError('the broker is away')
      },
    }
    await expect(snapshotAll({ ...environment.deps, emitter })).rejects.toThrow('away')
    const before = await balances()
    await redis.flushall()
    await compareAll(environment.deps)
    expect(await balances()).toEqual(before)
  })
})

describe('a snapshot that another process restores', () => {
  /** A writer to Kafka has compaction take all snapshots but the oldest of each tenant. */
  function withOldest (deps: LedgerDeps, tenant: string): LedgerDeps {
    const isOf = ({ key }: { readonly key: Buffer | null }) => String(key) === tenant
    return withoutMessages(deps, 'wallet.snapshots', message =>
      !isOf(message) || message === environment.bus.messages('wallet.snapshots').find(isOf))
  }

  /** Two days later no query by time reads the entries of today. */
  let later: LedgerDeps
  /** The content of Redis when the oldest was taken. */
  let asOld: Awaited<ReturnType<typeof snapshotOf>>
  beforeEach(async () => {
    for (const scenario of [busy, idle]) await scenario.endAll()
    for (const scenario of [busy, idle]) await scenario.ship(false)
    await snapshotAll(environment.deps)
    asOld = await snapshotOf(redis)
    // What is charged now would be had back by the snapshot before it.
    await work(idle, 'job_2')
    await idle.endAll()
    await idle.ship(false)
    await snapshotAll(environment.deps)
    await topUp(busy, 'last')
    await busy.ship(false)
    await snapshotAll(environment.deps)
    later = { ...environment.deps, clock: { now: () => Date.now() + 2 * DAY_MS } }
  })

  it.each([
    ['nothing', () => endRun(redis)],
    ['everything', () => redis.flushall()],
    ['what came after it', () => putBack(redis, asOld)],
  ])('creates no money where Redis lost %s', async (_lost, lose) => {
    const before = await balances()
    await lose()
    await compareAll(withOldest(later, IDLE))
    expect(await balances()).toEqual(before)
    expect(await redis.hget(moneyKeys(IDLE).wallet, 'frozen')).toBe(null)
    expect(environment.logged.map(([, message]) => message)).toContain(
      'snapshots do not suffice for some tenants: comparing them with the whole journal')
  })

  it('unlocks no tenant that Redis lost while the copy of the journal is unavailable', async () => {
    const before = await balances()
    const lengths = async () => { throw new InfrastructureError('away') }
    const journal = { ...environment.deps.journal, lengths }
    const deps = withOldest(later, IDLE)
    const run = async (tenant: string) => await redis.hexists(moneyKeys(tenant).wallet, 'run')
    const losses: readonly (readonly [() => Promise<unknown>, readonly string[]])[] = [
      [() => redis.flushall(), [BUSY, IDLE]],
      [() => redis.del(moneyKeys(IDLE).wallet), [IDLE]],
    ]
    for (const [lose, lost] of losses) {
      await lose()
      await endRun(redis)
      const { unreachable } = await recover({ ...deps, journal }, '5000', { signal })
      expect([...unreachable].toSorted()).toEqual(lost)
      expect([await run(BUSY), await run(IDLE)]).toEqual([lost.length === 1 ? 1 : 0, 0])
      await recover(deps, '5001', { signal })
      expect(await balances()).toEqual(before)
      await redis.hdel(moneyKeys(IDLE).wallet, 'fence')
      await redis.hdel(moneyKeys(BUSY).wallet, 'fence')
    }
  })

  it('unlocks tenants without entries while the copy is unavailable', async () => {
    const fresh = createScenario(redis, environment, 'org_new.live')
    await environment.deps.tenants.activate([fresh.tenant])
    await endRun(redis)
    const lengths = async () => { throw new InfrastructureError('away') }
    const journal = { ...environment.deps.journal, lengths }
    await compareAll({ ...later, journal })
    expect((await topUp(fresh, 'first')).kind).toBe('posted')
  })

  it('nor does one that was deleted', async () => {
    const before = await balances()
    await redis.flushall()
    await compareAll(
      withoutMessages(later, 'wallet.snapshots', ({ key }) => String(key) !== IDLE))
    expect(await balances()).toEqual(before)
  })

  it('is found out by a copy that has a row of no tenant, which is not listed', async () => {
    const before = await balances()
    await redis.flushall()
    const { journal } = environment.deps
    const lengths = async () => new Map([...await journal.lengths(), ['forged', 1] as const])
    await compareAll({ ...withOldest(later, IDLE), journal: { ...journal, lengths } })
    expect(await balances()).toEqual(before)
    expect((await environment.deps.tenants.all()).toSorted()).toEqual([BUSY, IDLE])
  })
})

const write = (entries: readonly Journal[]) => environment.emitter.emit(entries.map(value =>
  ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))

/** The journal gets so many jobs of the idle tenant, which cost nothing and have ended. */
async function writeEnded (jobs: number): Promise<void> {
  const last = (await entriesOf(environment, IDLE)).at(-1)!
  await write(Array.from({ length: 2 * jobs }, (_, index) => {
    const [job, type] = [`job_n${index >> 1}`, index % 2 === 0 ? 'reserve' : 'settle']
    const seq = last.seq + 1 + index
    return { ...last, seq, job, type, entryId: `${job}:${type}`, amountMicros: 0 }
  }))
}

describe('a recovery while ClickHouse is away', () => {
  const away = async () => { throw new InfrastructureError('away') }
  const run = async (tenant: string) => await redis.hget(moneyKeys(tenant).wallet, 'run')

  it.each([
    ['all, with more ended jobs than fit into memory', async () => {
      await writeEnded(1_250)
      await snapshotAll(environment.deps)
      await redis.del(moneyKeys(IDLE).wallet)
    }],
    ['the end of a job', async () => {
      const before = await snapshotOf(redis)
      await idle.finish('job_1_open')
      await idle.ship(false)
      await putBack(redis, before)
    }],
  ])('holds back only the tenant of which Redis lost %s', async (_lost, lose) => {
    const { deps } = environment
    await lose()
    await endRun(redis)
    const ended = await run(BUSY)
    const { unreachable } = await recover({
      ...deps,
      journal: { ...deps.journal, lengths: away },
      archive: { ...deps.archive, findAll: away },
    }, '5000', { signal })
    expect([...unreachable]).toEqual([IDLE])
    expect(await run(BUSY)).not.toBe(ended)
    expect([null, ended]).toContain(await run(IDLE))
    expect((await recover(deps, '5001', { signal })).unreachable.size).toBe(0)
    expect(await run(IDLE)).toBe(await run(BUSY))
    expect((await idle.wallet.balance(IDLE)).seq).toBe((await entriesOf(environment, IDLE)).length)
  })

  it('waits for no answer again once one did not come', async () => {
    // Of so many it is asked at the same time.
    const names = Array.from({ length: 32 }, (_, index) => `org_${index}.live`)
    const lived = await entriesOf(environment, IDLE)
    await write(names.flatMap(tenant => lived.map(entry => ({ ...entry, tenant }))))
    await redis.flushall()
    const { deps } = environment
    let asked = 0
    const findAll = async () => {
      asked += 1
      return await away()
    }
    const { unreachable } = await recover({ ...deps, archive: { ...deps.archive, findAll } },
      '5000', { signal })
    expect([...unreachable].toSorted()).toEqual([BUSY, IDLE, ...names].toSorted())
    expect(asked).toBe(32)
  })
})

describe('a recovery of a Redis that lost everything', () => {
  it('unlocks those with most open jobs first, then those whose money moved last', async () => {
    // So many are unlocked concurrently.
    const names = Array.from({ length: 32 }, (_, index) => `org_${index}.live`)
    const [topUp] = await entriesOf(environment, IDLE)
    await write(names.map((tenant, index) => ({ ...topUp!, tenant, at: Date.now() + index })))
    const unlocked: string[] = []
    const { recoveryStore } = environment.deps
    const unlock: typeof recoveryStore.unlock = async (tenant, ...more) => {
      unlocked.push(tenant)
      return await recoveryStore.unlock(tenant, ...more)
    }
    await redis.flushall()
    await compareAll({ ...environment.deps, recoveryStore: { ...recoveryStore, unlock } })
    expect(unlocked.slice(0, 32).toSorted()).toEqual([BUSY, IDLE, ...names.slice(2)].toSorted())
    expect(unlocked.slice(32).toSorted()).toEqual(names.slice(0, 2))
  })

  it('writes ended jobs to Redis while it reads the journal', async () => {
    await writeEnded(1_250)
    const { recoveryStore, reader } = environment.deps
    let rebuilt = 0
    const rebuild: typeof recoveryStore.rebuild = async (...given) => {
      rebuilt += 1
      return await recoveryStore.rebuild(...given)
    }
    const rebuiltAfter: number[] = []
    const read: typeof reader.read = async (...given) => {
      const end = await reader.read(...given)
      rebuiltAfter.push(rebuilt)
      return end
    }
    await redis.flushall()
    await compareAll({
      ...environment.deps, recoveryStore: { ...recoveryStore, rebuild }, reader: { read },
    })
    // Those of snapshots and of the journal.
    expect(rebuiltAfter.slice(0, 2)).toEqual([0, expect.toSatisfy(jobs => jobs >= 1_000)])
    // None is archived.
    expect(await redis.hlen(moneyKeys(IDLE).recounts)).toBeGreaterThanOrEqual(1_250)
  })
})

describe('a recovery of a tenant that has been idle', () => {
  const tenant = 'org_done.live'
  const { tenants } = createRecoveryEnvironment(redis).deps
  const active = async () => (await tenants.active()).map(one => one.tenant).toSorted()
  let later: LedgerDeps
  beforeEach(async () => {
    await unlockAll(redis, [tenant])
    const done = createScenario(redis, environment, tenant)
    await topUp(done, 'all it has')
    await done.ship(false)
    later = { ...environment.deps, clock: { now: () => Date.now() + IDLE_AFTER_MS } }
  })

  it('adds it to all and marks it as active only if its money moved lately', async () => {
    await redis.flushall()
    await compareAll(later)
    expect(await active()).toEqual([BUSY, IDLE])
    expect((await tenants.all()).toSorted()).toEqual([BUSY, tenant, IDLE])
    await redis.flushall()
    await compareAll(environment.deps)
    expect(await active()).toEqual([BUSY, tenant, IDLE])
  })

  it('marks it as active if it is frozen, so that it is counted', async () => {
    await redis.hincrby(moneyKeys(tenant).wallet, 'available', 1)
    await redis.del(ACTIVE_KEY)
    await endRun(redis)
    await compareAll(later)
    expect(await redis.hget(moneyKeys(tenant).wallet, 'frozen')).toMatch(/^after movement 1 Redis/)
    expect(await active()).toEqual([BUSY, tenant, IDLE])
  })
})

describe('a snapshot', () => {
  it('has as many open jobs as an organization can have', async () => {
    await topUp(idle, 'for many jobs')
    await idle.ship(false)
    const { bus, deps, emitter } = environment
    const last = (await entriesOf({ bus }, IDLE)).at(-1)!
    const reserve = { ...last, type: 'reserve', amountMicros: 0, chargeMicros: 0 }
    await emitter.emit(Array.from({ length: 10_000 }, (_, index) => {
      const job = `job_${String(index).padStart(26, '0')}`
      const value = { ...reserve, seq: last.seq + 1 + index, entryId: `${job}:reserve`, job }
      return { topic: 'wallet.journal', lane: 'small', value, rows: undefined } as const
    }))
    const { from } = await takeSnapshots(deps, NO_BASE, signal)
    const base = await readSnapshots(deps, signal)
    expect(snapshotIn(base, IDLE)?.open.length).toBe(10_001)
    expect(base.from).toEqual(from)
  })

  it('has the newest ids of top-ups, and an empty Redis all of them from the journal', async () => {
    // The limit is one of bytes.
    const ids = Array.from({ length: 25 }, (_, index) => `${index}`.padEnd(40_000, '_'))
    for (const id of ids) await topUp(idle, id)
    await idle.ship(false)
    for (const job of ['job_2', 'job_3']) {
      await snapshotAll(environment.deps)
      await work(idle, job)
    }
    await snapshotAll(environment.deps)
    await endRun(redis)
    const { deps, read } = watched()
    await compareAll(deps)
    expect(read.journal).toBe(0)
    const before = await balances()
    await redis.flushall()
    await compareAll(environment.deps)
    expect(await topUp(idle, ids[0]!)).toMatchObject({ kind: 'known' })
    expect(await balances()).toEqual(before)
    expect(await redis.hget(moneyKeys(IDLE).posted, '')).toBe(null)
  })

  describe('that is too large for its topic', () => {
    // The limit is one of bytes.
    const jobs = Array.from({ length: 10 }, (_, index) => `job_${index}`.padEnd(100_000, '_'))
    const message = 'the snapshot of a wallet is too large for topic wallet.snapshots: until it ' +
      'has fewer open jobs, a recovery reads more of the journal'
    const warnings = () => environment.logged.filter(([level]) => level === 'warn')
    const endAll = async () => {
      for (const job of jobs) {
        await idle.finish(job)
        await idle.archive(job, true)
      }
    }
    beforeEach(async () => {
      await snapshotAll(environment.deps)
      for (const job of jobs) await idle.accept(job, 0)
      await idle.ship(false)
    })

    it('lets a recovery read the entries that it covers', async () => {
      await snapshotAll(environment.deps)
      await work(busy, 'job_2')
      await snapshotAll(environment.deps)
      const before = await balances()
      await endRun(redis)
      await compareAll(environment.deps)
      expect(await balances()).toEqual(before)
      expect(warnings()).toEqual([['warn', message], ['warn', message]])
      await endAll()
      await snapshotAll(environment.deps)
      await endRun(redis)
      const { deps, read } = watched()
      await compareAll(deps)
      expect(read.journal).toBe(0)
    })

    it('has a leader read each entry once, and is written when it has become smaller', async () => {
      const { deps, read } = watched()
      const earlier = await readSnapshots(deps, signal)
      const first = await takeSnapshots(deps, earlier, signal)
      const since = read.journal
      await work(busy, 'job_2')
      const second = await takeSnapshots(deps, first, signal)
      expect(read.journal - since).toBeLessThan(jobs.length)
      expect(warnings()).toEqual([['warn', message]])
      // The tenant had no entries meanwhile: a recovery has to begin before those that it lacks.
      expect((await readSnapshots(deps, signal)).from).toEqual(earlier.from)
      await endAll()
      const { from } = await takeSnapshots(deps, second, signal)
      const base = await readSnapshots(deps, signal)
      expect(snapshotIn(base, IDLE)?.open.length).toBe(1)
      expect(base.from).toEqual(from)
    })
  })
})

describe('a tenant whose journal is not understood', () => {
  const HOUR_MS = 3_600_000
  const lengths = async () => { throw new InfrastructureError('away') }
  /** Entries of no job that the journal gets of the idle tenant, by number, in this order. */
  const write = async (...seqs: readonly number[]) => {
    const last = (await entriesOf(environment, IDLE)).find(({ seq }) => seq === 4)!
    await environment.emitter.emit(seqs.map((seq, index) => {
      const [entryId, amountMicros] = [`topup:${seq}.${index}`, 10]
      const before = { ...last, seq, entryId, type: 'topup', job: '', amountMicros, reason: '' }
      const added = 10 * (seq - 4)
      const value = {
        ...before,
        availableMicros: last.availableMicros + added,
        fundedMicros: last.fundedMicros + added,
      }
      return { topic: 'wallet.journal', lane: 'small', value, rows: undefined } as const
    }))
  }
  /** The leader writes snapshots, which end where the journal does an hour before. */
  const anHourLater = () =>
    ({ ...environment.deps, clock: { now: () => Date.now() + HOUR_MS } })
  const ends = () => {
    const ends = new Map<number, bigint>()
    for (const { partition, offset } of environment.bus.messages('wallet.journal')) {
      ends.set(partition, offset + 1n)
    }
    return ends
  }
  const from = async () => (await readSnapshots(environment.deps, signal)).from
  const frozen = (tenant: string) => redis.hget(moneyKeys(tenant).wallet, 'frozen')
  const unlocked = async (tenant: string) => await redis.hexists(moneyKeys(tenant).wallet, 'run')
  /** Redis has what it had at the snapshots of the first jobs. */
  let asOld: Awaited<ReturnType<typeof snapshotOf>>
  beforeEach(async () => {
    await snapshotAll(environment.deps)
    asOld = await snapshotOf(redis)
  })

  const damages: readonly (readonly [string, readonly number[], string])[] = [
    ['lacks an entry', [5, 7, 8], 'entries 6 to 6 are missing before entry 7'],
    ['has two entries with a number', [5, 6, 6], 'there are two entries with the number 6'],
    ['has two, and later entries', [5, 6, 6, 7, 8], 'there are two entries with the number 6'],
    ['lacks its next entry', [6], 'entries 5 to 5 are missing before entry 6'],
  ]

  it.each(damages)('that %s holds nobody back', async (_, seqs, why) => {
    await write(...seqs)
    await work(busy, 'job_2')
    await snapshotAll(anHourLater())
    await write(9)
    await snapshotAll(anHourLater())
    expect(await from()).toEqual(ends())
    await endRun(redis)
    const before = await balances()
    for (const time of ['first', 'second']) {
      await compareAll(environment.deps)
      expect([await frozen(BUSY), await frozen(IDLE)], time)
        .toEqual([null, expect.stringContaining(why)])
      expect(await balances()).toEqual(before)
      await endRun(redis)
    }
  })

  it.each(damages)('that %s is not unlocked as its snapshot had it', async (_, seqs, why) => {
    await write(...seqs)
    await work(busy, 'job_2')
    await snapshotAll(anHourLater())
    expect(await from()).toEqual(ends())
    const journal = { ...environment.deps.journal, lengths }
    for (const time of ['first', 'second']) {
      await putBack(redis, asOld)
      await compareAll({ ...environment.deps, journal })
      expect([await frozen(BUSY), await frozen(IDLE)], time)
        .toEqual([null, expect.stringContaining(why)])
    }
    await redis.flushall()
    await compareAll(environment.deps)
    expect(await frozen(IDLE)).toContain(why)
  })

  it('gets a snapshot again once it is thawed', async () => {
    await write(5, 7)
    await snapshotAll(anHourLater())
    await endRun(redis)
    await compareAll(environment.deps)
    await redis.hset(moneyKeys(IDLE).wallet, { trust: 'journal' })
    await redis.hdel(moneyKeys(IDLE).wallet, 'run', 'frozen')
    await compareAll(environment.deps)
    const before = await balances()
    expect(before[1]).toMatchObject({ seq: 7 })
    await work(idle, 'job_2')
    await snapshotAll(anHourLater())
    expect(await from()).toEqual(ends())
    const { deps, read } = watched()
    await endRun(redis)
    await compareAll(deps)
    expect([await frozen(IDLE), read.journal]).toEqual([null, 0])
    expect((await balances())[1]).toMatchObject({ seq: 11 })
  })

  it('waits for an entry that is late: its snapshot follows', async () => {
    await write(5, 7)
    await snapshotAll(environment.deps)
    expect(await from()).not.toEqual(ends())
    await write(6)
    await snapshotAll(environment.deps)
    expect(await from()).toEqual(ends())
    const base = await readSnapshots(environment.deps, signal)
    expect(snapshotIn(base, IDLE)?.seq).toBe(7)
  })

  it('is compared with the whole journal if the entry comes after all', async () => {
    await write(5, 7)
    await snapshotAll(anHourLater())
    await write(6)
    await snapshotAll(anHourLater())
    await putBack(redis, asOld)
    await compareAll(environment.deps)
    expect(await frozen(IDLE)).toBe(null)
    expect((await balances())[1]).toMatchObject({ seq: 7, fundedMicros: 1_030 })
    const base = await readSnapshots(environment.deps, signal)
    expect(snapshotIn(base, IDLE)).toMatchObject({ seq: 7, fundedMicros: 1_030 })
  })

  it('is not taken for another by the snapshot of a leader that was slow', async () => {
    await write(5)
    const slow = await readSnapshots(environment.deps, signal)
    await write(7)
    await snapshotAll(anHourLater())
    const late = withoutMessages(environment.deps, 'wallet.journal', message =>
      message !== environment.bus.messages('wallet.journal').at(-1))
    await takeSnapshots(late, slow, signal)
    await putBack(redis, asOld)
    await compareAll({ ...environment.deps, journal: { ...environment.deps.journal, lengths } })
    expect(await frozen(IDLE)).toBe('entries 6 to 6 are missing before entry 7')
  })

  it('is not forgotten for the snapshot of its number by a leader that was slow', async () => {
    await write(5, 6)
    const slow = await readSnapshots(environment.deps, signal)
    const read = new Set(environment.bus.messages('wallet.journal'))
    await write(6)
    await snapshotAll(anHourLater())
    const late = withoutMessages(environment.deps, 'wallet.journal', message => read.has(message))
    await takeSnapshots(late, slow, signal)
    const snapshot = snapshotIn(await readSnapshots(environment.deps, signal), IDLE)
    expect(snapshot).toMatchObject({ seq: 6, availableMicros: -1 })
  })

  it('is not forgotten by a leader that crashes while it writes snapshots', async () => {
    await write(5, 6, 6)
    await work(busy, 'job_2')
    let emitted = 0
    for (let kept = 0; kept < 4; kept += 1) {
      const emitter: LedgerDeps['emitter'] = {
        emit: async emissions => {
          const left = emissions.slice(0, Math.max(0, kept - emitted))
          emitted += left.length
          await environment.emitter.emit(left)
          if (left.length < emissions.length) throw new InfrastructureError('it is dead')
        },
      }
      emitted = 0
      await snapshotAll({ ...anHourLater(), emitter }).catch(() => {})
      await putBack(redis, asOld)
      await compareAll({ ...environment.deps, journal: { ...environment.deps.journal, lengths } })
      expect(await frozen(IDLE)).toContain('there are two entries with the number 6')
      expect([await unlocked(BUSY), await frozen(BUSY)]).toEqual([1, null])
    }
  })
})

it('a journal that contradicts itself gets a snapshot that covers nothing', async () => {
  const { deps } = environment
  const [first] = environment.bus.messages('wallet.journal')
    .filter(({ key }) => String(key) === IDLE)
  const entry = await deps.codec.decode('wallet.journal', first!.value!) as Journal
  const value = { ...entry, entryId: 'another' }
  await environment.emitter.emit([
    { topic: 'wallet.journal', lane: 'small', value, rows: undefined },
  ])
  const base = await takeSnapshots(deps, NO_BASE, signal)
  // Releases before these snapshots compare every wallet with the whole journal for its balances.
  expect(snapshotIn(base, IDLE)).toMatchObject({
    seq: 4, availableMicros: -1, fundedMicros: 0, posted: [{ id: '' }],
  })
  expect(snapshotIn(base, BUSY)).toMatchObject({ seq: 4, fundedMicros: 1_000 })
  expect(environment.logged.at(-1)).toEqual(['error', 'journal contradicts itself or lacks ' +
    'entries: its wallet may be frozen at the next restart of Redis; see the runbook on ' +
    'TenantsFrozen'])
})
