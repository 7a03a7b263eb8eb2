import { Kafka, logLevel } from 'kafkajs'
import { provision } from '../../../deploy/provision.ts'
import {
  Clickhouse, COMMAND_TIMEOUT_MS,
} from '../../../services/runtime/platform/clickhouse.ts'
import { emptyFolder } from '../../support/folder.ts'
import { openRedis } from '../../support/redis/open-redis.ts'
import { createOutbox } from '../../../services/money/wallet.ts'
import { withBrokers } from '../../../services/admin/deps.ts'
import { createAdminProgram } from '../../../services/admin/program.ts'
import type { Environment } from '../environment.ts'
import type { Item } from './state.ts'
import { poll } from '../poll.ts'

/** One store that loses everything, and how it comes back. */
export type Loss = {
  readonly store: string
  /** What is destroyed. */
  readonly destroyed: string
  /** What brings it back. */
  readonly restoredBy: string
  /** What does not come back, in words. */
  readonly announced: string
  /** Those of the items compared that are among it. */
  readonly gone: readonly Item[]
  readonly lose: (environment: Environment, tenant: string) => Promise<void>
}

const WITHIN_MS = 60_000
const WRITERS = { lookup: 0, settle: 0, ledger: 0 }

async function until (what: string, isReached: () => Promise<boolean>): Promise<void> {
  const reached = await poll(
    async () => await isReached().catch(() => false) || undefined, WITHIN_MS, 100)
  if (!reached) throw new Error(`timed out after ${WITHIN_MS} ms: ${what}`)
}

/** Takes a part down, removes its files, and starts it without them. */
async function emptyPart ({ stack }: Environment, name: string): Promise<void> {
  const part = stack.part(name)
  await part.down()
  emptyFolder(`${stack.dataDir}/${name}`)
  await part.up()
}

const redis: Loss = {
  store: 'Redis',
  destroyed: 'all files of the Redis with the state',
  restoredBy: 'nothing but ledger: accounts from the topic accounts, wallets and jobs from the ' +
    'journal',
  announced: 'when each API key was used last, cancellations under way, and what was in Redis ' +
    'alone: top-ups of the last seconds, changes of accounts whose command warned of it',
  gone: [],
  lose: async (environment, tenant) => {
    const state = openRedis(environment.stack.env['REDIS_STATE_URL'] ?? '')
    try {
      const outbox = createOutbox(state)
      await until('an empty outbox', async () => (await outbox.pending(tenant)).length === 0)
    } finally {
      state.disconnect()
    }
    await emptyPart(environment, 'redis-state')
  },
}

const TOPICS = ['wallet.journal', 'wallet.snapshots']

const journal: Loss = {
  store: 'journal',
  destroyed: 'the topic wallet.journal',
  restoredBy: '"npm run admin -- journal restore" from the copy in ClickHouse, with lookup, ' +
    'settle and ledger stopped',
  announced: 'entries of the last seconds that ledger had not copied to ClickHouse',
  gone: [],
  lose: async ({ stack, services }) => {
    const snapshots = () => withBrokers(stack.env, one => one.fetchTopicOffsets(TOPICS[1] ?? ''))
    await until('snapshots of wallets', async () =>
      (await snapshots()).some(({ low, high }) => high !== low))
    await services.setScale(WRITERS)
    const restore = () => runCommand(stack.env, 'journal', 'restore')
    const brokers = (stack.env['KAFKA_BROKERS'] ?? '').split(',')
    const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
    const remove = async (topic: string) => {
      await admin.deleteTopics({ topics: [topic] })
      await until(`${topic} is deleted`, async () => !(await admin.listTopics()).includes(topic))
      await provision(stack.env)
    }
    await admin.connect()
    try {
      await remove(TOPICS[0] ?? '')
      // Its positions are those of the topic that is gone.
      const refused = await restore().then(() => '', (error: Error) => error.message)
      if (!refused.includes('wallet.snapshots')) throw new Error(`refused otherwise: ${refused}`)
      await remove(TOPICS[1] ?? '')
    } finally {
      await admin.disconnect()
    }
    await restore()
    await services.setScale({})
    await services.untilReady()
  },
}

const clickhouse: Loss = {
  store: 'ClickHouse',
  destroyed: 'all data of ClickHouse, after "npm run admin -- backup"',
  restoredBy: 'the backup, "npm run provision" for the table of data keys, and "npm run admin -- ' +
    'replay --stage ledger --from beginning --yes" for the keys and newer entries of the journal',
  announced: 'records, results and deliveries that were stored after the backup',
  gone: [],
  lose: async environment => {
    const { stack, services } = environment
    const made = await runCommand(
      { ...stack.env, BACKUP_TO: "File('drill {time}')" }, '--json', 'backup')
    const { destination } = JSON.parse(made) as { readonly destination: string }
    await emptyPart(environment, 'clickhouse')
    await runStatement(stack.env, `RESTORE DATABASE default FROM ${destination}`)
    await provision(stack.env)
    await services.setScale({ ledger: 0 })
    await until('a replay of the ledger', async () => {
      await runCommand(
        stack.env, 'replay', '--stage', 'ledger', '--from', 'beginning', '--yes')
      return true
    })
    await services.setScale({})
    await services.untilReady()
  },
}

async function runStatement (
  env: Readonly<Record<string, string>>, query: string
): Promise<void> {
  const client = new Clickhouse(env['CLICKHOUSE_URL'] ?? '',
    { timeoutMs: COMMAND_TIMEOUT_MS })
  await client.command(query).finally(() => client.close())
}

async function runCommand (
  env: Readonly<Record<string, string>>, ...words: readonly string[]
): Promise<string> {
  Object.assign(process.env, env)
  const lines: string[] = []
  await createAdminProgram({ print: line => { lines.push(line) } })
    .parseAsync(words, { from: 'user' })
  return lines.join('\n')
}

/** Each is drilled alone; Redis is rebuilt from the journal that was restored before. */
export const LOSSES: readonly Loss[] = [journal, redis, clickhouse]
