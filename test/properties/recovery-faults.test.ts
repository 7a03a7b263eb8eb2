import type { Redis } from 'ioredis'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Journal } from '../../schemas/types.ts'
import {
  chooseRetention, JournalState, reconcile,
} from '../../services/ledger/journal-state.ts'
import { createRecoveryStore } from '../../services/ledger/recovery-store.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import {
  canonicalText, CHAIN_START, movementId, trackContradictions,
} from '../../services/money/journal.ts'
import { post } from '../../services/money/prices.ts'
import { type Balance, createRecoveryGuards } from '../../services/money/wallet.ts'
import { moneyKeys, TENANTS_KEY, taggedTenant } from '../../services/money/redis-keys.ts'
import { codec } from '../support/clickhouse/results.ts'
import { startLockedRedis } from '../support/redis/redis.ts'
import { unlockAll } from '../support/redis/unlock.ts'
import { acceptRequest, jobClaim } from '../support/jobs.ts'
import { contentOf, endRun, putBack, snapshotOf } from '../support/redis/content.ts'
import { createScenario, type Scenario } from '../support/recovery/recovery-scenario.ts'
import {
  compareAll, createRecoveryEnvironment, entriesOf, runLedger, snapshotAll, withoutMessages,
  type LedgerDeps, type RecoveryEnvironment,
} from '../support/recovery/recovery-environment.ts'

const { redis } = await startLockedRedis()
const [DAMAGED, OTHER] = ['org_a.live', 'org_b.live']

let environment: RecoveryEnvironment
let damaged: Scenario
let other: Scenario
beforeEach(async () => {
  await start()
})

async function start (): Promise<void> {
  await redis.flushall()
  environment = createRecoveryEnvironment(redis)
  damaged = createScenario(redis, environment, DAMAGED)
  other = createScenario(redis, environment, OTHER)
  await unlockAll(redis, [DAMAGED, OTHER])
  for (const scenario of [damaged, other]) await live(scenario)
}

/** A job that runs, one that has ended and is stored nowhere, and one that is archived. */
async function live (scenario: Scenario): Promise<void> {
  await scenario.act({ do: 'topUp', id: 1, micros: 10_000 })
  for (const id of ['job_1', 'job_2', 'job_3']) await scenario.accept(id, 200)
  const rows = { do: 'tally', inputs: true, late: false, unknown: [] } as const
  await scenario.act({ ...rows, job: 'job_1', live: [0, 1, 2] })
  await scenario.act({ ...rows, job: 'job_2', live: [4, 5] })
  await scenario.act({ ...rows, job: 'job_3', live: [7] })
  await scenario.finish('job_2')
  await scenario.finish('job_3')
  await scenario.archive('job_3', true)
  await scenario.ship(false)
}

/** Has the ledger trust the journal of the damaged tenant at its next start, which this is. */
async function trust (deps: LedgerDeps = environment.deps): Promise<void> {
  await redis.hset(moneyKeys(DAMAGED).wallet, { trust: 'journal' })
  await redis.hdel(moneyKeys(DAMAGED).wallet, 'run', 'frozen')
  await runLedger(deps)
}

const topUp = (id: number, micros: number) => damaged.act({ do: 'topUp', id, micros })

const isFrozen = async (tenant: string) => await redis.hget(moneyKeys(tenant).wallet, 'frozen')
const balances = { availableMicros: 7_400, reservedMicros: 2_000, chargedMicros: 600 }

/** Adds an entry to the journal, made from the last one. */
async function writeEntry (change: (last: Journal) => Partial<Journal>): Promise<void> {
  const last = (await entriesOf(environment, DAMAGED)).at(-1)!
  await environment.emitter.emit([{
    topic: 'wallet.journal',
    lane: 'small',
    value: { ...last, entryId: 'made-up', ...change(last) },
    rows: undefined,
  }])
}

const wallet = moneyKeys(DAMAGED).wallet
const text = (available: number) => `availableMicros ${available}, reservedMicros 2000, ` +
  'chargedMicros 600, fundedMicros 10000'

/** What an isolated master wrote after entry 6, whose numbers this one assigns as well. */
const topUpElsewhere = {
  type: 'topup', entryId: 'topup:elsewhere', job: '', amountMicros: 500, chargeMicros: 0,
} as const
const endElsewhere = {
  type: 'settle', entryId: 'job_1:settle', job: 'job_1', amountMicros: 2_000, chargeMicros: 600,
} as const
const shipped = async (move: () => Promise<unknown>) => {
  await move()
  await damaged.ship(false)
}
const writeElsewhere = async (
  entry: Pick<Journal, 'type' | 'entryId' | 'job' | 'amountMicros' | 'chargeMicros'>, seq = 7
) => await writeEntry(last => ({ ...post(last, entry), ...entry, seq, at: last.at + 1 }))

