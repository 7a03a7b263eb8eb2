import type { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import type { RedisClient } from '../../services/runtime/platform/redis.ts'
import {
  type HostMemory, type Party, redisHostMemory, type SessionReport,
} from '../../services/verify/mailboxes/memory.ts'
import type { OwnerPolicy } from '../../services/verify/mailboxes/policies.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis, connect, stop } = await startRedis()
const LEASE_MS = 60_000
const HOUR_MS = 3_600_000
/** The beginning of an hour. */
const START_MS = 500_000 * HOUR_MS
let nowMs = START_MS

/** The clock of all scripts, in place of Redis TIME. */
async function setClock (ms: number): Promise<void> {
  nowMs = ms
  await redis.multi().del('clock')
    .rpush('clock', Math.floor(ms / 1_000), ms % 1_000 * 1_000).exec()
}

/** A connection whose scripts go by the clock of the test. */
function clocked (connection: Redis): RedisClient {
  return new Proxy(connection, {
    get (target, name) {
      if (name === 'time') return () => target.lrange('clock', 0, 1)
      if (name !== 'call') return Reflect.get(target, name).bind?.(target)
      return async (command: string, text: string, ...args: string[]) => {
        if (command === 'EVALSHA') throw new Error('NOSCRIPT')
        const source = text.replaceAll("redis.call('TIME')", "redis.call('LRANGE', 'clock', 0, 1)")
        return await target.call(command, source, ...args)
      }
    },
  })
}

const onFault = (error: unknown) => { throw error }
const memoryOf = (connection: Redis = redis) =>
  redisHostMemory(clocked(connection), { leaseMs: LEASE_MS, onFault })

/** The server of an exchange that has an address of its own. */
const server = (name: string) => ({ name, id: `${name}'s` })

let parties = 0
/** A party that no other test has. */
function newParty (changes: Partial<OwnerPolicy> = {}): Party {
  parties += 1
  const policy = {
    owner: `owner-${parties}`,
    exchanges: [],
    domains: [],
    sessions: 1_000,
    sessionsAMinute: 1_000_000,
    recipientsAMinute: { first: 60, least: 6, most: 60 },
    recipientsASession: 50,
    ...changes,
  }
  return { policy, egress: 'one' }
}

const wide = { recipientsAMinute: { first: 6_000, least: 10, most: 6_000 } }
const report = (changes: Partial<SessionReport> = {}): SessionReport =>
  ({ unused: 0, asked: 0, verdicts: 0, blocked: 0, ending: 'well', ...changes })

/** A session that must be granted. */
async function granted (memory: HostMemory, party: Party, wanted = 1) {
  const grant = await memory.begin(party, wanted)
  if ('why' in grant) throw new Error(`refused: ${grant.why} for ${grant.waitMs} ms`)
  return grant
}

async function rateOf (memory: HostMemory, { policy }: Party): Promise<number | undefined> {
  return (await memory.owners()).find(({ owner }) => owner === policy.owner)?.rate
}

type Taken = { readonly atMs: number, readonly count: number }

/** The most within any minute. */
function mostInAMinute (taken: readonly Taken[]): number {
  return Math.max(...taken.map(({ atMs }) => taken
    .filter(other => other.atMs >= atMs && other.atMs < atMs + 60_000)
    .reduce((sum, { count }) => sum + count, 0)))
}

/** What so many processes take in ten minutes, each of which asks for as much as it can. */
async function takeAll (processes: number, party: Party) {
  const memories = Array.from({ length: processes }, () => memoryOf(connect()))
  const recipients: Taken[] = []
  const starts: Taken[] = []
  await setClock(nowMs + HOUR_MS)
  const endMs = nowMs + 600_000
  for (; nowMs < endMs; await setClock(nowMs + 1_000)) {
    await Promise.all(memories.map(async memory => {
      const grant = await memory.begin(party, 20)
      if ('why' in grant) return
      const more = await memory.more(party, grant.session, 20)
      recipients.push({ atMs: nowMs, count: grant.recipients + (more?.recipients ?? 0) })
      starts.push({ atMs: nowMs, count: 1 })
      await memory.end(party, grant.session, report())
    }))
  }
  const total = recipients.reduce((sum, { count }) => sum + count, 0)
  return { total, aMinute: mostInAMinute(recipients), startsAMinute: mostInAMinute(starts) }
}

describe('the recipients of an owner', () => {
  it.each([1, 10])('are within the rate in each minute, for %i processes', async processes => {
    const { total, aMinute } = await takeAll(processes, newParty())
    expect(aMinute).toBeLessThanOrEqual(60)
    // A full bucket, and then five sixths of the rate: that is what the bound on each minute costs.
    expect(total).toBeGreaterThanOrEqual(500)
  })

  it.each([1, 10])('are within the least rate too, for %i processes', async processes => {
    const party = newParty({ recipientsAMinute: { first: 2, least: 2, most: 2 } })
    const { total, aMinute } = await takeAll(processes, party)
    expect([total, aMinute <= 2]).toEqual([10, true])
  })

  it.each([1, 10])('come by few sessions a minute, for %i processes', async processes => {
    const { startsAMinute } = await takeAll(processes, newParty({ ...wide, sessionsAMinute: 12 }))
    expect(startsAMinute).toBeGreaterThan(8)
    expect(startsAMinute).toBeLessThanOrEqual(12)
  })

  it('are within the rate although a session gives some back late', async () => {
    const [memory, party] = [memoryOf(), newParty()]
    const late = await granted(memory, party, 20)
    await setClock(nowMs + 30_000)
    const taken: Taken[] = []
    const { session, recipients } = await granted(memory, party, 20)
    taken.push({ atMs: nowMs, count: recipients })
    await memory.end(party, late.session, report({ unused: late.recipients }))
    for (let second = 0; second < 60; second++) {
      const more = await memory.more(party, session, 20)
      taken.push({ atMs: nowMs, count: more?.recipients ?? 0 })
      await setClock(nowMs + 1_000)
    }
    expect(mostInAMinute(taken)).toBe(59)
  })

  it('are had again at once if they were not asked', async () => {
    const [memory, party] = [memoryOf(), newParty()]
    const { session, recipients } = await granted(memory, party, 20)
    expect(recipients).toBe(10)
    expect(await memory.begin(party, 1)).toEqual({ why: 'rate', waitMs: 1_200 })
    await memory.end(party, session, report({ unused: 4 }))
    expect((await granted(memory, party, 20)).recipients).toBe(4)
  })

  it('come after the wait that is named, not before', async () => {
    const [memory, party] = [memoryOf(), newParty()]
    const { session } = await granted(memory, party, 20)
    expect(await memory.more(party, session, 5)).toEqual({ recipients: 0, waitMs: 1_200 })
    await setClock(nowMs + 1_198)
    expect(await memory.more(party, session, 5)).toMatchObject({ recipients: 0 })
    await setClock(nowMs + 3)
    expect(await memory.more(party, session, 5)).toMatchObject({ recipients: 1 })
  })
})

describe('a clock that is set back', () => {
  it('neither fills nor delays', async () => {
    const [memory, party] = [memoryOf(), newParty()]
    const { session } = await granted(memory, party, 5)
    await setClock(nowMs - HOUR_MS)
    expect(await memory.more(party, session, 20)).toMatchObject({ recipients: 5 })
    expect(await memory.more(party, session, 20)).toMatchObject({ recipients: 0, waitMs: 1_200 })
    await setClock(nowMs + 12_001)
    expect(await memory.more(party, session, 20)).toMatchObject({ recipients: 10 })
    await setClock(nowMs + HOUR_MS)
  })

  it('fills from then on, although nobody could take anything', async () => {
    const [memory, party] = [memoryOf(), newParty()]
    const { session } = await granted(memory, party, 10)
    await memory.end(party, session, report())
    await setClock(nowMs - HOUR_MS)
    expect(await memory.begin(party, 1)).toEqual({ why: 'rate', waitMs: 1_200 })
    await setClock(nowMs + 1_200)
    expect(await granted(memory, party)).toMatchObject({ recipients: 1 })
    await setClock(nowMs + HOUR_MS)
  })

  it('leaves rests as long as they were', async () => {
    const [memory, party] = [memoryOf(), newParty()]
    const { session } = await granted(memory, party)
    await memory.end(party, session, report({ ending: 'blocked', restMs: 60_000 }))
    await setClock(nowMs - HOUR_MS)
    expect(await memory.begin(party, 1)).toEqual({ why: 'blocked', waitMs: 60_000 })
    await setClock(nowMs + 59_999)
    expect(await memory.begin(party, 1)).toEqual({ why: 'blocked', waitMs: 1 })
    await setClock(nowMs - 60_000)
    expect(await memory.begin(party, 1)).toEqual({ why: 'blocked', waitMs: 60_000 })
    await setClock(nowMs + 60_000)
    await granted(memory, party)
    await setClock(nowMs + HOUR_MS)
  })

  it('leaves the lease of a dead process as long as it was, and a living one its own', async () => {
    const [memory, party] = [memoryOf(), newParty({ ...wide, sessions: 2 })]
    await granted(memory, party)
    const alive = await granted(memory, party)
    await setClock(nowMs - HOUR_MS)
    expect(await memory.begin(party, 1)).toMatchObject({ why: 'sessions' })
    expect(await memory.more(party, alive.session, 1)).toMatchObject({ recipients: 1 })
    await setClock(nowMs + LEASE_MS - 1)
    expect(await memory.begin(party, 1)).toEqual({ why: 'sessions', waitMs: 1 })
    expect(await memory.more(party, alive.session, 1)).toMatchObject({ recipients: 1 })
    await setClock(nowMs + 1)
    await granted(memory, party)
    expect(await memory.begin(party, 1)).toMatchObject({ why: 'sessions' })
    await setClock(nowMs + HOUR_MS)
  })
})

it('a clock that is set ahead ' +
  'grants one full bucket and as many sessions, while those before must end', async () => {
  const [memory, party] = [memoryOf(), newParty({ sessions: 1 })]
  const before = await granted(memory, party, 20)
  await setClock(nowMs + HOUR_MS)
  const after = await granted(memory, party, 20)
  expect([before.recipients, after.recipients]).toEqual([10, 10])
  expect(await memory.more(party, before.session, 1)).toBeUndefined()
  expect(await memory.begin(party, 1)).toMatchObject({ why: 'sessions' })
  await memory.end(party, before.session, report({ unused: 10 }))
  expect(await memory.more(party, after.session, 1)).toMatchObject({ recipients: 0 })
})

describe('the sessions of an owner', () => {
  it('are at most so many at a time in all processes, and end with their lease', async () => {
    const [one, other] = [memoryOf(), memoryOf(connect())]
    const party = newParty({ ...wide, sessions: 2 })
    const dead = await granted(one, party)
    await setClock(nowMs + 1_000)
    const alive = await granted(other, party)
    expect(await one.begin(party, 1)).toMatchObject({ why: 'sessions' })
    await setClock(nowMs + LEASE_MS - 1_001)
    expect(await other.more(party, alive.session, 1)).toMatchObject({ recipients: 1 })
    expect(await one.begin(party, 1)).toEqual({ why: 'sessions', waitMs: 1 })
    await setClock(nowMs + 1)
    await granted(one, party)
    // The lease of the other one was renewed.
    await setClock(nowMs + LEASE_MS - 2)
    expect(await other.more(party, alive.session, 1)).toMatchObject({ recipients: 1 })
    expect(await one.begin(party, 1)).toMatchObject({ why: 'sessions' })
    expect(await one.more(party, dead.session, 1)).toBeUndefined()
  })

  it('that ended make room, and those without a lease give nothing back', async () => {
    const [memory, party] = [memoryOf(), newParty({ sessions: 1 })]
    const first = await granted(memory, party, 20)
    await memory.end(party, first.session, report({ unused: 1 }))
    const second = await granted(memory, party, 20)
    expect(second.recipients).toBe(1)
    await memory.end(party, first.session, report({ unused: 10 }))
    expect(await memory.more(party, second.session, 20)).toMatchObject({ recipients: 0 })
  })

  it('of another egress or owner are not concerned', async () => {
    const [memory, party] = [memoryOf(), newParty({ sessions: 1 })]
    const { session } = await granted(memory, party, 20)
    await memory.end(party, session, report({ ending: 'blocked', restMs: 60_000 }))
    expect(await memory.begin(party, 1)).toMatchObject({ why: 'blocked' })
    await granted(memory, { ...party, egress: 'two' })
    await granted(memory, newParty())
  })
})

describe('the rate of an owner', () => {
  const slow = { recipientsAMinute: { first: 40, least: 30, most: 200 } }

  it('starts slowly and grows with what is asked, up to its maximum', async () => {
    const [memory, party] = [memoryOf(), newParty(slow)]
    const rates: unknown[] = []
    for (const asked of [0, 100, 100, 1_000, 1_000]) {
      const { session } = await granted(memory, party)
      await memory.end(party, session, report({ asked }))
      rates.push(await rateOf(memory, party))
    }
    expect(rates).toEqual([40, 50, 60, 160, 200])
  })

  it('falls by three tenths when a reply calls it too high, and rests for its time', async () => {
    const [memory, party] = [memoryOf(), newParty(slow)]
    const [first, second, third] = [
      await granted(memory, party), await granted(memory, party), await granted(memory, party),
    ]
    await memory.end(party, first.session, report({ asked: 600 }))
    expect(await rateOf(memory, party)).toBe(100)
    const limited = report({ ending: 'limited', restMs: 30_000, asked: 500 })
    expect(await memory.end(party, second.session, limited)).toBe(30_000)
    expect(await rateOf(memory, party)).toBe(70)
    expect(await memory.begin(party, 1)).toEqual({ why: 'limited', waitMs: 30_000 })
    // A running session must end, and what it heard at the same time counts once.
    expect(await memory.more(party, third.session, 1)).toBeUndefined()
    expect(await memory.end(party, third.session, report({ ending: 'limited', restMs: 40_000 })))
      .toBe(40_000)
    expect(await rateOf(memory, party)).toBe(70)
    await setClock(nowMs + 40_000)
    const fourth = await granted(memory, party)
    await memory.end(party, fourth.session, report({ ending: 'blocked', restMs: 1 }))
    expect(await rateOf(memory, party)).toBe(35)
    await setClock(nowMs + 1)
    const fifth = await granted(memory, party)
    await memory.end(party, fifth.session, report({ ending: 'limited', restMs: 1 }))
    expect(await rateOf(memory, party)).toBe(30)
  })

  it('grows slowly near the rate that was too high, and fast again beyond it', async () => {
    const [memory, party] = [memoryOf(), newParty(slow)]
    const grow = async (asked: number) => {
      await setClock(nowMs + 60_000)
      const { session } = await granted(memory, party)
      await memory.end(party, session, report({ asked }))
      return await rateOf(memory, party)
    }
    await grow(600)
    const { session } = await granted(memory, party)
    await memory.end(party, session, report({ ending: 'limited', restMs: 1 }))
    expect([await grow(200), await grow(20), await grow(1_000)]).toEqual([90, 92, 97])
    expect([await grow(2_800), await grow(100)]).toEqual([111, 121])
  })

  it('follows a policy whose bounds have changed', async () => {
    const [memory, party] = [memoryOf(), newParty(wide)]
    await granted(memory, party)
    const lower = { ...party.policy, recipientsAMinute: { first: 12, least: 6, most: 12 } }
    expect((await granted(memory, { ...party, policy: lower }, 100)).recipients).toBe(2)
  })
})

describe('an egress that an owner refuses', () => {
  const blocked = report({ ending: 'blocked', restMs: 600_000 })
  const blockedFor = async (memory: HostMemory, party: Party) => {
    const { session } = await granted(memory, party)
    const restMs = await memory.end(party, session, blocked)
    await setClock(nowMs + restMs)
    return restMs
  }

  it('rests twice as long each time in a row, up to two hours', async () => {
    const [memory, party] = [memoryOf(), newParty(wide)]
    const rests: number[] = []
    for (let time = 0; time < 5; time++) rests.push(await blockedFor(memory, party))
    expect(rests).toEqual([600_000, 1_200_000, 2_400_000, 4_800_000, 7_200_000])
    const { session } = await granted(memory, party)
    await memory.end(party, session, report({ asked: 1, verdicts: 1 }))
    expect(await blockedFor(memory, party)).toBe(600_000)
  })

  it('rests as after one block if its sessions are blocked at the same time', async () => {
    const [memory, party] = [memoryOf(), newParty()]
    const all = [
      await granted(memory, party), await granted(memory, party), await granted(memory, party),
    ]
    const rests: number[] = []
    for (const { session } of all) rests.push(await memory.end(party, session, blocked))
    expect(rests).toEqual([600_000, 600_000, 600_000])
    await setClock(nowMs + 600_000)
    expect(await blockedFor(memory, party)).toBe(1_200_000)
  })

  it('is refused although a session that began before has answers', async () => {
    const [memory, party] = [memoryOf(), newParty()]
    const [first, second, third] = [
      await granted(memory, party), await granted(memory, party), await granted(memory, party),
    ]
    await memory.end(party, first.session, report({ ending: 'limited', restMs: 1_000 }))
    await memory.end(party, second.session, blocked)
    await memory.end(party, third.session, report({ asked: 9, verdicts: 9 }))
    expect(await memory.begin(party, 1)).toEqual({ why: 'blocked', waitMs: 600_000 })
    await setClock(nowMs + 600_000)
    expect(await blockedFor(memory, party)).toBe(1_200_000)
  })
})

describe('what is known of an exchange', () => {
  const known = (name: string, egress = 'one') => memoryOf().exchange(server(name), egress)
  const openAt = async (exchange: string, from: number, to: number) => {
    const memory = memoryOf()
    for (let index = from; index < to; index++) {
      await memory.rememberCatchAll(exchange, `domain-${index}.org`, true)
    }
  }

  it('is nothing at first, and what sessions learnt for a day', async () => {
    const nothing =
      { limit: undefined, restMs: 0, why: undefined, acceptsAny: false, hasAccepted: false }
    expect(await known('mx.new.org')).toEqual(nothing)
    await memoryOf().note('mx.new.org', { limit: 7 })
    expect(await known('mx.new.org')).toEqual({ ...nothing, limit: 7 })
    expect(await known('mx.other.org')).toEqual(nothing)
    await redis.pexpire('mail-exchange:mx.new.org', HOUR_MS)
    await memoryOf().note('mx.new.org', { limit: 5 })
    expect(await redis.pttl('mail-exchange:mx.new.org')).toBeLessThanOrEqual(HOUR_MS)
  })

  it('includes what to say while it rests', async () => {
    await memoryOf().rest(server('mx.rests.org'), 'one', { why: 'no_answer', restMs: HOUR_MS })
    const { why, restMs = 0 } = await known('mx.rests.org') ?? {}
    expect([why, restMs > 0, restMs <= HOUR_MS]).toEqual(['no_answer', true, true])
    // The clock of Redis was set back.
    await redis.pexpire("mail-rest:mx.rests.org's one", 2 * HOUR_MS)
    expect(await known('mx.rests.org')).toMatchObject({ why: undefined, restMs: 0 })
  })

  it('is new at once for who has noted it', async () => {
    const memory = memoryOf()
    await memory.exchange(server('mx.own.org'), 'one')
    await memory.note('mx.own.org', { limit: 3 })
    expect(await memory.exchange(server('mx.own.org'), 'one')).toMatchObject({ limit: 3 })
    await memory.rest(server('mx.own.org'), 'one', { why: 'unreachable', restMs: HOUR_MS })
    expect(await memory.exchange(server('mx.own.org'), 'one')).toMatchObject({ why: 'unreachable' })
  })

  it('is that it accepts any name, once 20 domains have and none has not', async () => {
    await openAt('mx.open.org', 0, 19)
    // Domains count once.
    await openAt('mx.open.org', 0, 19)
    expect(await known('mx.open.org')).toMatchObject({ acceptsAny: false })
    await openAt('mx.open.org', 19, 20)
    expect(await known('mx.open.org')).toMatchObject({ acceptsAny: true })
    await memoryOf().rememberCatchAll('mx.open.org', 'closed.org', false)
    expect(await known('mx.open.org')).toMatchObject({ acceptsAny: false })
  })

  it('is by egress whether it has accepted a recipient, and whether it rests', async () => {
    const memory = memoryOf()
    await memory.note('mx.shut.org', { accepted: 'one' })
    await memory.rest(server('mx.shut.org'), 'two', { why: 'unreachable', restMs: HOUR_MS })
    const [one, two] = await Promise.all([known('mx.shut.org'), known('mx.shut.org', 'two')])
    expect([one?.hasAccepted, one?.why, two?.hasAccepted, two?.why])
      .toEqual([true, undefined, false, 'unreachable'])
  })

  it('is that its server rests, by whatever name that was asked', async () => {
    const [memory, id] = [memoryOf(), '192.0.2.1']
    await memory.rest({ name: 'mx.a.org', id }, 'one', { why: 'no_answer', restMs: HOUR_MS })
    const rests = [
      { name: 'mx.b.org', id }, { name: 'mx.a.org', id: '192.0.2.2' },
    ].map(async server => (await memory.exchange(server, 'one'))?.why)
    expect(await Promise.all(rests)).toEqual(['no_answer', undefined])
  })
})

it('whether a domain accepts any name ' +
  'is known for a day, by exchange, without the domain in any key', async () => {
  const memory = memoryOf()
  await memory.rememberCatchAll('mx.a.org', 'jane-doe.org', true)
  await memory.rememberCatchAll('mx.b.org', 'jane-doe.org', false)
  const other = memoryOf(connect())
  expect(await other.catchAll('mx.a.org', 'jane-doe.org')).toBe(true)
  expect(await other.catchAll('mx.b.org', 'jane-doe.org')).toBe(false)
  expect(await other.catchAll('mx.a.org', 'john-doe.org')).toBeUndefined()
  const keys = await redis.keys('*')
  expect(keys.filter(key => key.includes('doe'))).toEqual([])
  for (const key of keys.filter(name => name.startsWith('mail-catch-all:'))) {
    const leftMs = await redis.pttl(key)
    expect([leftMs > 23 * HOUR_MS, leftMs <= 24 * HOUR_MS]).toEqual([true, true])
  }
})

it('operators see each party, with the counts of this hour and the one before', async () => {
  await setClock(Math.ceil(nowMs / HOUR_MS) * HOUR_MS)
  const [memory, party] = [memoryOf(), newParty()]
  const state = async () => (await memoryOf(connect()).owners())
    .find(({ owner }) => owner === party.policy.owner)
  await granted(memory, party)
  const { session } = await granted(memory, party)
  const counts = { asked: 9, verdicts: 5, blocked: 2 }
  await memory.end(party, session, report({ ...counts, ending: 'limited', restMs: 90_000 }))
  const shown = { owner: party.policy.owner, egress: 'one', rate: 42 }
  expect(await state()).toEqual({ ...shown, ...counts, sessions: 1, restMs: 90_000 })
  await setClock(nowMs + 90_000)
  expect(await state()).toEqual({ ...shown, ...counts, sessions: 0, restMs: 0 })
  for (const [hours, total] of [[1, 18], [1, 18], [2, 9]] as const) {
    await setClock(nowMs + hours * HOUR_MS)
    const grant = await granted(memory, party)
    await memory.end(party, grant.session, report({ asked: 9 }))
    expect(await state()).toMatchObject({ asked: total })
  }
})

it('without Redis nothing new is asked, and no call rejects but that of operators', async () => {
  const connection = connect()
  const faults: unknown[] = []
  const memory = redisHostMemory(connection, {
    leaseMs: LEASE_MS, onFault: error => { faults.push(error) },
  })
  const party = newParty()
  const { session } = await granted(memory, party)
  await stop()
  expect(await memory.begin(party, 1)).toMatchObject({ why: 'no_memory' })
  expect(await memory.more(party, session, 1)).toBeUndefined()
  expect(await memory.end(party, session, report({ ending: 'limited', restMs: 5 }))).toBe(5)
  expect(await memory.exchange(server('mx.a.org'), 'one')).toBeUndefined()
  expect(await memory.catchAll('mx.a.org', 'a.org')).toBeUndefined()
  await memory.note('mx.a.org', { limit: 1 })
  await memory.rest(server('mx.a.org'), 'one', { why: 'no_answer', restMs: 1 })
  await memory.rememberCatchAll('mx.a.org', 'a.org', true)
  expect(faults).toHaveLength(8)
  await expect(memory.owners()).rejects.toThrow()
})
