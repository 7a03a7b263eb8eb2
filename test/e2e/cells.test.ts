import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openPortBook } from '../../deploy/local/ports.ts'
import { provision } from '../../deploy/provision.ts'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { createDemo, type DemoOrganization } from '../../services/admin/demo.ts'
import { createClient } from '../../services/client/client.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { LEADER_KEY, moneyKeys } from '../../services/money/redis-keys.ts'
import { type Balance, createOutbox, createWallet } from '../../services/money/wallet.ts'
import { findHome, listMasters, listServers } from '../../services/runtime/platform/redis.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { runAudit } from '../support/audit.ts'
import { createDatabase } from '../support/clickhouse/database.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { newFolder } from '../support/folder.ts'
import { kafkaPart } from '../support/kafka/own-broker.ts'
import { RECOVERING_STAGES, until } from '../support/recovery/recovering.ts'
import { startRedisCluster } from '../support/redis/cluster.ts'
import { ask, runJob } from '../support/stacks/environment.ts'
import { createPart, startProgram } from '../support/stacks/processes.ts'
import { startAlone } from '../support/stacks/services.ts'
import { testStack } from '../support/stacks/stack.ts'

const OVERRIDES = {
  LEADER_POLL_MS: '100',
  CHECK_EVERY_MS: '500',
  REAP_EVERY_MS: '500',
  ORPHAN_AGE_MS: '1000',
  LEADER_LEASE_MS: '2000',
  COPY_AFTER_MS: '100',
}
/** Each write is on disk before its answer, as in production. */
const DURABLE = ['--appendonly', 'yes', '--appendfsync', 'always']

/** An organization and where it is. */
type Resident = DemoOrganization & { readonly tenant: string, readonly wallet: string }

/**
 * Services on a state of three servers, with a journal of their own and the other parts of the
 * stack of this worker, and two organizations or more on each server; all of it ends with the test
 * file.
 */
async function startCells () {
  const dataDir = newFolder('verification-jobs-cells-')
  closeAfterAll({ stop: () => rmSync(dataDir, { recursive: true, force: true }) })
  const kafka = await kafkaPart({ dataDir, ports: openPortBook(dataDir), say: () => {} })
  const part = createPart(kafka.spec)
  closeAfterAll({ stop: part.down })
  const [servers] = await Promise.all([startRedisCluster(DURABLE), part.up()])
  closeAfterAll(servers)
  const database = await createDatabase(testStack().env)
  closeAfterAll({ stop: database.drop })
  const env = { ...database.env, KAFKA_BROKERS: kafka.brokers, REDIS_STATE_URL: servers.url }
  await provision(env)
  const { servicesDir } = testStack()
  const services = closeAfterAll(await startAlone({
    env, overrides: OVERRIDES, stages: RECOVERING_STAGES, servicesDir,
  }))
  const redis = await servers.connect()
  /** The port of the server of a key. */
  const portOf = (key: string) => Number(findHome(redis, key).split(':').at(-1))
  const residents = await createResidents(env, servers.ports, portOf)
  const outbox = createOutbox(redis)
  /** Resolves when everything that was moved is in the journal. */
  const shipped = () => until('empty outboxes', async () =>
    (await outbox.tenantsWithPending()).length === 0)
  return { env, servers, redis, services, residents, portOf, shipped }
}

const PER_SERVER = 2

async function createResidents (
  env: Record<string, string>, ports: readonly number[], portOf: (key: string) => number
): Promise<readonly Resident[]> {
  const residents: Resident[] = []
  const isShort = (port: number) =>
    residents.filter(({ wallet }) => portOf(wallet) === port).length < PER_SERVER
  while (ports.some(isShort)) {
    const demo = await createDemo(env)
    const tenant = tenantOf(demo.orgId, 'live')
    residents.push({ ...demo, tenant, wallet: moneyKeys(tenant).wallet })
  }
  return residents
}

