import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { withAdmin } from '../../../services/runtime/kafka/admin.ts'
import { createPartner } from '../../../services/admin/partners.ts'
import { withWorkspace } from '../../../services/admin/deps.ts'
import { startAll } from '../../support/stacks/services.ts'
import { idlePercentOf, residentMbOf } from '../usage.ts'
import { median } from '../jobs.ts'
import type { BenchStack } from '../services.ts'
import { commandOn } from '../../support/admin.ts'

const createOrganization = commandOn('org create')

/** One number of partners, none of which sends anything. */
type PartnersStep = {
  readonly partners: number
  readonly topics: number
  readonly partitions: number
  /** Of `feed` to the brokers. */
  readonly connections: number
  /** From the start of the process of `feed` until it reads all partners. */
  readonly readyMs: number
  readonly feedMb: number
  /** Idle CPU, in percent of a core. */
  readonly feedPercent: number
  readonly kafkaPercent: number
  readonly redisPercent: number
  /** One partner: the work alone, and the whole command. */
  readonly createMs: number
  readonly commandMs: number
}

export type PartnersFigures = { readonly steps: readonly PartnersStep[] }

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
): Promise<PartnersFigures> {
  const { env } = stack
  const org = await withWorkspace(env, async deps =>
    (await createOrganization(deps, { name: 'bench' }) as { readonly id: string }).id)
  const steps: PartnersStep[] = []
  let made = 0
  // It unlocks the names of partners.
  const ledger = await startAll({ env, stages: ['ledger'], processes: 9 })
  try {
    for (const partners of counts) {
      log(`partners: ${partners}`)
      const createMs = await createPartners(env, org, { from: made, to: partners - COMMANDS })
      const commandMs = await runCommands(env, org, partners)
      made = partners
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
): Promise<Omit<PartnersStep, 'partners' | 'createMs' | 'commandMs'>> {
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
      connections: connectionsOf(pid, brokers.map(address => Number(address.split(':').at(-1)))),
      readyMs,
      feedMb: residentMbOf(pid),
      feedPercent,
      kafkaPercent,
      redisPercent,
    }
  } finally {
    await services.stop()
  }
}

const ESTABLISHED = '01'

/** Open connections of a process to ports (Linux: from /proc). */
function connectionsOf (pid: number, ports: readonly number[]): number {
  const folder = `/proc/${pid}/fd`
  const links = readdirSync(folder).map(fd => {
    try {
      return readlinkSync(join(folder, fd))
    } catch {
      return ''
    }
  })
  const inodes = new Set(links.map(link => /^socket:\[(\d+)\]$/.exec(link)?.[1]))
  const sockets = ['tcp', 'tcp6'].flatMap(name =>
    readFileSync(`/proc/${pid}/net/${name}`, 'utf8').trim().split('\n').slice(1)
      .map(line => line.trim().split(/\s+/)))
  return sockets.filter(([, , remote = '', state, , , , , , inode]) =>
    state === ESTABLISHED && inodes.has(inode) &&
    ports.includes(parseInt(remote.split(':').at(-1) ?? '', 16))).length
}
