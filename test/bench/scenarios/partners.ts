import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { withAdmin } from '../../../services/runtime/kafka/admin.ts'
import { createPartner } from '../../../services/admin/partners.ts'
import { withWorkspace } from '../../../services/admin/deps.ts'
import { socketsOf } from '../../support/stacks/processes.ts'
import { startAll } from '../../support/stacks/services.ts'
import { idlePercentOf, residentMbOf } from '../usage.ts'
import { median } from '../jobs.ts'
import type { BenchStack } from '../services.ts'
import { commandOn } from '../../support/admin.ts'

const createOrganization = commandOn('org create')

type Options = {
  /** Ascending. */
  readonly counts: readonly number[]
  readonly overrides: Readonly<Record<string, string>>
  readonly log: (line: string) => void
}

const COMMANDS = 3

/** Measures what registered partners cost while they send nothing. */
export async function measurePartners (
  stack: BenchStack, { counts, overrides, log }: Options
) {
  const { env } = stack
  const org = await withWorkspace(env, async deps =>
    (await createOrganization(deps, { name: 'bench' }) as { readonly id: string }).id)
  const steps = []
  let made = 0
  // It unlocks the names of partners.
  const ledger = await startAll({ env, stages: ['ledger'], processes: 9 })
  try {
    for (const partners of counts) {
      log(`partners: ${partners}`)
      const createMs = await createPartners(env, org, { from: made, to: partners - COMMANDS })
      const commandMs = await runCommands(env, org, partners)
      made = partners
      // One partner: the work alone, and the whole command.
      steps.push({ partners, createMs, commandMs, ...await measureFeed(stack, overrides) })
    }
  } finally {
    await ledger.stop()
  }
  return { steps }
}

const optionsOf = (org: string, name: string) =>
  ({ org, name, mode: 'live', partitions: '1', trial: 'yes' })

/** Milliseconds of one, the median of all. */
async function createPartners (
  env: BenchStack['env'], org: string, { from, to }: { readonly from: number, readonly to: number }
): Promise<number> {
  return await withWorkspace(env, async deps => {
    const times: number[] = []
    for (let index = from; index < to; index++) {
      const startedAt = performance.now()
      await createPartner(deps, optionsOf(org, `bench-${index}`))
      times.push(performance.now() - startedAt)
    }
    return median(times)
  })
}

async function runCommands (
  env: BenchStack['env'], org: string, partners: number
): Promise<number> {
  const program = join(import.meta.dirname, '../../../services/admin/main.ts')
  const times: number[] = []
  for (let index = 0; index < COMMANDS; index++) {
    const options = Object.entries(optionsOf(org, `bench-${partners}-${index}`))
      .flatMap(([name, value]) => value === 'yes' ? [`--${name}`] : [`--${name}`, value])
    const startedAt = performance.now()
    await promisify(execFile)(process.execPath, [program, 'partner', 'create', ...options], {
      env: { ...process.env, ...env },
    })
    times.push(performance.now() - startedAt)
  }
  return median(times)
}

async function measureFeed (
  { env, infrastructure }: BenchStack, overrides: Options['overrides']
) {
  const brokers = (env['KAFKA_BROKERS'] ?? '').split(',')
  const startedAt = performance.now()
  const services = await startAll({ env, overrides, stages: ['feed'], processes: 9 })
  try {
    const readyMs = performance.now() - startedAt
    const [feed] = services.list().filter(({ name }) => name.startsWith('feed'))
    const processOf = (name: string) => infrastructure.filter(one => one.name === name)
    const [feedPercent = NaN, kafkaPercent = NaN, redisPercent = NaN] = await idlePercentOf(
      [services.list(), processOf('kafka'), processOf('redis-state')])
    const topics = await withAdmin({ brokers }, async admin =>
      (await admin.fetchTopicMetadata()).topics)
    const pid = feed?.pid ?? 0
    return {
      topics: topics.length,
      partitions: topics.reduce((sum, { partitions }) => sum + partitions.length, 0),
      /** Of `feed` to the brokers. */
      connections: socketsOf(pid).filter(({ isEstablished, remotePort }) =>
        isEstablished && brokers.some(address => address.endsWith(`:${remotePort}`))).length,
      /** From the start of the process of `feed` until it reads all partners. */
      readyMs,
      feedMb: residentMbOf(pid),
      /** Idle CPU, in percent of a core. */
      feedPercent,
      kafkaPercent,
      redisPercent,
    }
  } finally {
    await services.stop()
  }
}
