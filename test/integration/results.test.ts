import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { provision } from '../../deploy/provision.ts'
import type { Decision, Incoming } from '../../services/runtime/engine/stage.ts'
import { archiveEnded, createRepositories } from '../../services/jobs/results/finish-job.ts'
import { blockDigest, createSharedBlockReads } from '../../services/jobs/results/result-blocks.ts'
import { SettleStage } from '../../services/settle/main.ts'
import { audit, readSettledState } from '../../services/admin/audit/audit.ts'
import { runAudit } from '../../services/admin/audit/run.ts'
import { taggedTenant } from '../../services/money/redis-keys.ts'
import { unseenByLedger } from '../support/audit.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { parseCsv } from '../support/stacks/environment.ts'
import { createSettledJobs, inputsOf as inputs } from '../support/recovery/settled-jobs.ts'
import { emitted } from '../support/stage-messages.ts'

const all = connectAll()
const {
  archive, blocks, clickhouse, connected, env, journal, outbox, redis, results, store, wallet,
} = all
const { settle, csvOf, copy, end: endJob, start: startJob } = createSettledJobs(all)
const auditOf = (tenant: string) =>
  audit({ redis, journal, archive, results }, { waitMs: 0, only: [tenant] })

it('provision may run again', async () => {
  const said: string[] = []
  await provision(env, line => said.push(line))
  expect(said.toSorted()).toEqual([
    expect.stringMatching(/^ACLs: .* no authorizer/),
    expect.stringMatching(/^schemas: \d+ subjects registered$/),
    'tables: 0 migrations applied',
    expect.stringMatching(/^topics: 0 created, \d+ were there$/),
  ])
})

