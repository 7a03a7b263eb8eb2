import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { FENCE_KEY } from '../../services/money/redis-keys.ts'
import { moneyKeys, RECOUNTING_KEY } from '../../services/money/redis-keys.ts'
import { type Balance, createWallet } from '../../services/money/wallet.ts'
import { runAudit } from '../support/audit.ts'
import { withStores, withWorkspace, type WorkspaceDeps } from '../../services/admin/deps.ts'
import { eraseJobs } from '../../services/admin/erasure.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { emptyFolder } from '../support/folder.ts'
import { kill, startRecovering, until, type Recovering } from '../support/recovery/recovering.ts'
import { parseCsv } from '../support/stacks/environment.ts'
import { commandOn } from '../support/admin.ts'

const adjust = commandOn('adjust')
const thaw = commandOn('thaw')

/** Enough for several chunks in the lane of big jobs. */
const ROWS = 3_000

let environment: Recovering
const APART = ['lookup', 'settle', 'ledger']
beforeAll(async () => { environment = await startRecovering(undefined, {}, APART) })
afterAll(async () => { await environment?.close() })

const balance = () => createWallet(environment.redis).balance(environment.tenant)
const workspace = <T>(work: (parts: WorkspaceDeps) => Promise<T>) =>
  withWorkspace(environment.env, work)

/** A key that is revoked, once the topic of accounts has that, and as far as `between` says. */
async function revokedKey (between: () => Promise<unknown> = async () => {}): Promise<string> {
  const { orgId } = environment.demo
  return await workspace(async ({ apiKeys, accounts }) => {
    const { id, secret } = await apiKeys.create({ orgId, mode: 'live', scopes: ['jobs:read'] })
    await accounts.areShipped()
    await between()
    await apiKeys.revoke(orgId, id)
    expect(await accounts.areShipped()).toBe(true)
    return secret
  })
}

const expectRevoked = async (secret: string) =>
  await expect(environment.client({ apiKey: secret, retries: 0 }).balance()).rejects
    .toMatchObject({ status: 401, code: 'revoked_key' })

async function startJob (key: string): Promise<string> {
  const inputs = mixedPhones(ROWS, 0)
  const request = { service: 'phone-validation', inputs, forceFresh: true } as const
  return (await environment.client().createJob(request, key)).id
}

async function checkWhole (id: string): Promise<void> {
  const job = await environment.client().waitForEnd(id)
  expect(job.status).toBe('completed')
  expect(job.successRecords + job.failedRecords).toBe(ROWS)
  expect(parseCsv(await environment.client().results(id)).map(row => row['row']))
    .toEqual(Array.from({ length: ROWS }, (_, row) => String(row + 1)))
}

async function checkAll (): Promise<Balance> {
  await environment.shipped()
  const { breaches } = await runAudit(environment.env, { only: [environment.tenant] })
  expect(breaches).toEqual([])
  return await balance()
}

/** Erases a job that ended, on demand, and does not wait for the brokers to compact. */
async function eraseNow (job: string): Promise<void> {
  const { env, tenant } = environment
  await withStores(env, stores => eraseJobs(stores, { tenant, jobs: [job], waitMs: 0 }))
}

/** Whether Redis has the data key of a job. */
async function hasDataKey (job: string): Promise<boolean> {
  return await environment.redis.exists(jobRedisKeys(environment.tenant, job).dataKey) === 1
}

