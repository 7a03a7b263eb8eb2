import { describe, expect, it } from 'vitest'
import type { Journal } from '../../schemas/types.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { organizationKeysKey } from '../support/keys/organization-keys.ts'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'
import { auditIncrementally } from '../../services/admin/audit/incremental.ts'
import { audit } from '../../services/admin/audit/audit.ts'
import { createKafkaJournal } from '../../services/admin/audit/journals.ts'
import { runAudit, unseenByLedger } from '../support/audit.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { endedJob } from '../support/clickhouse/results.ts'
import { messageKeysOf } from '../support/keys/signed.ts'
import { entryOf } from '../support/stage-messages.ts'
import { runJob, startEnvironment } from '../support/stacks/environment.ts'

const { env, brokers, codec, state, clickhouse, connected, ...parts } = connectAll()
const kafka = createKafkaJournal({
  KAFKA_BROKERS: brokers, ...messageKeysOf(env),
} as Parameters<typeof createKafkaJournal>[0], codec)

const environment = closeAfterAll(await startEnvironment())
const tenant = tenantOf(environment.orgId, 'live')
const tenants = [tenant, tenantOf(environment.orgId, 'test')]

const run = (...inputs: readonly string[]) =>
  runJob(environment.live, { service: 'phone-validation', inputs })

type Positions = Awaited<ReturnType<typeof auditIncrementally>>['proven']

/** Audits the tenant from a position; returns the report, and where the next audit continues. */
async function auditFrom (from: Positions = new Map(), waitMs = 240_000) {
  const said: string[] = []
  const { report, proven } = await auditIncrementally({ ...parts, redis: state, kafka }, {
    only: [tenant], waitMs, from, onProgress: line => said.push(line),
  })
  const { breaches, tenants: [one] } = report
  return { breaches, read: [one?.entries, one?.closedJobs, one?.rows], next: proven, said }
}

describe('what ClickHouse counts for an audit', () => {
  const other = 'org_counted.live'
  const job = endedJob({ id: 'job_counted', tenant: other, endedAtMs: Date.now() - 1_000 }, 7)
  const entry = (change: Partial<Journal>) => ({ ...entryOf(other, job), ...change })

  it('are ids of several entries, jobs that have no end, and rows', async () => {
    const { counts } = parts
    const found = async () =>
      [await counts.sharedIds(other), await counts.jobsWithoutEnd(other, Date.now())]
    const sinceMs = Date.now() - 60_000
    const before = await counts.rowsSince(sinceMs)
    expect(await found()).toEqual([0, 0])
    await parts.archive.save([{ job, manifest: [] }])
    await parts.journal.append([entry({ seq: 1 }), entry({ seq: 2, entryId: 'another' })])
    expect(await found()).toEqual([0, 1])
    expect(await counts.jobsWithoutEnd(other, sinceMs)).toBe(0)
    expect(await counts.rowsSince(sinceMs)).toBeGreaterThanOrEqual(before + 7)
    await parts.journal.append([entry({ seq: 3, type: 'settle' })])
    expect(await found()).toEqual([1, 0])
  })
})