describe('a job from its blocks to its end', () => {
  let job: string
  let tenant: string
  let messages: readonly Incoming<'rows.completed'>[]
  beforeAll(async () => {
    const started = await startJob()
    job = started.job
    tenant = started.tenant
    messages = started.messages
    const [first, ...rest] = started.messages
    await settle.decide([first!, first!, ...rest.slice(0, 2)])
    const decisions = await settle.decide([rest[2]!, rest[0]!]) as Decision<'settle'>[]
    expect(emitted(decisions, 'jobs.settled').map(({ value }) => value.status))
      .toEqual(['completed'])
    const settled = emitted(decisions, 'wallet.journal').map(({ value }) => value)
    const entries = await outbox.pending(tenant)
    expect(settled.map(({ type, seq }) => [type, seq])).toEqual([['settle', 3]])
    const shipped = entries.filter(({ seq }) => seq < 3)
    await copy(shipped)
    await outbox.remove(tenant, shipped)
    await decisions[0]?.afterProduced?.()
    await copy(settled)
  })

  it('is stored with its counts and charges, and closed', async () => {
    const found = await archive.find(tenant, job)
    expect(found?.job).toMatchObject({
      status: 'completed', closed: true, chargedMicros: 10_000, releasedMicros: 2_000,
    })
    expect(found?.job.counts)
      .toMatchObject({ freshRecords: 5, successRecords: 6, failedRecords: 2 })
    expect((await store.read(tenant, job))?.closed).toBe(true)
    expect((await archive.list(tenant, { limit: 10 })).map(({ id }) => id)).toEqual([job])
    expect(await archive.list(tenant, { limit: 10, status: 'failed' })).toEqual([])
    expect(await archive.find(tenant, 'job_other')).toBeUndefined()
    const both = await archive.findAll([tenant], [job, 'job_other'])
    expect([...both]).toEqual([[job, found?.job]])
  })

  it('has a result file with every row once', async () => {
    const rows = parseCsv(await csvOf(tenant, job))
    const names = ['row', 'carrier', 'source', 'duplicate_of']
    expect(rows.map(row => names.map(name => row[name]))).toEqual([
      ['1', 'a', 'live', ''], ['2', 'b', 'live', ''], ['3', 'c', 'live', ''],
      ['4', '', 'preflight', ''], ['5', 'd', 'live', ''], ['6', 'b', 'duplicate', '2'],
      ['7', 'e', 'live', ''], ['8', 'f', 'none', ''],
    ])
    expect(rows.map(row => row['input'])).toEqual([...inputs(0), ...inputs(1)])
  })

  it('is stored once when the insert of its blocks and record is repeated', async () => {
    const { saveBlocksAndRecords } = createRepositories(connected)
    // An id beyond the largest ULID is in no list, so the audits below do not find this job.
    const value = { ...messages[0]!.value, job: `job_z${randomUUID()}` }
    const archived = (await archive.find(tenant, job))!
    const again = { ...archived, job: { ...archived.job, id: value.job } }
    for (let time = 0; time < 2; time++) {
      await saveBlocksAndRecords([{ block: value }, { archived: again }])
    }
    const rows = (table: string) => clickhouse.rows(
      `SELECT count() AS rows FROM ${table} WHERE job = {job:String}`, { job: value.job })
    expect([await rows('result_blocks'), await rows('jobs')])
      .toEqual([[{ rows: 1 }], [{ rows: 1 }]])
    expect((await archive.find(tenant, value.job))?.job.id).toBe(value.job)
  })

  it('is stored beside a record that ClickHouse refuses, which is named', async () => {
    const { saveBlocksAndRecords } = createRepositories(connected)
    const { job: found, manifest } = (await archive.find(tenant, job))!
    const [bad, good] = [`job_z${randomUUID()}`, `job_z${randomUUID()}`]
    // The table takes no record that is too large to be read.
    const verdicts = { ['x'.repeat(16_000_000)]: 1 }
    const saving = saveBlocksAndRecords([
      { block: { ...messages[0]!.value, job: good } },
      { archived: { job: { ...found, id: bad, verdicts }, manifest } },
      { archived: { job: { ...found, id: good }, manifest } },
    ])
    await expect(saving).rejects.toMatchObject({ rows: new Set([1]) })
    expect((await archive.find(tenant, good))?.job.id).toBe(good)
    expect(await archive.find(tenant, bad)).toBeUndefined()
    const wanted = [blockDigest(messages[0]!.value)]
    expect(await blocks.digests(tenant, good, wanted)).toEqual(new Set(wanted))
  })

  it('changes nothing when its blocks come again', async () => {
    const before = await csvOf(tenant, job)
    const balance = await wallet.balance(tenant)
    const [decision] = await settle.decide(messages) as Decision<'settle'>[]
    expect([decision?.emits, decision?.completes]).toEqual([[], messages])
    await decision?.afterProduced?.()
    const digests = (await archive.find(tenant, job))?.manifest.map(({ digest }) => digest) ?? []
    const stored = await blocks.read({ tenant, job, firstChunk: 0, lastChunk: 1, digests })
    expect(stored.map(({ digest }) => digest).toSorted()).toEqual(digests.toSorted())
    expect(await csvOf(tenant, job)).toBe(before)
    expect(await wallet.balance(tenant)).toEqual(balance)
  })

  it('passes the audit, which names what was tampered with', async () => {
    const report = await runAudit(env, { waitMs: 0, only: [tenant] })
    expect(report.breaches).toEqual([])
    expect(report.tenants).toEqual([{
      tenant,
      availableMicros: 990_000,
      reservedMicros: 0,
      chargedMicros: 10_000,
      fundedMicros: 1_000_000,
      entries: 3,
      openJobs: 0,
      closedJobs: 1,
      rows: 8,
      breaches: 0,
    }])
    const { ok, breaches } = await unseenByLedger(redis, [tenant], async () => {
      await redis.hincrby(`w:${taggedTenant(tenant)}`, 'available', 5)
      const audited = await auditOf(tenant)
      await redis.hincrby(`w:${taggedTenant(tenant)}`, 'available', -5)
      return audited
    })
    expect(ok).toBe(false)
    expect(breaches).toEqual([
      {
        tenant,
        job: '',
        rule: 'available + reserved + charged = funded',
        detail: '990005 + 0 + 10000 is not 1000000',
      },
      {
        tenant,
        job: '',
        rule: 'the journal adds up to the balances',
        detail: 'availableMicros is 990005, but the journal adds up to 990000',
      },
    ])
  })

  it('leaves nothing behind in Redis but balances', async () => {
    const { state: { balance, outbox: left, openJobs, slots } } =
      await readSettledState({ redis, journal }, tenant, 0)
    expect([balance.seq, left, openJobs, slots]).toEqual([3, [], [], 0])
    const { entries } = await journal.read(tenant)
    expect(entries.map(({ type }) => type)).toEqual(['topup', 'reserve', 'settle'])
  })

  it('is reported by the audit when its results are lost', async () => {
    await clickhouse.command(
      'DELETE FROM result_blocks WHERE job = {job:String} AND batch = 0', { job })
    const { breaches } = await auditOf(tenant)
    const detail = `2 of 4 result blocks of job ${job} are missing in ClickHouse; restore them ` +
      'from a backup'
    expect(breaches.map(breach => [breach.job, breach.rule, breach.detail]))
      .toEqual([[job, 'results are readable', detail]])
  })
})