type StateCell = Readonly<Record<'address' | 'persistence', string>> &
  Readonly<Record<'slots' | 'tenants' | 'lockedTenants' | 'frozenTenants', number>>

const cells = await startCells()

const APPENDED = 'appendonlydir'
let number = 0

const clientOf = ({ keys }: Resident, retries = 5) =>
  createClient({ baseUrl: cells.services.baseUrl, apiKey: keys.live, retries })
const request = (rows = 3) => {
  number += rows
  const inputs = mixedPhones(rows, 50_000 + number)
  return { service: 'phone-validation', inputs, countryCode: 'US', forceFresh: true } as const
}
const run = async (resident: Resident, rows?: number) => {
  const { job } = await runJob(clientOf(resident), request(rows))
  expect(job.status).toBe('completed')
}
const runEach = (residents: readonly Resident[]) => Promise.all(residents.map(one => run(one)))
const on = (port: number) => cells.residents.filter(({ wallet }) => cells.portOf(wallet) === port)
const notOn = (port: number) =>
  cells.residents.filter(({ wallet }) => cells.portOf(wallet) !== port)
const balances = (residents: readonly Resident[]): Promise<readonly Balance[]> =>
  Promise.all(residents.map(({ tenant }) => createWallet(cells.redis).balance(tenant)))
const guards = (residents: readonly Resident[]) =>
  Promise.all(residents.map(({ wallet }) => cells.redis.hmget(wallet, 'run', 'frozen')))

/** Resolves once the tenants are unlocked for the present runs of their servers. */
async function unlocked (residents: readonly Resident[]): Promise<void> {
  await until('unlocked tenants', async () => {
    const servers = await listServers(cells.redis)
    const found = await guards(residents)
    return residents.every(({ wallet }, index) => {
      const [run, frozen] = found[index] ?? []
      return run === servers.find(({ has }) => has(wallet))?.run && frozen === null
    })
  })
}

async function expectClean (): Promise<void> {
  await cells.shipped()
  const only = cells.residents.map(({ tenant }) => tenant)
  expect((await runAudit(cells.env, { only })).breaches).toEqual([])
}

async function listCells (): Promise<readonly StateCell[]> {
  const words = ['services/admin/main.ts', '--json', 'cells']
  const { out, errors } = await startProgram(process.execPath, words, cells.env).ended()
  expect(errors).toBe('')
  return JSON.parse(out) as readonly StateCell[]
}

describe('a state of several servers', () => {
  it('completes the jobs of tenants on all of them', async () => {
    await runEach(cells.residents)
    await expectClean()
    const listed = await listCells()
    expect(listed.map(({ address }) => Number(address.split(':')[1])).toSorted())
      .toEqual(cells.servers.ports.toSorted())
    const sum = (of: (cell: StateCell) => number) => listed.reduce((all, one) => all + of(one), 0)
    expect([sum(({ slots }) => slots), sum(({ tenants }) => tenants)])
      .toEqual([16_384, 2 * cells.residents.length])
    expect(listed.every(({ persistence, lockedTenants, frozenTenants }) =>
      persistence === 'always' && lockedTenants + frozenTenants === 0)).toBe(true)
  })

  it.each([
    ['an empty file', undefined], ['an older file', 'older'],
  ])('rebuilds the tenants of a server that lost writes (%s), and no others', async (_, older) => {
    const control = cells.portOf(LEADER_KEY)
    const port = cells.servers.ports.find(one => one !== control) ?? 0
    const [lost, others] = [on(port), notOn(port)]
    await cells.shipped()
    const start = await cells.servers.killNode(port)
    let kept = ''
    await start(folder => {
      kept = join(folder, '..', `kept-${port}`)
      rmSync(kept, { recursive: true, force: true })
      cpSync(join(folder, APPENDED), kept, { recursive: true })
    })
    await unlocked(lost)
    await runEach(cells.residents)
    await cells.shipped()
    const [moneyBefore, guardsBefore] = [await balances(lost), await guards(others)]
    const restart = await cells.servers.killNode(port)
    // Its clients get 503 with Retry-After; the jobs of the others complete.
    await expect(clientOf(lost[0] as Resident, 0).createJob(request())).rejects
      .toMatchObject({ status: 503, retryAfterSeconds: expect.any(Number) })
    await restart(folder => {
      rmSync(join(folder, APPENDED), { recursive: true })
      if (older !== undefined) cpSync(kept, join(folder, APPENDED), { recursive: true })
    })
    await runEach(others)
    await unlocked(lost)
    expect(await balances(lost)).toEqual(moneyBefore)
    expect(await guards(others)).toEqual(guardsBefore)
    await runEach(cells.residents)
    await expectClean()
  })

  it('goes on after the server with the accounts and the ledger keys lost everything', async () => {
    const port = cells.portOf(LEADER_KEY)
    await cells.shipped()
    const before = await balances(cells.residents)
    await cells.servers.restartNode(port, folder => {
      rmSync(join(folder, APPENDED), { recursive: true })
    })
    await unlocked(on(port))
    expect(await balances(cells.residents)).toEqual(before)
    await runEach(cells.residents)
    await expectClean()
    const tenants = (await cells.redis.smembers('{global}:tenants')).toSorted()
    expect(tenants).toHaveLength(2 * cells.residents.length)
  })
})

