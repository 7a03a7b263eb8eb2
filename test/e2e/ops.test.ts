import { writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import type { JobStatusResource } from '../../services/client/client.ts'
import { fetchLags } from '../../services/runtime/kafka/admin.ts'
import { fetchSamples } from '../../services/runtime/platform/metrics.ts'
import { withBrokers } from '../../services/admin/deps.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { runCommand } from '../support/admin.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { type Environment, startEnvironment } from '../support/stacks/environment.ts'
import { type Started, startProgram } from '../support/stacks/processes.ts'
import { stackFolder } from '../support/workspace.ts'

const ROWS = 6_000
const GROUP = 'verify.bulk.phone-validation'
/** A webhook that fails is tried again after so long, for longer than any test takes. */
const RETRY_MS = 500
const RETRIES = 1_000

const environment = closeAfterAll(await startEnvironment(
  { WEBHOOK_WAITS_MS: JSON.stringify(Array(RETRIES).fill(RETRY_MS)) }, {
    stages: ['deliver'], apart: ['verify', 'settle'],
  }))
const commands = closeAfterAll(openOps(environment))

const ops = <T>(...words: readonly string[]): Promise<T> => commands.ops(...words)

type LagLine = {
  readonly group: string
  readonly lagMessages: number
  readonly oldestSeconds: number | null
}

const lagOf = async (group: string): Promise<LagLine | undefined> => {
  const { groups } = await ops<{ groups: LagLine[] }>('lag')
  return groups.find(one => one.group === group)
}

const openJobs = async (): Promise<readonly object[]> =>
  (await ops<{ jobs: object[] }>('jobs', '--tenant', environment.orgId)).jobs

let job: JobStatusResource

it('a big job whose checks are suspended and resumed ' +
  'is shown by lag and jobs, until drain reports that nothing is left', async () => {
  environment.services.kill('verify-1', 'SIGSTOP')
  const inputs = mixedPhones(ROWS, 4_000_000)
  const { id } = await environment.live.createJob({
    service: 'phone-validation', inputs, countryCode: 'US',
  })
  const behind = await lagOf(GROUP)
  expect(behind).toMatchObject({ stage: 'verify', partitions: 5 })
  expect(behind?.lagMessages).toBeGreaterThan(0)
  const tenant = tenantOf(environment.orgId, 'live')
  expect(await openJobs())
    .toMatchObject([{ id, tenant, service: 'phone-validation', rows: ROWS }])
  const given = await commands.run({}, 'drain', '--timeout', '0.5', '--json')
  expect(given.code).toBe(1)
  expect(JSON.parse(given.out)).toMatchObject({ drained: false, openJobs: 1 })

  environment.services.kill('verify-1', 'SIGCONT')
  const { code, out } = await commands.run({}, 'drain', '--timeout', '400')
  expect([code, out]).toEqual([0, expect.stringMatching(/^Drained after [\d.]+ s\.\n$/)])
  job = await environment.live.job(id)
  expect(job.status).toBe('completed')
  expect(await lagOf(GROUP)).toMatchObject({ lagMessages: 0, oldestSeconds: 0 })
  expect(await openJobs()).toEqual([])
})

/** Of one group: others may commit at any time. */
const offsetsOf = async (group: string) =>
  (await withBrokers(environment.env, admin => fetchLags(admin))).filter(one => one.group === group)

describe('a replay', () => {
  const words = ['replay', '--stage', 'settle', '--group', 'settle.bulk', '--from', 'beginning']

  it('is refused for a running group, and shown without any change', async () => {
    const before = await offsetsOf('settle.bulk')
    expect(before.length).toBeGreaterThan(0)
    const shown = await ops<{ moves: { messages: number }[] }>(...words)
    expect(shown).toMatchObject({ done: false, members: 1 })
    expect(shown.moves.length).toBeGreaterThan(0)
    await expect(ops(...words, '--yes')).rejects.toThrow('settle.bulk has 1 member: stop every')
    expect(await offsetsOf('settle.bulk')).toEqual(before)
  })

  it('has a stopped group read again, which changes no job and no balance', async () => {
    const results = await environment.live.results(job.id)
    const balance = await environment.live.balance()
    await environment.services.setScale({ settle: 0 })
    const { moves } = await ops<{ moves: { messages: number }[] }>(...words, '--yes')
    const again = moves.reduce((sum, { messages }) => sum + messages, 0)
    await eventually(async () => {
      expect(await lagOf('settle.bulk')).toMatchObject({ lagMessages: again })
    })
    await environment.services.setScale({})
    expect(await ops('drain', '--timeout', '400')).toMatchObject({ drained: true })
    expect(await environment.live.job(job.id)).toEqual(job)
    expect(await environment.live.results(job.id)).toBe(results)
    expect(await environment.live.balance()).toEqual(balance)
    expect(await environment.breaches()).toEqual([])
  })
})

/** The metric of each process that runs a stage, as the sum of the series of the stage. */
const sumsOf = async (metric: string, stage: string): Promise<readonly number[]> => {
  const processes = await Promise.all(environment.services.list().map(({ metricsUrl }) =>
    fetchSamples(metricsUrl, { names: new Set([metric]), timeoutMs: 1_000 })))
  return processes
    .map((samples = []) => samples.filter(({ labels }) => (labels.stage ?? stage) === stage))
    .filter(samples => samples.length > 0)
    .map(samples => samples.reduce((sum, { value }) => sum + value, 0))
}

const untilSums = (metric: string, stage: string, values: readonly number[]) =>
  eventually(async () => expect(await sumsOf(metric, stage)).toEqual(values))

describe('a stage that is paused', () => {
  const group = 'verify.small.phone-validation'

  it('starts no work in any process, restarted ones included, until it is resumed', async () => {
    await environment.services.setScale({ verify: 2 })
    expect(await ops('pause', 'verify', '--by', 'ann', '--reason', 'a test'))
      .toMatchObject({ stage: 'verify', paused: true, changed: true })
    await untilSums('stage_paused', 'verify', [1, 1])
    const inputs = mixedPhones(600, 5_000_000)
    const { id } = await environment.live.createJob({
      service: 'phone-validation', inputs, countryCode: 'US',
    })
    await eventually(async () => {
      const line = await lagOf(group)
      expect(line).toMatchObject({ paused: true })
      expect(line?.lagMessages).toBeGreaterThan(0)
    })
    const before = await lagOf(group)

    environment.services.kill('verify-1', 'SIGKILL')
    await eventually(() => {
      expect(environment.services.list().find(({ name }) => name === 'verify-1')?.restarts).toBe(1)
    })
    await environment.services.untilReady()
    await untilSums('stage_paused', 'verify', [1, 1])
    await untilSums('service_ready', 'verify', [1, 1])
    // The process that now owns the partitions holds their messages.
    await eventually(async () =>
      expect((await lagOf(group))?.oldestSeconds).toBeGreaterThan(1))
    expect((await lagOf(group))?.lagMessages).toBe(before?.lagMessages)
    expect(await environment.live.job(id)).toMatchObject({ status: 'verifying', successRecords: 0 })
    const { out } = await commands.run({}, 'lag', '--stage', 'verify')
    expect(out).toMatch(/^verify \(paused\) /m)
    expect(out).toMatch(/^verify is paused since \S+ by ann: a test\. /m)

    expect(await ops('resume', 'verify')).toMatchObject({ paused: false, changed: true })
    await untilSums('stage_paused', 'verify', [0, 0])
    const ended = await environment.live.waitForEnd(id)
    expect(ended).toMatchObject({ status: 'completed', totalRows: 600 })
    expect(await environment.breaches()).toEqual([])
    await environment.services.setScale({})
  })

  it('makes no attempt at a webhook that comes due', async () => {
    const attempts = async () => (await sumsOf('webhook_attempts_total', 'deliver'))[0] ?? 0
    const atFirst = await attempts()
    await environment.test.createJob({
      service: 'phone-validation',
      inputs: ['+12127365000'],
      webhook_url: 'https://unreachable.invalid/hook',
    })
    await eventually(async () => expect(await attempts()).toBeGreaterThan(atFirst))
    await ops('pause', 'deliver')
    await untilSums('stage_paused', 'deliver', [1])
    const before = await attempts()
    await new Promise(resolve => setTimeout(resolve, 2.5 * RETRY_MS))
    expect(await attempts()).toBe(before)
    await ops('resume', 'deliver')
    await eventually(async () => expect(await attempts()).toBeGreaterThan(before))
  })

  it('may be any that reads topics, but the ledger', async () => {
    const others = ['feed', 'normalize', 'lookup', 'settle', 'publish']
    for (const stage of others) await ops('pause', stage, '--yes')
    for (const stage of others) await untilSums('stage_paused', stage, [1])
    for (const stage of others) await ops('resume', stage)
    for (const stage of others) await untilSums('stage_paused', stage, [0])
    await expect(ops('pause', 'ledger')).rejects.toThrow('ledger cannot be paused')
    const refused = await commands.run({}, 'pause', 'lookup')
    expect([refused.code, refused.errors]).toEqual([2, expect.stringContaining('Add --yes')])
  })
})

describe('the command', () => {
  it('has dead letters', async () => {
    const { out: list } = await commands.run({}, 'dead', 'list')
    expect(list).toMatch(/^waiting: feed \d+, normalize \d+/)
  })

  it('reports that the brokers do not answer', async () => {
    const away = await commands.run({ KAFKA_BROKERS: '127.0.0.1:1' }, 'lag')
    expect([away.code, away.out]).toEqual([2, ''])
    expect(away.errors).toMatch(/^Kafka does not respond at 127\.0\.0\.1:1\. .*"npm run up"\.\n$/)
  })
})

/** The commands of operators for an environment, with a folder as `up` keeps it. */
function openOps ({ env, services }: Environment) {
  const folder = stackFolder(env)
  const targets = `${folder}/targets.json`
  process.env['METRICS_TARGETS_FILE'] = targets
  /** What runs, as it is now. */
  const noteTargets = () =>
    writeFileSync(targets, JSON.stringify(services.list().map(({ metricsUrl }) => metricsUrl)))
  /** What a command answers. */
  const ops = async <T>(...words: readonly string[]): Promise<T> => {
    noteTargets()
    return JSON.parse(await runCommand(['--json', '--data', folder, ...words])) as T
  }
  /** The command as a process of its own, in an environment that names the stack. */
  const run = (more: object, ...words: readonly string[]): ReturnType<Started['ended']> => {
    noteTargets()
    const around = { ...env, METRICS_TARGETS_FILE: targets, ...more }
    return startProgram(process.execPath, ['services/admin/main.ts', ...words], around).ended()
  }
  const close = () => { delete process.env['METRICS_TARGETS_FILE'] }
  return { ops, run, close }
}