it('shared reads of blocks ' +
  'return the blocks of its own job to each concurrent call, by one query', async () => {
  const jobs = [await startJob(), await startJob()]
  await blocks.insert(jobs.flatMap(({ messages }) => messages.map(({ value }) => value)))
  const queries = vi.spyOn(clickhouse, 'rows')
  const shared = createSharedBlockReads(clickhouse)
  const all = jobs.flatMap(({ messages }) => messages.map(({ value }) => blockDigest(value)))
  const wanted = jobs.map(({ tenant, job }) =>
    ({ tenant, job, firstChunk: 1, lastChunk: 1, digests: all }))
  const found = await Promise.all(wanted.map(one => shared.read(one)))
  const stored = await Promise.all(jobs.map(({ tenant, job }) =>
    shared.digests(tenant, job, all)))
  expect(queries).toHaveBeenCalledTimes(2)
  queries.mockRestore()
  for (const [index, { messages }] of jobs.entries()) {
    const own = messages.map(({ value }) => blockDigest(value))
    expect([...stored[index] ?? []].toSorted()).toEqual(own.toSorted())
    expect(found[index]?.map(({ digest }) => digest).toSorted())
      .toEqual([own[1], own[3]].toSorted())
    expect(found[index]).toEqual(expect.arrayContaining([...await blocks.read(wanted[index]!)]))
  }
  await Promise.all(jobs.map(({ messages }) => endJob(messages)))
  const open = await Promise.all(jobs.map(({ tenant }) => store.openJobs(tenant)))
  expect(open).toEqual([[], []])
})

it('a job whose blocks are counted, and die with the process before they are stored ' +
  'is stored and closed from the blocks that Redis keeps, even if they never come again',
async () => {
  const repositories = createRepositories(connected)
  // Time stands still, so that all but the first job wait to be stored.
  const stopped = new SettleStage({
    ...repositories, ...connected, clock: { now: () => 0 }, batch: 10, batchBytes: 100_000,
  })
  const [first, second] = [await startJob(), await startJob()]
  const [stored] = await stopped.decide(first.messages) as Decision<'settle'>[]
  await stored?.afterProduced?.()
  expect(stored?.completes).toEqual(first.messages)
  expect(await stopped.decide(second.messages)).toEqual([])
  stopped.forget()
  const { tenant, job } = second
  const ended = await store.read(tenant, job)
  expect([ended?.ended, ended?.closed, await archive.find(tenant, job)])
    .toEqual([true, false, undefined])
  const finishing = await archiveEnded(repositories, { job: ended!, entry: undefined })
  await finishing?.close()
  const { inlineResults } = await store.readWithManifest(tenant, job) ?? {}
  expect([inlineResults, (await store.read(tenant, job))?.closed]).toEqual(['', true])
  expect(await store.openJobs(first.tenant)).toEqual([])
  expect(await store.openJobs(tenant)).toEqual([])
  const rows = parseCsv(await csvOf(tenant, job))
  expect(rows.map(row => row['carrier'])).toEqual(['a', 'b', 'c', '', 'd', 'b', 'e', 'f'])
  expect(rows.map(row => row['input'])).toEqual([...inputs(0), ...inputs(1)])
})
