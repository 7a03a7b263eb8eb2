import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  createAccessHead, createAccessLog, createAccessOutbox, type NumberedEntry, recordAttempt,
} from '../../services/accounts/access-log/access-log.ts'
import { createAccessCopy } from '../../services/accounts/access-log/copy.ts'
import { createAdminClient } from '../../services/runtime/kafka/client.ts'
import { Clickhouse } from '../../services/runtime/platform/clickhouse.ts'
import { runAudit } from '../../services/admin/audit/run.ts'
import { eventually } from '../support/eventually.ts'
import { emptyFolder } from '../support/folder.ts'
import { startRecovering, type Recovering } from '../support/recovery/recovering.ts'
import { recordMacOf } from '../support/keys/signed.ts'
import { exportAccessLog } from '../support/workspace.ts'

let environment: Recovering
let clickhouse: Clickhouse
let copy: ReturnType<typeof createAccessCopy>
beforeAll(async () => {
  environment = await startRecovering(['ledger'], { COPY_AFTER_MS: '100' }, ['ledger'])
  const { env } = environment
  clickhouse = new Clickhouse(env['CLICKHOUSE_URL'] ?? '')
  copy = createAccessCopy(clickhouse, recordMacOf(env))
})
afterAll(async () => {
  await clickhouse?.close()
  await environment?.close()
})

const organization = () => environment.demo.orgId
const append = (target: string) => createAccessLog(environment.redis).append({
  organization: organization(),
  actor: { kind: 'operator', id: 'ann' },
  action: 'job.erased',
  target,
})
/** Resolves to the entries of the organization, oldest first, once the last one is copied. */
const copied = async (target: string) => await eventually(async () => {
  const entries = await copy.newest({ organization: organization(), limit: 100 })
  expect(entries[0]?.target).toBe(target)
  return entries.toReversed()
})
/** The entries of the organization, oldest first. */
const stored = async () =>
  (await copy.newest({ organization: organization(), limit: 100 })).toReversed()
/** What the audit of the whole installation finds wrong with the access log. */
const findings = async () => (await runAudit(environment.env, { waitMs: 1_000 })).breaches
  .filter(({ tenant }) => tenant === 'access.log').map(({ detail }) => detail)
const deleteRow = async ({ seq }: Pick<NumberedEntry, 'seq'>) => clickhouse.command(
  `ALTER TABLE access_log DELETE WHERE seq = ${seq} SETTINGS mutations_sync = 2`)

describe('the access log', () => {
  it('is in ClickHouse and sound, though its ledger was killed', async () => {
    await append('job_1')
    environment.services.kill('ledger-1', 'SIGKILL')
    await append('job_2')
    const entries = await copied('job_2')
    expect(entries.map(({ target }) => target)).toEqual(['job_1', 'job_2'])
    const outbox = createAccessOutbox(environment.redis)
    await eventually(async () => expect(await outbox.oldest(1)).toEqual([]))
    expect(await findings()).toEqual([])
  })

  it('goes on behind its last entry after Redis has lost everything', async () => {
    await environment.restart(emptyFolder)
    await eventually(async () => expect(await environment.redis.ping()).toBe('PONG'))
    await append('job_3')
    const entries = await copied('job_3')
    expect(entries.map(({ target }) => target)).toEqual(['job_1', 'job_2', 'job_3'])
    expect(new Set(entries.map(({ seq }) => seq)).size).toBe(3)
    expect(await findings()).toEqual([])
  })

  it('is exported with its hashes', async () => {
    const { entries, said, exitCode } = await exportAccessLog(environment.env, organization())
    expect(entries.map(({ target }) => target)).toEqual(['job_1', 'job_2', 'job_3'])
    const { number, hash } = entries.at(-1)!
    expect([said, exitCode]).toEqual([`3 entries exported; the access log has ${number}, the ` +
      `last hash is ${hash}. Its chain holds.`, undefined])
    await expect(exportAccessLog(environment.env, 'org_x')).rejects
      .toThrow('organization "org_x" does not exist')
  })
})

describe('the audit of the access log', () => {
  it('names an entry removed from ClickHouse, the last one too, as the export does', async () => {
    const entries = await stored()
    for (const entry of [entries[0]!, entries.at(-1)!]) {
      await deleteRow(entry)
      const missing = `entry ${entry.seq} is missing in ClickHouse`
      expect(await findings()).toEqual([missing])
      // Kafka still has it.
      const { entries: all, said, exitCode } =
        await exportAccessLog(environment.env, organization())
      expect([all.length, said, exitCode]).toEqual([3, expect.stringContaining(missing), 1])
      await copy.append([entry])
      expect(await findings()).toEqual([])
    }
  })

  it('names an entry that was changed or added by hand', async () => {
    const [entry] = await stored()
    await clickhouse.command(`
      INSERT INTO access_log SELECT * REPLACE('job_9' AS target) FROM access_log
        WHERE seq = ${entry!.seq} LIMIT 1`)
    expect(await findings()).toEqual([
      `entry ${entry!.seq} is in a row of ClickHouse without an authentic MAC`,
    ])
    await deleteRow(entry!)
    await copy.append([entry!])
    // A holder of the keys can sign a row, but not change the topic.
    const other = { ...entry!, target: 'job_9' }
    await copy.append([other])
    expect(await findings()).toEqual([`entry ${entry!.seq} is different in ClickHouse`])
    await deleteRow(entry!)
    await copy.append([entry!])
    expect(await findings()).toEqual([])
  })

  it('names entries that were removed from Kafka, or from both stores', async () => {
    const entries = await stored()
    const brokers = (environment.env['KAFKA_BROKERS'] ?? '').split(',')
    const admin = createAdminClient({ brokers }, 'test')
    await admin.use(async kafka => {
      const topic = 'access.log'
      // The client deletes only in topics that it has read about.
      await kafka.fetchTopicOffsets(topic)
      await kafka.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '1' }] })
    })
    await admin.close()
    expect(await findings()).toEqual(['entry 1 is missing in Kafka'])
    await deleteRow({ seq: 1 })
    expect(await findings()).toEqual(['entry 1 is missing in Kafka and in ClickHouse'])
    const last = entries.at(-1)!.seq + 1
    await createAccessHead(environment.redis).advance(last)
    expect(await findings()).toContain(`entry ${last} is missing in Kafka and in ClickHouse`)
  })
})

it('the list of an organization ' +
  'has an attempt until its result is stored, on every page', async () => {
  const log = createAccessLog(environment.redis)
  const about = {
    organization: `${organization()}1`,
    actor: { kind: 'operator', id: 'ann' },
    action: 'key.revoked',
    target: 'key_1',
  } as const
  const listed = async (before?: number) => (await copy.newest({
    organization: about.organization, limit: 9, before,
  })).map(({ action, outcome }) => `${action} ${outcome}`)
  const { record } = await recordAttempt(log, about)
  await recordAttempt(log, { ...about, action: 'key.rolled' })
  await eventually(async () =>
    expect(await listed()).toEqual(['key.rolled attempted', 'key.revoked attempted']))
  await record('failed')
  await eventually(async () =>
    expect(await listed()).toEqual(['key.revoked failed', 'key.rolled attempted']))
  const [{ seq = 0 } = {}] = await copy.newest({ organization: about.organization, limit: 1 })
  expect(await listed(seq)).toEqual(['key.rolled attempted'])
})