describe('the state Redis', () => {
  it('killed in the middle of a job is unlocked again, and the job completes', async () => {
    const id = await startJob('0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a01')
    await environment.restart()
    await environment.unlocked()
    await checkWhole(id)
    await checkAll()
  })

  it('without its files is rebuilt from Kafka to the micro, and running jobs end', async () => {
    const key = '0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a02'
    const ended = await startJob('0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a03')
    await checkWhole(ended)
    // A top-up that was not shipped would be lost; the end of a job happens again.
    await environment.shipped()
    const id = await startJob(key)
    const store = createJobStore(environment.redis)
    await until('some rows', async () =>
      (await store.read(environment.tenant, id))!.counts.finishedRows > 0)
    const revoked = await revokedKey()
    // No money moves from here on, so that the state before is known.
    await environment.services.setScale({ lookup: 0, settle: 0, ledger: 0 })
    const before = await balance()
    await environment.restart(emptyFolder)
    // What is there says that a process lives, and which root keys it has.
    const isState = (key: string) => !/^(alive|processes):/.test(key)
    expect((await environment.redis.keys('*')).filter(isState)).toEqual([])
    await environment.services.setScale({})
    await environment.unlocked()
    await expectRevoked(revoked)
    expect(before.seq).toBeGreaterThan(0)
    expect(await startJob(key)).toBe(id)
    await checkWhole(id)
    const after = await checkAll()
    expect(after.fundedMicros).toBe(before.fundedMicros)
    const { chargedMicros } = await environment.client().job(id)
    const settledBefore = before.reservedMicros === 0
    expect(after.chargedMicros)
      .toBe(before.chargedMicros + (settledBefore ? 0 : chargedMicros))
    // A repeated old request gets its old job.
    expect(await startJob('0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a03')).toBe(ended)
  })

  it('with an old file is recovered from the journal; erased and revoked stay so', async () => {
    const erased = await startJob('0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a06')
    await checkWhole(erased)
    await checkAll()
    expect(await hasDataKey(erased)).toBe(true)
    const old = join(environment.folder, 'old')
    const revoked = await revokedKey(async () => {
      await environment.restart(files => cpSync(files, old, { recursive: true }))
      await environment.unlocked()
    })
    const running = await startJob('0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a04')
    await checkWhole(running)
    await eraseNow(erased)
    expect(await hasDataKey(erased)).toBe(false)
    const before = await checkAll()
    await environment.restart(files => {
      emptyFolder(files)
      cpSync(old, files, { recursive: true })
    })
    await environment.unlocked()
    expect(await balance()).toEqual(before)
    await expectRevoked(revoked)
    expect(await hasDataKey(erased)).toBe(false)
    await expect(environment.client().results(erased)).rejects
      .toMatchObject({ status: 410, code: 'results_erased' })
    await checkWhole(running)
    await until('nothing to be counted again', async () =>
      await environment.redis.exists(RECOUNTING_KEY) === 0)
    expect(await checkAll()).toEqual(before)
  })
})

it('a ledger that crashes in the middle of a recovery ' +
  'is replaced by one that completes it', async () => {
  const id = await startJob('0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a05')
  await environment.shipped()
  await environment.restart(emptyFolder)
  let fence: string | null = null
  for (let kills = 0; kills < 3; kills += 1) {
    // It compares as soon as it leads, and again after a second, before it unlocks a tenant.
    fence = await until('a ledger that leads', async () => {
      const found = await environment.redis.get(FENCE_KEY)
      return found !== null && found !== fence && found
    })
    const { pid } = environment.services.list().find(({ name }) => name === 'ledger-1') ?? {}
    if (pid !== undefined) kill(pid)
  }
  await environment.unlocked()
  await checkWhole(id)
  await checkAll()
})

it('a tenant whose money cannot be explained ' +
  'alone is frozen, can still read, and is thawed by operators', async () => {
  const other = await environment.anotherDemo()
  const request = { service: 'phone-validation', inputs: ['+12127365000'] } as const
  await environment.redis.hincrby(moneyKeys(environment.tenant).wallet, 'available', 5)
  await until('a frozen tenant', async () =>
    await environment.redis.hexists(moneyKeys(environment.tenant).wallet, 'frozen') === 1)
  await expect(environment.client({ retries: 0 }).createJob(request)).rejects
    .toMatchObject({ status: 503, code: 'wallet_unavailable' })
  expect((await environment.client().balance()).availableMicros).toBeGreaterThan(0)
  const neighbour = environment.client({ apiKey: other.keys.live })
  const { id } = await neighbour.createJob(request)
  expect((await neighbour.waitForEnd(id)).status).toBe('completed')

  const of = { org: environment.demo.orgId, mode: 'live' }
  const still = await workspace(parts => thaw(parts, of))
  expect(still).toMatchObject({ state: 'frozen' })
  const credit = { ...of, micros: '7', reason: 'goodwill after a fault' }
  await expect(workspace(parts => adjust(parts, credit))).rejects.toThrow('frozen')
  const thawed = await workspace(parts =>
    thaw(parts, { ...of, trust: 'journal' }))
  expect(thawed).toMatchObject({ state: 'thawed' })
  expect(await workspace(parts => thaw(parts, of))).toMatchObject({ state: 'not_frozen' })
  expect(await workspace(parts => thaw(parts, { ...of, trust: 'journal' })))
    .toMatchObject({ state: 'thawed' })
  expect(await workspace(parts => adjust(parts, credit)))
    .toMatchObject({ posting: 'posted', amountMicros: 7 })
  const again = await environment.client().createJob(request)
  expect((await environment.client().waitForEnd(again.id)).status).toBe('completed')
  await checkAll()
})
