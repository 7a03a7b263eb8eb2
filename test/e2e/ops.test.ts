import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import type { JobStatusResource } from '../../services/client/client.ts'
import { placesOf } from '../../services/lib/kafka/lag.ts'
import { withBrokers } from '../../services/ops/brokers.ts'
import type { OpenJobLine } from '../../services/ops/jobs/open-jobs.ts'
import type { LagLine } from '../../services/ops/lag/lines.ts'
import type { Sourced } from '../../services/ops/scale/text.ts'
import { mixedPhones } from '../bench/inputs.ts'
import { openOps } from '../support/ops.ts'
import { startWorld, type World } from '../support/world.ts'

const ROWS = 20_000
const GROUP = 'verify.bulk.phone-validation'
const WAITING = { timeout: 60_000, interval: 300 }

let world: World
let commands: ReturnType<typeof openOps>
beforeAll(async () => {
  world = await startWorld()
  commands = openOps(world)
})
afterAll(async () => {
  commands.close()
  await world.stop()
})

const ops = <T>(...words: readonly string[]): Promise<T> => commands.ops(...words)

const lagOf = async (group: string): Promise<LagLine | undefined> => {
  const { groups } = await ops<{ groups: LagLine[] }>('lag', '--once', '--every', '0.2')
  return groups.find(one => one.group === group)
}

const openJobs = async (): Promise<readonly OpenJobLine[]> =>
  (await ops<{ jobs: OpenJobLine[] }>('jobs', '--tenant', world.orgId)).jobs

let job: JobStatusResource

describe('a big job whose checks stand still, and then go on', () => {
  it('is seen by lag and jobs, until drain says that nothing is left', async () => {
    world.services.kill('verify-1', 'SIGSTOP')
    const inputs = mixedPhones(ROWS, 4_000_000)
    const { id } = await world.live.createJob({
      service: 'phone-validation', inputs, countryCode: 'US',
    })
    const behind = await lagOf(GROUP)
    expect(behind).toMatchObject({
      stage: 'verify', messagesPerSecond: 0, catchUpSeconds: null, partitions: 5,
    })
    expect(behind?.lagMessages).toBeGreaterThan(0)
    const tenant = tenantOf(world.orgId, 'live')
    expect(await openJobs())
      .toMatchObject([{ id, tenant, service: 'phone-validation', rows: ROWS }])
    const given = await commands.run({}, 'drain', '--timeout', '0.5', '--json')
    expect(given.code).toBe(1)
    expect(JSON.parse(given.out)).toMatchObject({ drained: false, openJobs: 1 })

    world.services.kill('verify-1', 'SIGCONT')
    const { code, out } = await commands.run({}, 'drain', '--timeout', '90')
    expect([code, out]).toEqual([0, expect.stringMatching(/^Nothing is left, after [\d.]+ s\.\n$/)])
    job = await world.live.job(id)
    expect(job.status).toBe('completed')
    expect(await lagOf(GROUP))
      .toMatchObject({ lagMessages: 0, catchUpSeconds: 0, oldestSeconds: 0 })
    expect(await openJobs()).toEqual([])
  })
})

describe('advice', () => {
  it('adds up', async () => {
    const { stages, others, instances, cores, source } =
      await ops<Sourced>('scale-advice', '--rows-per-second', '200000')
    expect(source).not.toBe('')
    expect(stages.map(({ stage }) => stage)).toEqual(
      expect.arrayContaining(['ingest', 'normalize', 'lookup', 'verify', 'settle']))
    for (const { cpuSecondsPer100kRows, cores, instances } of stages) {
      expect(cores).toBeCloseTo(cpuSecondsPer100kRows * 2, 1)
      expect(instances).toBe(Math.max(1, Math.ceil(cores / 0.7)))
    }
    expect(stages.reduce((sum, one) => sum + one.instances, 0)).toBe(instances)
    expect([...stages, ...others].reduce((sum, one) => sum + one.cores, 0)).toBeCloseTo(cores, 1)
  })
})

const offsets = () => withBrokers(world.env, admin => placesOf(admin))

describe('a replay', () => {
  const words = ['replay', '--stage', 'settle', '--group', 'settle.bulk', '--from', 'beginning']

  it('is refused for a running group, and shown without any change', async () => {
    const before = await offsets()
    const shown = await ops<{ moves: { messages: number }[] }>(...words)
    expect(shown).toMatchObject({ done: false, members: 1 })
    expect(shown.moves.length).toBeGreaterThan(0)
    await expect(ops(...words, '--yes')).rejects.toThrow('settle.bulk has 1 member: stop every')
    expect(await offsets()).toEqual(before)
  })

  it('has a stopped group read again, which changes no job and no balance', async () => {
    const results = await world.live.results(job.id)
    const balance = await world.live.balance()
    await world.services.setScale({ settle: 0 })
    const { moves } = await ops<{ moves: { messages: number }[] }>(...words, '--yes')
    const again = moves.reduce((sum, { messages }) => sum + messages, 0)
    await vi.waitFor(async () => {
      expect(await lagOf('settle.bulk')).toMatchObject({ lagMessages: again })
    }, WAITING)
    await world.services.setScale({})
    expect(await ops('drain', '--timeout', '60')).toMatchObject({ drained: true })
    expect(await world.live.job(job.id)).toEqual(job)
    expect(await world.live.results(job.id)).toBe(results)
    expect(await world.live.balance()).toEqual(balance)
    expect(await world.breaches()).toEqual([])
  })
})

describe('the command', () => {
  it('has dead letters and the audit', async () => {
    const { out: list } = await commands.run({}, 'dead', 'list')
    expect(list).toMatch(/^waiting: feed \d+, normalize \d+/)
    const { out } = await commands.run({}, 'audit', '--json')
    expect(JSON.parse(out)).toHaveProperty('breaches')
  })

  it('says so when the brokers do not answer', async () => {
    const away = await commands.run({ KAFKA_BROKERS: '127.0.0.1:1' }, 'lag', '--once')
    expect([away.code, away.out]).toEqual([1, ''])
    expect(away.errors).toMatch(/^Kafka does not answer at 127\.0\.0\.1:1\. .*"npm run up"\.\n$/)
  })
})