describe('an organization that moves to another server', () => {
  it('loses no micro under traffic, and its requests get 202 or 503', async () => {
    const [mover] = cells.residents as [Resident]
    const from = cells.portOf(mover.wallet)
    const to = cells.servers.ports.find(port => port !== from) ?? 0
    const answers: { readonly status: number, readonly retryAfter: string | null }[] = []
    const over = new AbortController()
    const post = async () => {
      const { status, headers } = await ask(`${cells.services.baseUrl}/jobs`, {
        key: mover.keys.live, body: request(1),
      })
      answers.push({ status, retryAfter: headers.get('retry-after') })
    }
    const postAll = async () => { while (!over.signal.aborted) await post() }
    const traffic = Promise.all([postAll(), postAll(), postAll()])
    await until('some traffic', async () => answers.length > 5)
    await cells.servers.moveSlot(mover.wallet, { from, to })
    const during = answers.length
    await until('more traffic', async () => answers.length > during + 5)
    over.abort()
    await traffic
    const others = answers.filter(({ status, retryAfter }) =>
      status !== 202 && !(status === 503 && retryAfter !== null))
    expect(others).toEqual([])
    expect(answers.filter(({ status }) => status === 202).length).toBeGreaterThan(5)
    // This process learns of the move from its first command.
    await run(mover)
    await listMasters(cells.redis)
    expect(cells.portOf(mover.wallet)).toBe(to)
    await until('the end of all jobs', async () => {
      const fields = await cells.redis.hkeys(mover.wallet)
      return fields.every(field => !field.startsWith('open:'))
    })
    await expectClean()
  })

  it('moves with its data keys, and is unlocked by its next request', async () => {
    const [mover] = cells.residents as [Resident]
    const from = cells.portOf(mover.wallet)
    const to = cells.servers.ports.find(port => port !== from) ?? 0
    const { id } = await clientOf(mover).createJob(request())
    await clientOf(mover).waitForEnd(id)
    await cells.shipped()
    const [before] = await balances([mover])
    const { dataKey } = jobRedisKeys(mover.tenant, id)
    const key = await cells.redis.getBuffer(dataKey)
    await cells.servers.moveSlot(mover.wallet, { from, to })
    const locked = (await listCells()).filter(({ lockedTenants }) => lockedTenants > 0)
    expect(locked.map(({ address }) => address)).toEqual([`127.0.0.1:${to}`])
    expect(await cells.redis.getBuffer(dataKey)).toEqual(key)
    expect(await clientOf(mover).results(id)).toContain('e164')
    expect(await balances([mover])).toEqual([before])
    await run(mover)
    await unlocked([mover])
    await expectClean()
  })
})
