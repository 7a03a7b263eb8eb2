import { readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { accountKey } from '../../services/accounts/records.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { withAdmin } from '../../services/runtime/kafka/admin.ts'
import { createKafkaBus } from '../../services/runtime/kafka/kafka-bus.ts'
import type { MessageMac } from '../../services/runtime/crypto/mac.ts'
import { createPauses } from '../../services/admin/pause.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { causing } from '../support/deploy/causing.ts'
import { openDeadCommands } from '../support/dead.ts'
import { eventually } from '../support/eventually.ts'
import { newFolder } from '../support/folder.ts'
import { writeLists } from '../support/mail/lists-folder.ts'
import { createTestPartner, feedContacts } from '../support/feeds/partner.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'
import { messageMacOf } from '../support/keys/signed.ts'
import { openWorkspaceCommands } from '../support/workspace.ts'
import { stackEnv } from '../support/stacks/stack.ts'

const env = stackEnv()
const brokers = (env.KAFKA_BROKERS ?? '').split(',')
const redis = closeAfterAll(openRedis(env.REDIS_STATE_URL ?? ''))
const commands = openWorkspaceCommands(env)
const letters = openDeadCommands(env)
const lists = newFolder('lists-')
writeLists(lists, { disposable: 'a.org' })
// One slot per priority class, so that few hanging receivers take all slots; and one vendor call at
// a time, so that there is time to act during a job.
const { environment, vendor, untilFiring, untilOver, job } = await causing({
  WEBHOOK_SLOTS: '1',
  WEBHOOK_SLOW_SLOTS: '1',
  WEBHOOK_TIMEOUT_MS: '45000',
  PROVIDER_CONCURRENCY: '1',
  LISTS_DIR: lists,
  LISTS_POLL_MS: '500',
})

const hanging: ServerResponse[] = []
let manner: 'well' | 'failing' | 'hanging' = 'well'
const receiver = await startReceiver(response => {
  if (manner === 'hanging') hanging.push(response)
  else response.writeHead(manner === 'well' ? 200 : 500).end()
}, '0.0.0.0')
/** Each address of this machine is a receiver of its own. */
const hook = (path: string, address = 1) =>
  ({ webhook_url: `http://127.0.0.${address}:${receiver.port}/${path}` })
const start = async (...of: Parameters<typeof job>) =>
  (await environment.live.createJob(job(...of))).id
async function sendGarbage (topic: string, mac?: MessageMac): Promise<void> {
  const bus = createKafkaBus({ brokers, clientId: 'garbage', mac, onFatal: () => {} })
  await bus.producer('garbage').send([
    { topic, key: 'garbage', value: Buffer.from('garbage'), headers: {} },
  ])
  await bus.close()
}

const endOf = async (id: string) => (await environment.live.waitForEnd(id)).status

describe('an alert fires, and ends with its cause', () => {
  it('for a vendor that is down, and rows that a paused stage does not carry on', async () => {
    await vendor.behave('down')
    const id = await start('whatsapp')
    await untilFiring('ProviderFailing', 'PartsPutOff')
    const pauses = createPauses(redis)
    await pauses.pause({ stage: 'verify', by: 'test', reason: '' })
    await untilFiring('JobsStalled')
    await vendor.behave('well')
    await pauses.resume('verify')
    expect(await endOf(id)).toBe('completed')
  })

  it('for an unreadable message', async () => {
    await sendGarbage('rows.completed.small', messageMacOf(env))
    await untilFiring('DeadLetters')
  })

  it('for a message that no service sent', async () => {
    await sendGarbage('wallet.journal')
    await untilFiring('ForgedMessages')
  })

  it('for a job that was changed by hand, until it is corrected', async () => {
    const { orgId, services, baseUrl, keys, breaches } = environment
    await vendor.behave('slow')
    const id = await start('whatsapp', { rows: 1_000 })
    const key = jobRedisKeys(`${orgId}.live`, id).job
    await eventually(async () => expect(await redis.hget(key, 'status')).toBe('verifying'))
    await redis.multi().rename(key, `${key}:aside`).set(key, 'no job').exec()
    const answer = await fetch(`${baseUrl}/jobs/${id}`, {
      headers: { authorization: `Bearer ${keys.live}` },
    })
    expect(answer.status).toBe(500)
    await untilFiring('ServerErrors', 'FailuresRepeated', 'DeadLetters')
    // The component that the runbook names.
    const said = (name: string) => readFileSync(`${services.dataDir}/logs/${name}.log`, 'utf8')
    const request = answer.headers.get('x-request-id') ?? 'none'
    const line = said('ingest-1').split('\n').find(one => one.includes(request))
    expect(line).toContain('WRONGTYPE')
    await eventually(() => expect(said('settle-1')).toContain('WRONGTYPE'))
    await redis.rename(`${key}:aside`, key)
    await eventually(async () => {
      const stages = new Set((await letters.lettersOf(id)).map(({ stage }) => stage))
      for (const stage of stages) await letters.dead('replay', stage, '--job', id, '--yes')
      expect(await environment.live.job(id)).toMatchObject({ status: 'completed' })
    }, { everyMs: 1_000 })
    expect(await breaches()).toEqual([])
  })

  it('for rows that are gone from their topic', async () => {
    const { services, live, breaches } = environment
    await services.setScale({ verify: 0 })
    const id = await start('phone-validation')
    await withAdmin({ brokers }, async admin => {
      const topic = 'rows.to-verify.small.phone-validation'
      const ends = await admin.fetchTopicOffsets(topic)
      await admin.deleteTopicRecords({
        topic, partitions: ends.map(({ partition, high: offset }) => ({ partition, offset })),
      })
    })
    await untilFiring('JobsFailed')
    expect(await endOf(id)).toBe('failed')
    expect(await live.job(id)).toMatchObject({ chargedMicros: 0, failedRecords: 20 })
    await services.setScale({})
    expect(await endOf(await start('phone-validation'))).toBe('completed')
    expect(await breaches()).toEqual([])
  })

  it('for lists that nobody has renewed, until somebody does', async () => {
    const renewedAt = new Date(Date.now() - 61 * 86_400_000).toISOString().slice(0, 10)
    writeLists(lists, { disposable: 'a.org' }, { renewedAt })
    await untilFiring('ReferenceDataOld')
    writeLists(lists, { disposable: 'a.org' })
  })

  it('for renewed lists that are not valid, until they are corrected', async () => {
    writeLists(lists, { disposable: 'no domain' })
    await untilFiring('ListsRefused')
    writeLists(lists, { disposable: 'b.org' })
  })

  it('for receivers that refuse their webhooks', async () => {
    manner = 'failing'
    await endOf(await start('phone-validation', hook('failing')))
    await untilFiring('WebhooksFailing')
    manner = 'well'
  })

  it('for more webhooks than can be sent at once, until more processes send them', async () => {
    const { services } = environment
    manner = 'hanging'
    // A hanging receiver takes one slot, whatever its queue, so each has its own.
    for (let jobs = 1; jobs <= 12; jobs++) {
      await start('phone-validation', { rows: 1, ...hook('hanging', jobs) })
    }
    await untilFiring('WebhooksPileUp')
    await services.setScale({ deliver: 5 })
    await untilOver('WebhooksPileUp')
    manner = 'well'
    for (const response of hanging) response.end()
    await receiver.until(12, '/hanging')
    await services.setScale({})
  })

  it('for a webhook secret that cannot be opened, until there is another one', async () => {
    const { orgId, live } = environment
    await commands.workspace(env, 'webhook-secret', 'show', '--org', orgId)
    const record = accountKey(`org:${orgId}`)
    const sealed = Buffer.from(await redis.hget(record, 'webhookSecret') ?? '', 'base64')
    sealed.writeUInt8(sealed.readUInt8(sealed.length - 1) ^ 1, sealed.length - 1)
    await redis.hset(record, { webhookSecret: sealed.toString('base64') })
    const id = await start('phone-validation', hook('secret'))
    await untilFiring('WebhooksFailInside')
    await commands.workspace(env, 'webhook-secret', 'rotate', '--org', orgId)
    const attempts = await live.deliveries(id)
    const failed = attempts.find(({ reason }) => reason === 'internal')
    await live.resend(id, failed?.deliveryId ?? '')
    await receiver.until(1, '/secret')
  })

  it('for a partner without money, until there is some', async () => {
    const partner = await createTestPartner(env)
    const contact = { input: '+14155552000', reference: 'one', countryCode: 'US' }
    const fed = feedContacts(partner, [contact])
    await untilFiring('FeedsHeld')
    await partner.topUp('10')
    expect((await fed).results).toHaveLength(1)
  })
})