/** Both move money from the same state on; the journal gets it from this one first. */
const fork = async (elsewhere: () => Promise<unknown>, here: () => Promise<unknown>) => {
  const old = await snapshotOf(redis)
  await elsewhere()
  const entries = await damaged.outbox.pending(DAMAGED)
  await putBack(redis, old)
  await unlockAll(redis, [DAMAGED, OTHER])
  await shipped(here)
  await environment.emitter.emit(entries.map(value =>
    ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
}
const topUps = async (...ids: readonly number[]) => {
  for (const id of ids) await topUp(id, 15 * id)
}

const diverging: readonly (readonly [string, () => Promise<unknown>, Partial<Balance>])[] = [
  ['a top-up in the outbox', async () => {
    await writeElsewhere(topUpElsewhere)
    await damaged.act({ do: 'topUp', id: 2, micros: 30 })
  }, { availableMicros: 7_930, fundedMicros: 10_530, seq: 8 }],
  ['a top-up in the topic', async () => {
    await writeElsewhere(topUpElsewhere)
    await shipped(() => damaged.act({ do: 'topUp', id: 2, micros: 30 }))
  }, { availableMicros: 7_930, fundedMicros: 10_530, seq: 8 }],
  ['a job', async () => {
    await writeElsewhere(topUpElsewhere)
    await shipped(() => damaged.accept('job_4', 3))
  }, { availableMicros: 7_870, reservedMicros: 2_030, fundedMicros: 10_500, seq: 8 }],
  ['a job that has ended since', async () => {
    await writeElsewhere(topUpElsewhere)
    await shipped(() => damaged.accept('job_4', 3))
    await shipped(() => damaged.finish('job_4'))
  }, { availableMicros: 7_900, fundedMicros: 10_500, seq: 9 }],
  ['a top-up, and a later number of each', async () => {
    await writeElsewhere(topUpElsewhere)
    await shipped(() => topUps(2, 3))
    await writeElsewhere({ ...topUpElsewhere, entryId: 'topup:later' }, 8)
  }, { availableMicros: 8_475, fundedMicros: 11_075, seq: 10 }],
  ['a top-up in the outbox before another one', async () => {
    await writeElsewhere(topUpElsewhere)
    await topUps(2, 3)
  }, { availableMicros: 7_975, fundedMicros: 10_575, seq: 9 }],
  ['a top-up, and the other side has a free job that ended', async () => {
    await fork(async () => {
      await topUp(9, 500)
      await damaged.accept('job_9', 3)
      await damaged.finish('job_9')
    }, () => topUps(2, 3, 4))
  }, { availableMicros: 8_035, fundedMicros: 10_635, seq: 12 }],
  ['a top-up, and the other side has a job that reserves nothing', async () => {
    await fork(async () => {
      await topUp(9, 500)
      await damaged.accept('job_9', 0)
    }, () => topUps(2, 3))
  }, { availableMicros: 7_975, fundedMicros: 10_575, seq: 10 }],
  ['the end of a job that costs more here', async () => {
    await writeElsewhere({ ...endElsewhere, chargeMicros: 500 })
    await shipped(() => damaged.finish('job_1'))
    await shipped(() => damaged.act({ do: 'topUp', id: 2, micros: 30 }))
  }, {
    availableMicros: 8_930, reservedMicros: 0, chargedMicros: 1_100, fundedMicros: 10_030, seq: 9,
  }],
]

/** Both sides wrote the same, so what the wallet has is the sum of all movements. */
const agreeing: typeof diverging = [
  ['the end of a job that costs less here', async () => {
    await writeElsewhere({ ...endElsewhere, chargeMicros: 800 })
    await shipped(() => damaged.finish('job_1'))
    await shipped(() => damaged.act({ do: 'topUp', id: 2, micros: 30 }))
  }, {
    availableMicros: 8_830, reservedMicros: 0, chargedMicros: 1_200, fundedMicros: 10_030, seq: 8,
  }],
  ['the end of a job that both have ended', async () => {
    await writeElsewhere(endElsewhere)
    await shipped(() => damaged.finish('job_1'))
  }, { availableMicros: 8_800, reservedMicros: 0, chargedMicros: 1_200, seq: 7 }],
  ['a top-up that both have under different numbers', async () => {
    await writeElsewhere(topUpElsewhere)
    await shipped(async () => {
      await damaged.act({ do: 'topUp', id: 2, micros: 30 })
      const repeated = { id: 'elsewhere', amountMicros: 500, reason: '' }
      await damaged.wallet.topUp(DAMAGED, repeated)
    })
  }, { availableMicros: 7_930, fundedMicros: 10_530, seq: 8 }],
  ['the end of a job that both have ended under different numbers', async () => {
    await writeElsewhere(endElsewhere)
    await shipped(async () => {
      await damaged.act({ do: 'topUp', id: 2, micros: 30 })
      await damaged.finish('job_1')
    })
  }, {
    availableMicros: 8_830, reservedMicros: 0, chargedMicros: 1_200, fundedMicros: 10_030, seq: 8,
  }],
]

/** All entries of the topic by number, and those of one number in this order. */
const inOrder = async (order: (a: Journal, b: Journal) => number) => {
  const entries: Journal[] = []
  for (const { value } of environment.bus.messages('wallet.journal')) {
    const entry = await codec.decode('wallet.journal', value!) as Journal
    if (entry.tenant === DAMAGED) entries.push(entry)
  }
  const each = new Map(entries.map(entry => [canonicalText(entry), entry]))
  return [...each.values()].toSorted((a, b) => a.seq - b.seq || order(a, b))
}
/** Of entries with one number: as they were written, and as a copy may have them. */
const ORDERS = [
  () => 0, (a: Journal, b: Journal) => canonicalText(a) < canonicalText(b) ? 1 : -1,
]
/** What each reader of the journal finds in it, in whatever order. */
const resolutions = async () => {
  return await Promise.all(ORDERS.map(async order => {
    const resolver = trackContradictions()
    for (const entry of await inOrder(order)) resolver.add(entry)
    return resolver.end()
  }))
}
const withoutSnapshots = () =>
  withoutMessages(environment.deps, 'wallet.snapshots', () => false)
/** Nothing is left of a contradiction, for those who read nothing but the journal. */
async function expectResolved (expected: Balance): Promise<void> {
  expect(await isFrozen(DAMAGED)).toBe(null)
  expect(await damaged.wallet.balance(DAMAGED)).toEqual(expected)
  const all = await inOrder(() => 0)
  const twice = new Set(all.filter(({ seq }, index) =>
    seq === all[index - 1]?.seq).map(({ seq }) => seq)).size
  const ids = all.map(movementId)
  const repeated = all.findLast((_, index) => ids.indexOf(ids[index]!) < index)?.seq ?? 0
  for (const { upTo, numbers } of await resolutions()) {
    expect(numbers).toBe(twice)
    expect(upTo).toBeGreaterThanOrEqual(Math.max(twice > 0 ? 7 : 0, repeated))
  }
  const before = await contentOf(redis)
  for (const deps of [environment.deps, withoutSnapshots()]) {
    await endRun(redis)
    await runLedger(deps)
    expect([await isFrozen(DAMAGED), await contentOf(redis)]).toEqual([null, before])
  }
}

const contradictions: readonly (readonly [string, () => Promise<unknown>, string])[] = [
  ['a changed balance', () => redis.hincrby(wallet, 'available', 5),
    `after movement 6 Redis has ${text(7_405)}, the journal ${text(7_400)}`],
  ['movements that are nowhere', () => redis.hincrby(wallet, 'seq', 2),
    'Redis has 8 movements, journal and outbox have 6'],
  ['a job that has reserved nothing', () => redis.hset(wallet, 'open:job_x', 1),
    'job job_x runs without a reservation'],
  ['an entry behind a gap', () => writeEntry(({ seq }) => ({ seq: seq + 2 })),
    'entries 7 to 7 are missing before entry 8'],
  ['two entries with one number',
    () => writeEntry(() => ({ entryId: 'topup:another', type: 'topup', job: '' })),
    'there are two entries with the number 6'],
  ['two entries with one number behind a gap', async () => {
    await writeEntry(({ seq }) => ({ seq: seq + 2 }))
    await writeEntry(() => ({ entryId: 'topup:another', type: 'topup', job: '' }))
  }, 'there are two entries with the number 8; entries 7 to 7 are missing before entry 8'],
  ['the end of a job with another amount', () => writeEntry(last => ({
    seq: last.seq + 1,
    type: 'settle',
    job: 'job_1',
    amountMicros: 500,
    chargeMicros: 0,
    availableMicros: last.availableMicros + 500,
    reservedMicros: last.reservedMicros - 500,
  })), 'entry 7 ends a job that did not reserve the same amount; 1500 are reserved, open jobs ' +
    'reserved 0; job job_1 runs without a reservation'],
  ['balances that do not follow',
    () => writeEntry(({ seq }) => ({ seq: seq + 1, type: 'adjust', job: '', amountMicros: 9 })),
    `entry 7 has balances ${text(7_400)}, expected availableMicros 7409, reservedMicros 2000, ` +
      'chargedMicros 600, fundedMicros 10009'],
]

describe('a contradiction', () => {
  it.each(contradictions)('by %s freezes its tenant, and no other', async (_, damage, why) => {
    await damage()
    const before = await contentOf(redis)
    await endRun(redis)
    await runLedger(environment.deps)
    expect(await isFrozen(DAMAGED)).toBe(why)
    expect(await isFrozen(OTHER)).toBe(null)
    expect(await contentOf(redis)).toEqual(before)
    expect(environment.counted).toMatchObject({ frozen: 1, tenant: 1, recounted_job: 1 })
    await expect(damaged.wallet.topUp(DAMAGED, { id: 'b', amountMicros: 1, reason: '' }))
      .rejects.toThrow(`the wallet of ${DAMAGED} is frozen`)
    expect(await damaged.accept('job_4', 1))
      .toEqual({ kind: 'refused', refusal: { code: 'frozen' } })
    expect((await other.accept('job_4', 1)).kind).toBe('accepted')
    expect(await other.wallet.balance(OTHER))
      .toMatchObject({ ...balances, availableMicros: 7_390, reservedMicros: 2_010 })
  })

  it('ends when operators trust the journal: the balance is that of the journal', async () => {
    await redis.hincrby(wallet, 'available', 5)
    await endRun(redis)
    await runLedger(environment.deps)
    await trust()
    expect(await redis.hkeys(moneyKeys(DAMAGED).wallet)).not.toContain('trust')
    expect(await damaged.wallet.balance(DAMAGED))
      .toEqual({ ...balances, fundedMicros: 10_000, seq: 6 })
    await damaged.endAll()
    expect(await damaged.wallet.balance(DAMAGED)).toEqual({
      availableMicros: 8_800, reservedMicros: 0, chargedMicros: 1_200, fundedMicros: 10_000, seq: 7,
    })
  })

  it.each(diverging)(
    'by two entries with a number, one of them %s, ends for good: each movement counts once',
    async (_, diverge, balance) => {
      await diverge()
      await endRun(redis)
      await runLedger(environment.deps)
      expect(await isFrozen(DAMAGED)).toContain('there are two entries with the number 7')
      for (const { upTo } of await resolutions()) expect(upTo).toBe(0)
      await trust()
      const expected = { ...balances, fundedMicros: 10_000, ...balance }
      expect(await createRecoveryStore(redis).check(DAMAGED)).not.toMatchObject(
        { kind: 'inconsistent' })
      const seqs = (await damaged.outbox.pending(DAMAGED)).map(({ seq }) => seq)
      expect(seqs).not.toContain(7)
      // Neither is added once more when it is repeated.
      for (const entry of await entriesOf(environment, DAMAGED)) {
        const { entryId, type, amountMicros, reason } = entry
        if (type !== 'topup') continue
        const id = entryId.replace('topup:', '')
        expect(await damaged.wallet.topUp(DAMAGED, { id, amountMicros, reason }))
          .toMatchObject({ kind: 'known' })
      }
      await expectResolved({ seq: 0, ...expected })
      await damaged.endAll()
      await damaged.ship(false)
      const jobs = (await entriesOf(environment, DAMAGED)).map(({ job }) => job)
      for (const job of new Set(jobs)) if (job !== '') await damaged.archive(job, true)
      const ended = await damaged.wallet.balance(DAMAGED)
      expect(ended.reservedMicros).toBe(0)
      // Nor when the whole journal is read and trusted again, days later.
      const clock = { ...environment.deps.clock, now: () => Date.now() + 2 * 86_400_000 }
      await redis.hincrby(wallet, 'available', 5)
      await trust({ ...environment.deps, clock })
      await expectResolved(ended)
      for (const order of ORDERS) {
        const entries = await inOrder(order)
        await redis.flushall()
        const restored = createRecoveryEnvironment(redis)
        await restored.emitter.emit(entries.map(value =>
          ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
        await runLedger(restored.deps)
        expect(await isFrozen(DAMAGED)).toBe(null)
        expect(await damaged.wallet.balance(DAMAGED)).toEqual(ended)
      }
    })

  it.each(agreeing)('by two entries with a number is none if one of them is %s',
    async (_, diverge, balance) => {
      await diverge()
      await endRun(redis)
      await runLedger(environment.deps)
      await expectResolved({ ...balances, fundedMicros: 10_000, seq: 0, ...balance })
    })

  it('by two entries with a number is none if neither moves money: both are kept', async () => {
    for (const id of ['job_4', 'job_5']) await damaged.accept(id, 0)
    await damaged.ship(false)
    const free = { type: 'settle', amountMicros: 0, chargeMicros: 0 } as const
    await writeElsewhere({ ...free, entryId: 'job_4:settle', job: 'job_4' }, 9)
    await damaged.accept('job_6', 0)
    await endRun(redis)
    await runLedger(environment.deps)
    expect(await isFrozen(DAMAGED)).toBe(null)
    expect((await damaged.outbox.pending(DAMAGED)).map(({ job }) => job)).toEqual(['job_6'])
    await damaged.ship(false)
    await redis.flushall()
    await runLedger(withoutSnapshots())
    await expectResolved({ ...balances, fundedMicros: 10_000, seq: 9 })
    const open = (await damaged.store.openJobs(DAMAGED)).map(({ job }) => job)
    expect(open).toEqual(expect.arrayContaining(['job_5', 'job_6']))
  })

  it('by balances that do not follow ends for good as well', async () => {
    await writeEntry(({ seq }) => ({ seq: seq + 1, type: 'adjust', job: '', amountMicros: 9 }))
    await endRun(redis)
    await runLedger(environment.deps)
    expect(await isFrozen(DAMAGED)).toContain('entry 7 has balances')
    await trust()
    await expectResolved({ ...balances, availableMicros: 7_409, fundedMicros: 10_009, seq: 8 })
    // What contradicts after that is another contradiction.
    await writeEntry(({ seq }) => ({ seq: seq + 1, entryId: 'more', amountMicros: 9 }))
    await endRun(redis)
    await runLedger(environment.deps)
    expect(await isFrozen(DAMAGED)).toContain('entry 9 has balances')
  })

  it('by two entries with a number is followed by another, which ends as well', async () => {
    await writeElsewhere(topUpElsewhere)
    await shipped(() => topUp(2, 30))
    await trust()
    // Late, under its first number; and one more that was never seen.
    await writeElsewhere({ ...topUpElsewhere, entryId: 'topup:2', amountMicros: 30 })
    await endRun(redis)
    await runLedger(withoutSnapshots())
    expect(await isFrozen(DAMAGED)).toBe(null)
    await shipped(() => topUp(3, 4))
    await writeElsewhere({ ...topUpElsewhere, entryId: 'topup:late' })
    await endRun(redis)
    await runLedger(withoutSnapshots())
    expect(await isFrozen(DAMAGED)).toBe('there are two entries with the number 7')
    for (const { upTo } of await resolutions()) expect(upTo).toBe(0)
    await trust()
    await expectResolved({ ...balances, availableMicros: 8_434, fundedMicros: 11_034, seq: 10 })
  })

  it('by one id with two amounts ends with the smaller one, which may be repeated', async () => {
    await shipped(() => topUp(2, 30))
    await writeElsewhere({ ...topUpElsewhere, entryId: 'topup:2', amountMicros: 20 })
    await trust()
    await expectResolved({ ...balances, availableMicros: 7_420, fundedMicros: 10_020, seq: 8 })
    const repeat = async (amountMicros: number) =>
      await damaged.wallet.topUp(DAMAGED, { id: '2', amountMicros, reason: 'any' })
    expect(await repeat(20)).toMatchObject({ kind: 'known' })
    expect(await repeat(30)).toMatchObject({ kind: 'conflict' })
  })

  it('by an entry below the snapshot ends when operators trust the journal', async () => {
    const before = { ...balances, fundedMicros: 10_000 }
    await shipped(() => topUp(2, 30))
    await snapshotAll(environment.deps)
    await writeEntry(({ at }) =>
      ({ ...post(before, topUpElsewhere), ...topUpElsewhere, seq: 7, at: at + 1 }))
    await endRun(redis)
    await runLedger(environment.deps)
    expect(await isFrozen(DAMAGED)).toBe(null)
    for (const { upTo } of await resolutions()) expect(upTo).toBe(0)
    await trust()
    await expectResolved({ ...before, availableMicros: 7_930, fundedMicros: 10_530, seq: 8 })
  })

  it('by two entries with the last number is one, in whatever order they are read', async () => {
    await shipped(() => topUps(2, 3))
    const idle = { ...topUpElsewhere, ...balances, amountMicros: 0, fundedMicros: 10_000 }
    for (const seq of [8, 7]) await writeEntry(() => ({ ...idle, seq, entryId: `topup:-${seq}` }))
    await endRun(redis)
    await runLedger(environment.deps)
    expect(await isFrozen(DAMAGED)).toContain('there are two entries with the number 8')
    for (const { upTo } of await resolutions()) expect(upTo).toBe(0)
    await trust()
    await expectResolved({ ...balances, availableMicros: 7_475, fundedMicros: 10_075, seq: 10 })
  })

  it('by two entries with a number stays resolved for a Redis file from before', async () => {
    await writeElsewhere(topUpElsewhere)
    await shipped(() => topUp(2, 30))
    const old = await snapshotOf(redis)
    await trust()
    await shipped(() => topUp(3, 4))
    const balance = await damaged.wallet.balance(DAMAGED)
    await putBack(redis, old)
    await runLedger(environment.deps)
    expect(await isFrozen(DAMAGED)).toBe(null)
    expect(await damaged.wallet.balance(DAMAGED)).toEqual(balance)
    await redis.flushall()
    await runLedger(withoutSnapshots())
    expect(await damaged.wallet.balance(DAMAGED)).toEqual(balance)
    for (const id of [2, 3]) await topUp(id, id === 2 ? 30 : 4)
    expect(await damaged.wallet.balance(DAMAGED)).toEqual(balance)
  })

  it('by two entries with a number stays if both have spent the same money', async () => {
    await writeElsewhere({ ...topUpElsewhere, type: 'adjust', amountMicros: -7_000 })
    await damaged.act({ do: 'adjust', id: 2, micros: -7_000 })
    await endRun(redis)
    await runLedger(environment.deps)
    const before = await damaged.wallet.balance(DAMAGED)
    await trust()
    expect(await isFrozen(DAMAGED)).toBe('availableMicros is -6600; fundedMicros is -4000')
    expect(await damaged.wallet.balance(DAMAGED)).toEqual(before)
    expect(await entriesOf(environment, DAMAGED)).toHaveLength(7)
  })

  const whole = (journal: number, copied: number, held: number) =>
    `the journal of ${DAMAGED} has ${journal} entries, its copy in ClickHouse ${copied}, Redis ` +
    `${held}: a journal that lost entries is not trusted; restore it by ` +
    '"npm run admin -- journal restore", then thaw again'
  const alone = `the journal of ${DAMAGED} has 6 entries, its copy in ClickHouse no more, ` +
    'Redis 7: what only Redis has is not trusted, and no restore of the journal helps; see ' +
    '"A frozen tenant" in recovery.md'
  const copied = (seq: number) => ({
    ...environment.deps.journal,
    heads: async () => new Map([[DAMAGED, { ...CHAIN_START, seq }]]),
  })

  const away = async () => { throw new InfrastructureError('away') }
  it.each<{ what: string, deps: () => LedgerDeps, damaged?: string, why: string }>([
    {
      what: 'is empty',
      deps: () => withoutMessages(environment.deps, 'wallet.journal', () => false),
      why: whole(0, 6, 6),
    },
    {
      what: 'is shorter than its copy',
      deps: () => ({ ...environment.deps, journal: copied(9) }),
      why: whole(6, 9, 6),
    },
    {
      what: 'is shorter than Redis',
      deps: () => environment.deps,
      damaged: 'seq',
      why: alone,
    },
    {
      what: 'is not known to be whole, as the copy is away',
      deps: () =>
        ({ ...environment.deps, journal: { ...environment.deps.journal, heads: away } }),
      why: `the copy of the journal of ${DAMAGED} in ClickHouse cannot be read, so the journal ` +
        'cannot be proven complete: thaw again when ClickHouse answers',
    },
  ])('does not end by trust in a journal that $what', async given => {
    const { deps, damaged: field = 'available', why } = given
    await redis.hincrby(wallet, field, 1)
    await endRun(redis)
    await runLedger(deps())
    const before = await damaged.wallet.balance(DAMAGED)
    await trust(deps())
    expect(await isFrozen(DAMAGED)).toBe(why)
    expect(await damaged.wallet.balance(DAMAGED)).toEqual(before)
  })

  it('does not end by trust in a journal whose last entry, of trust, the copy has', async () => {
    await writeElsewhere({ ...endElsewhere, chargeMicros: 500 })
    await shipped(() => damaged.finish('job_1'))
    await shipped(() => topUp(2, 30))
    await trust()
    expect((await entriesOf(environment, DAMAGED)).at(-1)?.entryId).toBe('trusted:9')
    const { value: last } = environment.bus.messages('wallet.journal')
      .findLast(({ key }) => String(key) === DAMAGED)!
    const lossy = withoutMessages(
      withoutSnapshots(), 'wallet.journal', ({ value }) => !value!.equals(last!))
    await trust(lossy)
    expect(await isFrozen(DAMAGED)).toBe(whole(8, 9, 9))
    await trust()
    expect(await isFrozen(DAMAGED)).toBe(null)
  })

  /** Moves money, of which all but the last entry is lost with Redis before it is shipped. */
  async function loseAllButLast (move: () => Promise<unknown>): Promise<Balance> {
    const old = await snapshotOf(redis)
    await move()
    const last = (await damaged.outbox.pending(DAMAGED)).at(-1)!
    await environment.emitter.emit(
      [{ topic: 'wallet.journal', lane: 'small', value: last, rows: undefined }])
    const balance = await damaged.wallet.balance(DAMAGED)
    await putBack(redis, old)
    await runLedger(environment.deps)
    return balance
  }
  it.each<readonly [string, () => Promise<unknown>, Partial<Journal>]>([
    ['money that was added', () => topUp(2, 500),
      { entryId: 'missing:7', type: 'adjust', job: '', amountMicros: 500, fundedMicros: 10_500 }],
    ['money that was taken', () => damaged.act({ do: 'adjust', id: 2, micros: -500 }),
      { entryId: 'missing:7', type: 'adjust', job: '', amountMicros: -500, fundedMicros: 9_500 }],
    ['the end of a job', () => damaged.finish('job_1'), {
      entryId: 'job_1:settle', type: 'settle', job: 'job_1', amountMicros: 2_000, chargeMicros: 600,
    }],
  ])('by %s before an entry that is there ends as well, permanently', async (_, lost, made) => {
    const balance = await loseAllButLast(async () => {
      await lost()
      await topUp(3, 1)
    })
    expect(await isFrozen(DAMAGED)).toBe('entries 7 to 7 are missing before entry 8')
    await trust()
    expect(await isFrozen(DAMAGED)).toBe(null)
    expect(await damaged.wallet.balance(DAMAGED)).toEqual(balance)
    const entries = await entriesOf(environment, DAMAGED)
    expect(entries.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
    expect(entries[6]).toMatchObject({
      ...made, at: entries[7]?.at, reason: 'reconstructed from entry 8: the entry itself is lost',
    })
    // The command `thaw` names those whose ids are lost.
    expect(await createRecoveryGuards(redis).reconstructed(DAMAGED))
      .toEqual(made.type === 'adjust' ? [7] : [])
    await damaged.endAll()
    await damaged.ship(false)
    const before = await contentOf(redis)
    await endRun(redis)
    await runLedger(environment.deps)
    expect([await isFrozen(DAMAGED), await contentOf(redis)]).toEqual([null, before])
    expect(await damaged.wallet.balance(DAMAGED)).toMatchObject({ reservedMicros: 0 })
  })

  it.each([
    ['that Kafka and the copy have lost', async () => {
      await topUp(2, 500)
      await damaged.outbox.remove(DAMAGED, await damaged.outbox.pending(DAMAGED))
    }],
    ['that somebody wrote to Redis', async () => {
      for (const [field, by] of [['available', 500], ['funded', 500], ['seq', 1]] as const) {
        await redis.hincrby(wallet, field, by)
      }
    }],
  ])('by a movement %s makes no money: it stays frozen', async (_, move) => {
    await move()
    await endRun(redis)
    await runLedger(environment.deps)
    expect(await isFrozen(DAMAGED)).toContain('Redis has 7 movements, journal and outbox have 6')
    await trust()
    expect(await isFrozen(DAMAGED)).toBe(alone)
    expect(await entriesOf(environment, DAMAGED)).toHaveLength(6)
  })

  it('by an entry that was derived, and then found, counts it once', async () => {
    const balance = await loseAllButLast(async () => {
      await topUp(2, 500)
      await topUp(3, 1)
    })
    await trust()
    await writeElsewhere({ ...topUpElsewhere, entryId: 'topup:2' })
    await endRun(redis)
    await runLedger(withoutSnapshots())
    await expectResolved(balance)
    // What was derived counts nothing any more, so the command `thaw` does not name it.
    expect(await createRecoveryGuards(redis).reconstructed(DAMAGED)).toEqual([])
  })

  it.each([
    ['after a freeze, of the snapshots', false, 2],
    ['after a freeze, of the journal for the last time', false, 4],
    ['after a restart, whose snapshot covers it', true, 2],
  ])('is resolved by trust that is asked for during a comparison: %s', async (_, restarts, nth) => {
    await topUp(7, 100)
    await damaged.ship(false)
    if (restarts) await snapshotAll(environment.deps)
    await writeElsewhere(topUpElsewhere)
    await endRun(redis)
    const guards = createRecoveryGuards(redis)
    if (!restarts) {
      await runLedger(environment.deps)
      expect(await isFrozen(DAMAGED)).toContain('two entries with the number 7')
      await guards.thaw(DAMAGED, false)
    }
    let reads = 0
    const reader: LedgerDeps['reader'] = {
      read: async (topic, ...rest) => {
        const ends = await environment.deps.reader.read(topic, ...rest)
        if (topic === 'wallet.journal' && (reads += 1) === nth) await guards.thaw(DAMAGED, true)
        return ends
      },
    }
    await compareAll({ ...environment.deps, reader })
    // The command has asked for another comparison.
    await runLedger(environment.deps)
    expect(reads).toBeGreaterThanOrEqual(nth)
    expect(await redis.hmget(wallet, 'frozen', 'available')).toEqual([null, '8000'])
  })

  it('by trust is requested at once: a command that dies leaves no trust behind', async () => {
    const dying = new Proxy(redis, {
      get: (client, name) => name === 'hdel'
        ? async () => { throw new Error('dead') }
        : (Reflect.get(client, name) as { bind?: (to: unknown) => unknown })?.bind?.(client),
    })
    await createRecoveryGuards(dying).thaw(DAMAGED, true).catch(() => {})
    const [run, trusted] = await redis.hmget(wallet, 'run', 'trust')
    expect([run !== null, trusted !== null]).not.toEqual([true, true])
  })

  it.each([
    ['two entries', async () => { for (const id of [2, 3]) await topUp(id, 5) }, '7 to 8'],
    ['a reservation', () => damaged.accept('job_9', 5), '7 to 7'],
    ['a reservation of nothing, as the end of a job would look', () => damaged.accept('job_9', 0),
      '8 to 8', () => damaged.accept('job_4', 0)],
    ['the end of one of two jobs that reserved the same', () => damaged.finish('job_1'), '8 to 8',
      () => damaged.accept('job_4', 200)],
  ])('by a gap of %s stays frozen even then, and its journal as it is', async (...given) => {
    const [, lost, seqs, before] = given
    await before?.()
    await damaged.ship(false)
    await loseAllButLast(async () => {
      await lost()
      await topUp(4, 1)
    })
    const balance = await damaged.wallet.balance(DAMAGED)
    await trust()
    expect(await isFrozen(DAMAGED)).toContain(`entries ${seqs} are missing`)
    expect(await damaged.wallet.balance(DAMAGED)).toEqual(balance)
  })

  it('by a gap before more entries than a call has arguments freezes its tenant as well', () => {
    const amounts = { availableMicros: 0, reservedMicros: 0, chargedMicros: 0, fundedMicros: 0 }
    const outbox = Array.from({ length: 200_000 }, (_, index) => {
      const entryId = `topup:${index}`
      const movement = { type: 'topup', job: '', amountMicros: 0, chargeMicros: 0, reason: '' }
      const seq = 2 + index
      return { ...amounts, ...movement, tenant: DAMAGED, seq, entryId, at: 0, header: null }
    })
    const locked = {
      tenant: DAMAGED, run: '', seq: 0, amounts, outbox, openJobs: [], trustsJournal: false,
    }
    const retention = chooseRetention(locked, { sinceMs: 0, countsMovements: false })
    expect(reconcile(locked, new JournalState(retention)).faults)
      .toEqual(['entries 1 to 1 are missing before entry 2'])
  })

  it('by two entries with a number and a gap stays frozen: nothing is derived', async () => {
    await writeElsewhere(topUpElsewhere)
    await shipped(() => topUp(2, 30))
    await loseAllButLast(async () => { for (const id of [3, 4]) await topUp(id, 5) })
    const entries = await entriesOf(environment, DAMAGED)
    await trust()
    expect(await isFrozen(DAMAGED)).toBe('entries 8 to 8 are missing before entry 9')
    expect(await entriesOf(environment, DAMAGED)).toEqual(entries)
  })

  it('by a gap drops no rows: the jobs before and after it continue', async () => {
    await loseAllButLast(async () => {
      for (const id of ['job_7', 'job_8']) await damaged.accept(id, 5)
    })
    expect(await isFrozen(DAMAGED)).toBe('entries 7 to 7 are missing before entry 8')
    expect(await damaged.store.batchAction(DAMAGED, 'job_1')).toEqual({ action: 'run' })
    expect(await damaged.store.batchAction(DAMAGED, 'job_8')).toEqual({ action: 'run' })
    expect(await damaged.store.batchAction(DAMAGED, 'job_7')).toEqual({ action: 'skip' })
    // An earlier try of the same request may be behind the gap, so no refusal is definite.
    for (const [job, code] of [['job_9', 'expired'], ['job_10', 'internal']] as const) {
      await damaged.store.claim(DAMAGED, jobClaim(job, { idempotencyKey: 'k', acceptWithinMs: 0 }))
      expect(await damaged.store.refuse(DAMAGED, job, code))
        .toEqual({ kind: 'refused', refusal: { code: 'frozen' } })
    }
    const late = { ...acceptRequest('job_11', { freshChecks: 1 }), acceptByMs: 1 }
    expect(await damaged.store.accept(DAMAGED, late))
      .toEqual({ kind: 'refused', refusal: { code: 'frozen' } })
    expect(await damaged.wallet.balance(DAMAGED)).toMatchObject({ ...balances, seq: 6 })
  })

  it('that only the sums reveal freezes a running tenant', async () => {
    await redis.hincrby(wallet, 'available', 5)
    const reason = 'balances do not add up: available 7405 + reserved 2000 + charged 600 = ' +
      '10005, funded 10000; quotes of open jobs 2000, reserved 2000'
    const { check } = createRecoveryStore(redis)
    expect(await check(DAMAGED)).toEqual({ kind: 'inconsistent', reason })
    expect(await check(DAMAGED)).toEqual({ kind: 'frozen', reason })
    expect(await check(OTHER)).toEqual({ kind: 'ok', reason: '' })
    await endRun(redis)
    expect(await check(OTHER)).toEqual({ kind: 'waiting', reason: '' })
  })
})

it('a ledger that another one has succeeded changes nothing more', async () => {
  await redis.flushall()
  let content: unknown
  const reader: LedgerDeps['reader'] = {
    read: async (topic, ...more) => {
      const ends = await environment.deps.reader.read(topic, ...more)
      if (topic !== 'wallet.journal' || content !== undefined) return ends
      await runLedger(environment.deps)
      await damaged.act({ do: 'topUp', id: 2, micros: 5 })
      await damaged.finish('job_1')
      content = await contentOf(redis)
      return ends
    },
  }
  await runLedger({ ...environment.deps, reader })
  expect(await contentOf(redis)).toEqual(content)
})

describe.each([
  ['with snapshots', () => snapshotAll(environment.deps)],
  ['without snapshots', async () => {}],
])('a journal that lost its end, which the copy has, %s', (_, prepare) => {
  it.each([
    [0, 'nothing', () => redis.flushall()],
    [6, 'an old file', (file: Awaited<ReturnType<typeof snapshotOf>>) => putBack(redis, file)],
  ])('freezes its tenant alone if Redis has %i movements, %s', async (seq, _has, lose) => {
    await prepare()
    const file = await snapshotOf(redis)
    await shipped(() => topUp(2, 500))
    const before = await damaged.wallet.balance(DAMAGED)
    expect(before.seq).toBe(7)
    const last = environment.bus.messages('wallet.journal').at(-1)!
    await lose(file)
    await runLedger(withoutMessages(environment.deps, 'wallet.journal',
      ({ value }) => !value!.equals(last.value!)))
    expect(await isFrozen(OTHER)).toBe(null)
    expect(await isFrozen(DAMAGED)).toBe('the journal of org_a.live has 6 entries, its copy in ' +
      `ClickHouse 7, Redis ${seq}: a journal that lost entries is not trusted; restore it by ` +
      '"npm run admin -- journal restore", then thaw again')
    // The topic was restored.
    await redis.hdel(wallet, 'run', 'frozen')
    await runLedger(environment.deps)
    expect(await isFrozen(DAMAGED)).toBe(null)
    expect(await damaged.wallet.balance(DAMAGED)).toEqual(before)
  })
})

it('a top-up is not taken for shipped when another has its number, but once it is', async () => {
  const lost = { id: 'lost', amountMicros: 5, reason: '' }
  const old = await snapshotOf(redis)
  await damaged.wallet.topUp(DAMAGED, lost)
  await putBack(redis, old)
  await runLedger(environment.deps)
  await topUp(2, 30)
  await damaged.ship(false)
  expect(await damaged.wallet.isShipped(DAMAGED, 'topup', lost)).toBe(false)
  expect(await damaged.wallet.isShipped(DAMAGED, 'topup', { id: '2' })).toBe(true)
  await damaged.wallet.topUp(DAMAGED, lost)
  expect(await damaged.wallet.isShipped(DAMAGED, 'topup', lost)).toBe(false)
  await damaged.ship(false)
  await redis.flushall()
  await runLedger(environment.deps)
  expect(await damaged.wallet.isShipped(DAMAGED, 'topup', lost)).toBe(true)
})

class Killed extends Error {}

/** Dependencies of a ledger that crashes at its nth step, before or after it. */
function dyingAt (deps: LedgerDeps, nth: number, isDone: boolean): LedgerDeps {
  let steps = 0
  const dying = <T extends object>(part: T): T => new Proxy(part, {
    get: (target, name) => {
      const found = Reflect.get(target, name) as unknown
      if (typeof found !== 'function') return found
      return async (...given: unknown[]) => {
        if (steps > nth) throw new Killed()
        steps += 1
        if (steps <= nth) return await (found.apply(target, given) as unknown)
        if (isDone) await (found.apply(target, given) as unknown)
        throw new Killed()
      }
    },
  })
  const { recoveryStore, reader, archive, history, emitter, blocks, store, codec } = deps
  return {
    ...deps,
    redis: dying(deps.redis as Redis),
    recoveryStore: dying(recoveryStore),
    reader: dying(reader),
    archive: dying(archive),
    history: dying(history),
    emitter: dying(emitter),
    blocks: dying(blocks),
    store: dying(store),
    codec,
  }
}

describe.each([
  ['before', false], ['after', true],
])('a ledger killed just %s a step of it', (_, isDone) => {
  it.each([
    ['nothing', async () => await redis.flushall()],
    ['an old file', async () => {
      const old = await snapshotOf(redis)
      for (const scenario of [damaged, other]) {
        await scenario.act({ do: 'topUp', id: 2, micros: 5 })
        await scenario.accept('job_4', 10)
        await scenario.finish('job_1')
        await scenario.ship(false)
      }
      await putBack(redis, old)
    }],
  ])('of a recovery from %s is followed by one that comes to the same end', async (_, lose) => {
    await lose()
    const lost = await snapshotOf(redis)
    await runLedger(environment.deps)
    const whole = await contentOf(redis)
    expect(whole[TENANTS_KEY]).toEqual([DAMAGED, OTHER])
    const jobs = ['job_1', 'job_3'].map(job => `job:${taggedTenant(OTHER)}:${job}`)
    expect(await redis.exists(...jobs)).toBe(2)
    let kills = 0
    for (; ; kills += 1) {
      await putBack(redis, lost)
      const dying = dyingAt(environment.deps, kills, isDone)
      const killed = await runLedger(dying).then(() => false, error => {
        if (!(error instanceof Killed)) throw error
        return true
      })
      if (!killed) break
      await runLedger(environment.deps)
      expect(await contentOf(redis), `killed at step ${kills}`).toEqual(whole)
      expect([await isFrozen(DAMAGED), await isFrozen(OTHER)]).toEqual([null, null])
    }
    expect(await contentOf(redis)).toEqual(whole)
    expect(kills).toBeGreaterThan(25)
  })

  it.each([
    ['its file', 1, async () => {}],
    // What was in the outbox alone is lost with it.
    ['nothing', 0, async () => await redis.flushall()],
  ])('of a trust, and %s left of Redis, is followed by one that comes to the same end',
    async (_, pending, lose) => {
      const killedAt = async (nth: number) => {
        await start()
        await writeElsewhere(topUpElsewhere)
        await shipped(() => topUps(2, 3))
        await writeElsewhere({ ...topUpElsewhere, entryId: 'topup:later' }, 8)
        if (pending > 0) await topUp(4, pending)
        return await trust(dyingAt(environment.deps, nth, isDone)).then(() => false, error => {
          if (!(error instanceof Killed)) throw error
          return true
        })
      }
      const resolved = {
        ...balances,
        availableMicros: 8_475 + pending,
        fundedMicros: 11_075 + pending,
        seq: 10 + pending,
      }
      let kills = 0
      for (; await killedAt(kills); kills += 1) {
        await lose()
        await runLedger(environment.deps)
        if (await isFrozen(DAMAGED) !== null) await trust()
        const about = `killed at step ${kills}`
        expect(await isFrozen(DAMAGED), about).toBe(null)
        expect(await damaged.wallet.balance(DAMAGED), about).toEqual(resolved)
        const ids = (await entriesOf(environment, DAMAGED)).map(({ entryId }) => entryId)
        expect(ids.toSorted(), about).toEqual([...new Set(ids)].toSorted())
      }
      await expectResolved(resolved)
      expect(kills).toBeGreaterThan(25)
    })
})

it('a ledger killed while it resolves a contradiction is followed by another', async () => {
  await writeElsewhere(topUpElsewhere)
  await shipped(() => topUps(2, 3))
  await writeElsewhere({ ...topUpElsewhere, entryId: 'topup:later' }, 8)
  const emit: LedgerDeps['emitter']['emit'] = async emits => {
    await environment.emitter.emit(emits.slice(0, 1))
    throw new Killed()
  }
  await expect(trust({ ...environment.deps, emitter: { emit } })).rejects.toThrow(Killed)
  await runLedger(environment.deps)
  await expectResolved({ ...balances, availableMicros: 8_475, fundedMicros: 11_075, seq: 10 })
})
