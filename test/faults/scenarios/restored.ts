import { Kafka, logLevel } from 'kafkajs'
import { provision } from '../../../deploy/provision.ts'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import { withBrokers } from '../../../services/admin/deps.ts'
import { Clickhouse, COMMAND_TIMEOUT_MS } from '../../../services/runtime/platform/clickhouse.ts'
import { runCommand } from '../../support/admin.ts'
import { runAudit } from '../../support/audit.ts'
import { emptyFolder } from '../../support/folder.ts'
import type { Fault, Scene } from '../fault.ts'
import { poll } from '../poll.ts'
import { openStack } from '../stack.ts'

const WITHIN_MS = 60_000

async function until (what: string, isReached: () => Promise<boolean>): Promise<void> {
  const reached = await poll(
    async () => await isReached().catch(() => false) || undefined, WITHIN_MS, 100)
  if (!reached) throw new Error(`timed out after ${WITHIN_MS} ms: ${what}`)
}

/** Ends the load, and all that has to be copied from Redis and Kafka to ClickHouse. */
async function rest ({ load, log, environment, orgId }: Scene): Promise<void> {
  await load.untilEnded(5)
  await load.stop()
  for (const { id } of log.promised) await log.client.waitForEnd(id)
  const { breaches } = await runAudit(environment.stack.env, { only: [tenantOf(orgId, 'live')] })
  if (breaches.length > 0) throw new Error(`a breach before the loss: ${breaches.join()}`)
}

/** Starts what was stopped. A new job ends, and a repeated request has its job of before. */
async function resume ({ environment: { services }, load, log }: Scene) {
  await services.setScale({})
  await services.untilReady()
  const [before] = log.promised
  if (before === undefined) throw new Error('no job was accepted before the loss')
  const again = await log.client.createJob(before.request, before.key)
  const next = await log.post(load.request(20))
  if (next !== undefined) await log.client.waitForEnd(next.id)
  const breaches = again.id === before.id ? [] : [`${before.key} is of ${again.id} after the loss`]
  return { injected: 1, breaches }
}

/** Runs a command of operators on the stack, which it finds by the environment. */
async function command ({ environment }: Scene, ...words: readonly string[]): Promise<string> {
  Object.assign(process.env, environment.stack.env)
  return await runCommand(words)
}

const [JOURNAL, SNAPSHOTS] = ['wallet.journal', 'wallet.snapshots']

const journal: Fault = {
  name: 'journal-restored',
  kind: 'store',
  about: 'the topic wallet.journal is lost, and written again from its copy in ClickHouse',
  stack: () => openStack(),
  // Soon, so that there are snapshots of what is lost.
  prepare: async () => ({ env: { SNAPSHOT_EVERY_MS: '500', SNAPSHOT_BEHIND_MS: '1000' } }),
  inject: async scene => {
    const { stack: { env }, services } = scene.environment
    await rest(scene)
    await until('snapshots of wallets', async () =>
      (await withBrokers(env, admin => admin.fetchTopicOffsets(SNAPSHOTS)))
        .some(({ low, high }) => high !== low))
    await services.setScale({ lookup: 0, settle: 0, ledger: 0 })
    const brokers = (env['KAFKA_BROKERS'] ?? '').split(',')
    const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
    const remove = async (topic: string) => {
      await admin.deleteTopics({ topics: [topic] })
      await until(`${topic} is deleted`, async () => !(await admin.listTopics()).includes(topic))
      await provision(env)
    }
    await admin.connect()
    try {
      await remove(JOURNAL)
      // Its positions are those of the topic that is gone.
      const refused = await command(scene, 'journal', 'restore')
        .then(() => '', (error: Error) => error.message)
      if (!refused.includes(SNAPSHOTS)) throw new Error(`refused otherwise: ${refused}`)
      await remove(SNAPSHOTS)
    } finally {
      await admin.disconnect()
    }
    await command(scene, 'journal', 'restore')
    return await resume(scene)
  },
}

const clickhouse: Fault = {
  name: 'clickhouse-restored',
  kind: 'store',
  about: 'all data of ClickHouse is lost and comes back from a backup and from Kafka',
  stack: () => openStack(),
  inject: async scene => {
    const { stack, services } = scene.environment
    await rest(scene)
    process.env['BACKUP_TO'] = "File('drill {time}')"
    const { destination } = JSON.parse(await command(scene, '--json', 'backup')) as
      { readonly destination: string }
    const part = stack.part('clickhouse')
    await part.down()
    emptyFolder(`${stack.dataDir}/clickhouse`)
    await part.up()
    const client = new Clickhouse(stack.env['CLICKHOUSE_URL'] ?? '',
      { timeoutMs: COMMAND_TIMEOUT_MS })
    await client.command(`RESTORE DATABASE default FROM ${destination}`)
      .finally(() => client.close())
    await provision(stack.env)
    await services.setScale({ ledger: 0 })
    await until('a replay of the ledger', async () => {
      await command(scene, 'replay', '--stage', 'ledger', '--from', 'beginning', '--yes')
      return true
    })
    return await resume(scene)
  },
}

/** What operators restore. A Redis without its files comes back by itself: `redis-emptied`. */
export const restored: readonly Fault[] = [journal, clickhouse]
