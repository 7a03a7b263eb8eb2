import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createJobStore } from '../../services/jobs/store.ts'
import { FENCE_KEY } from '../../services/ledger/redis-keys.ts'
import { moneyKeys, REPLAYING_KEY } from '../../services/money/redis-keys.ts'
import { createWallet, type Balance } from '../../services/money/wallet.ts'
import { runAudit } from '../support/audit.ts'
import { withWorkspace, type WorkspaceDeps } from '../../services/workspace/deps.ts'
import { adjust, thaw } from '../../services/workspace/tasks.ts'
import { mixedPhones } from '../bench/inputs.ts'
import {
  emptied, eraseNow, hasDataKey, kill, startRecovering, until, type Recovering,
} from '../support/recovering.ts'
import { parseCsv } from '../support/world.ts'

/** Enough for several chunks in the lane of big jobs. */
const ROWS = 3_000

let world: Recovering
beforeAll(async () => { world = await startRecovering() })
afterAll(async () => { await world?.close() })

const balance = () => createWallet(world.redis).balance(world.tenant)
const workspace = <T>(work: (parts: WorkspaceDeps) => Promise<T>) =>
  withWorkspace(world.env, work)

/** A key that is revoked, once the topic of accounts has that, and as far as `between` says. */
async function revokedKey (between: () => Promise<unknown> = async () => {}): Promise<string> {
  const { orgId } = world.demo
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
  await expect(world.client({ apiKey: secret, retries: 0 }).balance()).rejects
    .toMatchObject({ status: 401, code: 'revoked_key' })

async function startJob (key: string): Promise<string> {
  const inputs = mixedPhones(ROWS, 0)
  const request = { service: 'phone-validation', inputs, forceFresh: true } as const
  return (await world.client().createJob(request, key)).id
}

async function checkWhole (id: string): Promise<void> {
  const job = await world.client().waitForEnd(id)
  expect(job.status).toBe('completed')
  expect(job.successRecords + job.failedRecords).toBe(ROWS)
  expect(parseCsv(await world.client().results(id)).map(row => row['row']))
    .toEqual(Array.from({ length: ROWS }, (_, row) => String(row + 1)))
}

async function checkAll (): Promise<Balance> {
  await world.shipped()
  const { breaches } = await runAudit(world.env, { only: [world.tenant] })
  expect(breaches).toEqual([])
  return await balance()
}

describe('the state Redis', () => {
  it('killed in the middle of a job is let in again, and the job ends whole', async () => {
    const id = await startJob('0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a01')
    await world.restart()
    await world.letIn()
    await checkWhole(id)
    await checkAll()
  })

  it('without its files is rebuilt from Kafka to the micro, and running jobs end', async () => {
    const key = '0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a02'
    const ended = await startJob('0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a03')
    await checkWhole(ended)
    // A top-up that was not shipped would be lost; the end of a job comes about once more.
    await world.shipped()
    const id = await startJob(key)
    const store = createJobStore(world.redis)
    await until('some rows', async () =>
      (await store.read(world.tenant, id))!.counts.finishedRows > 0)
    const revoked = await revokedKey()
    // Nobody moves money from here on, so that what was there before can be told.
    await world.services.setScale({ lookup: 0, settle: 0, ledger: 0 })
    const before = await balance()
    await world.restart(emptied)
    // What is there says that a process lives.
    expect((await world.redis.keys('*')).filter(key => !key.startsWith('alive:'))).toEqual([])
    await world.services.setScale({})
    await world.letIn()
    await expectRevoked(revoked)
    expect(before.seq).toBeGreaterThan(0)
    expect(await startJob(key)).toBe(id)
    await checkWhole(id)
    const after = await checkAll()
    expect(after.fundedMicros).toBe(before.fundedMicros)
    const { chargedMicros } = await world.client().job(id)
    const settledBefore = before.reservedMicros === 0
    expect(after.chargedMicros)
      .toBe(before.chargedMicros + (settledBefore ? 0 : chargedMicros))
    // Whoever sends an old request again gets its old job.
    expect(await startJob('0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a03')).toBe(ended)
  })

  it('with an old file is brought to the journal\'s end; erased and revoked stay so', async () => {
    const erased = await startJob('0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a06')
    await checkWhole(erased)
    await checkAll()
    expect(await hasDataKey(world, erased)).toBe(true)
    const old = join(world.folder, 'old')
    const revoked = await revokedKey(async () => {
      await world.restart(files => cpSync(files, old, { recursive: true }))
      await world.letIn()
    })
    const running = await startJob('0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a04')
    await checkWhole(running)
    await eraseNow({ ...world, stack: world }, erased)
    expect(await hasDataKey(world, erased)).toBe(false)
    const before = await checkAll()
    await world.restart(files => {
      emptied(files)
      cpSync(old, files, { recursive: true })
    })
    await world.letIn()
    expect(await balance()).toEqual(before)
    await expectRevoked(revoked)
    expect(await hasDataKey(world, erased)).toBe(false)
    await expect(world.client().results(erased)).rejects
      .toMatchObject({ status: 410, code: 'results_expired' })
    await checkWhole(running)
    await until('nothing to be counted again', async () =>
      await world.redis.exists(REPLAYING_KEY) === 0)
    expect(await checkAll()).toEqual(before)
  })
})

describe('a ledger that dies in the middle of a recovery', () => {
  it('is followed by one that ends it', async () => {
    const id = await startJob('0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a05')
    await world.shipped()
    await world.restart(emptied)
    let fence: string | null = null
    for (let kills = 0; kills < 3; kills += 1) {
      // It compares as soon as it leads, and once more after a second, before it lets anybody in.
      fence = await until('a ledger that leads', async () => {
        const found = await world.redis.get(FENCE_KEY)
        return found !== null && found !== fence && found
      })
      const { pid } = world.services.list().find(({ name }) => name === 'ledger-1') ?? {}
      if (pid !== undefined) kill(pid)
    }
    await world.letIn()
    await checkWhole(id)
    await checkAll()
  })
})

describe('a tenant whose money cannot be explained', () => {
  it('is frozen alone, goes on reading, and is thawed by people', async () => {
    const other = await world.anotherDemo()
    const request = { service: 'phone-validation', inputs: ['+12127365000'] } as const
    await world.redis.hincrby(moneyKeys(world.tenant).wallet, 'available', 5)
    await until('a frozen tenant', async () =>
      await world.redis.hexists(moneyKeys(world.tenant).wallet, 'frozen') === 1)
    await expect(world.client({ retries: 0 }).createJob(request)).rejects
      .toMatchObject({ status: 503, code: 'wallet_unavailable' })
    expect((await world.client().balance()).availableMicros).toBeGreaterThan(0)
    const neighbour = world.client({ apiKey: other.keys.live })
    const { id } = await neighbour.createJob(request)
    expect((await neighbour.waitForEnd(id)).status).toBe('completed')

    const of = { org: world.demo.orgId, mode: 'live' }
    const still = await workspace(parts => thaw(parts, of))
    expect(still).toMatchObject({ state: 'frozen' })
    const mend = { ...of, micros: '7', reason: 'goodwill after a fault' }
    await expect(workspace(parts => adjust(parts, mend))).rejects.toThrow('frozen')
    const thawed = await workspace(parts =>
      thaw(parts, { ...of, trust: 'journal' }))
    expect(thawed).toMatchObject({ state: 'thawed' })
    expect(await workspace(parts => adjust(parts, mend)))
      .toMatchObject({ posting: 'posted', amountMicros: 7 })
    const again = await world.client().createJob(request)
    expect((await world.client().waitForEnd(again.id)).status).toBe('completed')
    await checkAll()
  })
})