describe('an incremental audit', () => {
  it('reads new data, and all data of a tenant with a breach', async () => {
    await run('+12127365001', '+12127365002')
    const first = await auditFrom()
    expect([first.breaches, first.read]).toEqual([[], [3, 1, 2]])
    // While the copy of the journal is behind, lines about the progress follow.
    expect(first.said[0]).toMatch(/^reading 3 journal entries and about \d+ result rows of 1 /)
    const second = await auditFrom(first.next)
    expect([second.breaches, second.read]).toEqual([[], [3, 0, 0]])
    expect(second.next.get(tenant)).toMatchObject({ seq: 3 })

    await run('+12127365003')
    const third = await auditFrom(second.next)
    expect([third.breaches, third.read]).toEqual([[], [5, 1, 1]])
    expect(third.next.get(tenant)).toEqual({
      ...(await auditFrom()).next.get(tenant), at: expect.any(Number),
    })
    expect(third.next.get(tenant)?.at).toBeGreaterThan(second.next.get(tenant)?.at ?? Infinity)

    const { wallet } = moneyKeys(tenant)
    const broken = await unseenByLedger(state, tenants, async () => {
      await state.hincrby(wallet, 'available', 1)
      const audited = await auditFrom(third.next, 1_000)
      await state.hincrby(wallet, 'available', -1)
      return audited
    })
    expect(broken.breaches.map(({ rule }) => rule)).toEqual([
      'available + reserved + charged = funded', 'the journal adds up to the balances',
    ])
    expect([broken.read, broken.next.size]).toEqual([[5, 2, 3], 0])
    expect(broken.said.at(-1)).toContain('reading all data of 1 of 1 tenants')
  })

  it('reads everything from a position of another journal', async () => {
    const { next } = await auditFrom()
    const proven = next.get(tenant)!
    const { before } = proven
    const others = [{ hash: before.hash }, { seq: 6 }, { seq: 4 }, { before: proven }]
    for (const other of others) {
      const { breaches, read } = await auditFrom(new Map([[tenant, { ...proven, ...other }]]))
      expect([other, breaches, read]).toEqual([other, [], [5, 2, 3]])
    }
  })

  it('finds an old entry deleted from the copy by its missing number', async () => {
    const { next } = await auditFrom()
    const query = 'SELECT * EXCEPT header FROM journal WHERE tenant = {tenant:String} AND seq = 1'
    const [row = {}] = await clickhouse.rows<Record<string, unknown>>(query, { tenant })
    await clickhouse.command('ALTER TABLE journal DELETE WHERE tenant = {tenant:String} ' +
      'AND seq = 1 SETTINGS mutations_sync = 2', { tenant })
    const { breaches } = await auditFrom(next, 1_000)
    // No other file on this stack shall find it missing.
    await clickhouse.insert({ table: 'journal', values: [row] })
    expect(breaches.map(({ rule }) => rule)).toContain('every movement is in the journal')
    expect((await auditFrom(next)).read).toEqual([5, 0, 0])
  })
})

describe('an audit without a key that opens results', () => {
  const breachesOf = async (more: object = {}) => {
    const { breaches } = await runAudit({ ...env, ...more }, { only: [tenant] })
    expect(breaches.map(({ job, rule }) => [job, rule])).toEqual([['', 'results are readable']])
    return breaches[0]?.detail
  }

  it('reports a missing root key once', async () => {
    const RESULTS_ROOT_KEYS = JSON.stringify({ other: Buffer.alloc(32, 9).toString('base64') })
    expect(await breachesOf({ RESULTS_ROOT_KEYS, RESULTS_ROOT_KEY_ACTIVE: 'other' }))
      .toMatch(/^results of job_\w+, job_\w+ cannot be checked: RESULTS_ROOT_KEYS lacks key "/)
  })

  it('reports the missing key of the organization once, and creates none', async () => {
    const stored = organizationKeysKey(environment.orgId)
    const [detail, created] = await unseenByLedger(state, tenants, async () => {
      const fields = await state.hgetall(stored)
      await state.del(stored)
      const found = [await breachesOf(), await state.exists(stored)]
      await state.hset(stored, fields)
      return found
    })
    expect([detail, created]).toEqual([expect.stringMatching(new RegExp('^results of job_\\w+, ' +
      `job_\\w+ cannot be checked: organization ${environment.orgId} has no key "results": ` +
      'ledger restores it from topic organization.keys within a minute')), 0])
    expect((await runAudit(env, { only: [tenant] })).breaches).toEqual([])
  })
})

it('an audit while jobs are posted without a pause ' +
  'finds no breach, neither in new data nor in all data', async () => {
  let posted = 0
  const done = new AbortController()
  const load = async () => {
    while (!done.signal.aborted) {
      await environment.live.createJob({ service: 'phone-validation', inputs: ['+12127365001'] })
      posted += 1
    }
  }
  const loads = [load(), load(), load()]
  try {
    const { breaches, said } = await auditFrom()
    expect([breaches, said.filter(line => line.includes('reading all data'))]).toEqual([[], []])
    const before = posted
    const complete = await audit({ ...parts, redis: state, kafka }, { only: [tenant] })
    expect(complete.breaches).toEqual([])
    expect(posted).toBeGreaterThan(before)
  } finally {
    done.abort()
    await Promise.all(loads)
  }
})
