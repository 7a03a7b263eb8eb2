import { readFileSync } from 'node:fs'
import kafkajs, { Kafka, logLevel, type Admin, type Producer } from 'kafkajs'
import Type from 'typebox'
import { describe, expect, it } from 'vitest'
import { provision } from '../../../deploy/provision.ts'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import { createClient } from '../../../services/client/client.ts'
import { jobRedisKeys } from '../../../services/jobs/job-record.ts'
import { TOPOLOGY_GROUPS } from '../../../services/runtime/kafka/admin.ts'
import {
  toKafkaConnection, toKafkaOptions, kafkaErrorType,
} from '../../../services/runtime/kafka/connection.ts'
import {
  commonConfig, kafkaKeys, loadConfig, pick,
} from '../../../services/runtime/platform/config.ts'
import { STAGES } from '../../../services/topology.ts'
import { redis, secure } from './shared.ts'
import { eventually } from '../../support/eventually.ts'
import { createTestPartner, feedContacts } from '../../support/feeds/partner.ts'
import { runJob } from '../../support/stacks/environment.ts'
import { startProgram } from '../../support/stacks/processes.ts'
import type { SecureEnvironment } from '../../support/stacks/secure-stack.ts'

const config = Type.Object(pick(commonConfig, kafkaKeys))
const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs

/** Works at the brokers of a stack as a stage does, or as its administrator where none is named. */
async function atBrokers<T> (
  { env, stack }: Pick<SecureEnvironment, 'env' | 'stack'>, stage: string | undefined,
  work: (clients: { readonly admin: Admin, readonly producer: Producer }) => Promise<T>
): Promise<T> {
  const own = { ...env, ...stage === undefined ? {} : stack.envByStage[stage] }
  const kafka = new Kafka({
    ...toKafkaOptions(toKafkaConnection(loadConfig(config, own))), logLevel: logLevel.NOTHING,
  })
  const clients = {
    admin: kafka.admin(), producer: kafka.producer({ allowAutoTopicCreation: false }),
  }
  await Promise.all([clients.admin.connect(), clients.producer.connect()])
  try {
    return await work(clients)
  } finally {
    await Promise.all([clients.admin.disconnect(), clients.producer.disconnect()])
  }
}

/** `done`, or the name of the error that brokers answered with or the client made of it. */
const answerOf = async (asking: Promise<unknown>): Promise<string> =>
  await asking.then(() => 'done', (error: Error) => kafkaErrorType(error) || error.name)

/** What brokers allow, a line a rule. */
async function rulesAt (admin: Admin): Promise<readonly string[]> {
  const { resources } = await admin.describeAcls({
    resourceType: AclResourceTypes.ANY,
    resourcePatternType: ResourcePatternTypes.ANY,
    operation: AclOperationTypes.ANY,
    permissionType: AclPermissionTypes.ANY,
  })
  return resources.flatMap(({ acls, ...on }) => acls.map(acl => [
    acl.principal, acl.permissionType, acl.operation,
    on.resourceType, on.resourceName, on.resourcePatternType,
  ].join(' '))).toSorted()
}

/** Lets principals write a topic, as an operator would by hand. */
async function allowWriting (
  admin: Admin, resourceName: string, principals: readonly string[]
): Promise<void> {
  await admin.createAcls({
    acl: principals.map(principal => ({
      principal,
      host: '*',
      operation: AclOperationTypes.WRITE,
      permissionType: AclPermissionTypes.ALLOW,
      resourceType: AclResourceTypes.TOPIC,
      resourceName,
      resourcePatternType: ResourcePatternTypes.LITERAL,
    })),
  })
}

/** Lines of the logs of all services that report something the brokers deny. */
function denials ({ services }: Pick<SecureEnvironment, 'services'>): readonly string[] {
  return services.list().flatMap(({ name }) =>
    readFileSync(`${services.dataDir}/logs/${name}.log`, 'utf8').split('\n')
      .filter(line => line.includes('AUTHORIZATION_FAILED')))
}

/** A command as operators run it. */
const run = (...words: readonly string[]) =>
  startProgram(process.execPath, ['services/admin/main.ts', ...words], secure.env).ended()

async function metricsOf (stage: string): Promise<string> {
  const service = secure.services.list().find(({ name }) => name === `${stage}-1`)
  return await (await fetch(service?.metricsUrl ?? '')).text()
}

describe('a stack whose stages have a user each at the brokers', () => {
  it('allows a stage at the brokers what the topology grants, and nothing else', async () => {
    const answers = await atBrokers(secure, 'verify', async ({ admin, producer }) => {
      const sent = (topic: string) =>
        answerOf(producer.send({ topic, messages: [{ key: 'key', value: null }] }))
      return {
        journal: await sent('wallet.journal'),
        keys: await sent('job.keys'),
        deadOfOthers: await sent('settle.dead'),
        ownDead: await sent('verify.dead'),
        othersTopic: await answerOf(admin.fetchTopicOffsets('rows.completed.small')),
        ownTopic: await answerOf(admin.fetchTopicOffsets('rows.to-verify.small.whatsapp')),
        othersGroup: await answerOf(admin.fetchOffsets({ groupId: 'settle.small' })),
        ownGroup: await answerOf(admin.fetchOffsets({ groupId: 'verify.small.whatsapp' })),
        rules: await answerOf(rulesAt(admin)),
      }
    })
    const denied = 'TOPIC_AUTHORIZATION_FAILED'
    expect(answers).toEqual({
      journal: denied,
      keys: denied,
      deadOfOthers: denied,
      ownDead: 'done',
      // Who may write a topic may see where it ends.
      othersTopic: 'done',
      ownTopic: 'done',
      // The client does not say why it finds none.
      othersGroup: 'KafkaJSGroupCoordinatorNotFound',
      ownGroup: 'done',
      rules: 'CLUSTER_AUTHORIZATION_FAILED',
    })
  })

  it('revokes additional permissions of stages, and of no other user', async () => {
    await atBrokers(secure, undefined, async ({ admin }) => {
      const before = await rulesAt(admin)
      expect(before.length).toBeGreaterThan(50)
      await allowWriting(admin, 'wallet.journal', ['User:verify', 'User:acme'])
      await allowWriting(admin, '*', ['User:ingest'])
      await eventually(async () =>
        expect(await rulesAt(admin)).toHaveLength(before.length + 3))
      const output: string[] = []
      await provision(secure.env, line => output.push(line))
      expect(output).toContain(`ACLs: ${before.length} in place for the stages, 2 others deleted`)
      await eventually(async () => {
        const left = (await rulesAt(admin)).filter(rule => !before.includes(rule))
        expect(left).toEqual([expect.stringMatching(/^User:acme .* wallet\.journal /)])
      })
      expect((await rulesAt(admin)).filter(rule => before.includes(rule))).toEqual(before)
    })
  })

  it('measures the lag of every group', async () => {
    const groups = await eventually(async () => {
      const found = (await metricsOf('ledger'))
        .matchAll(/^consumer_lag_messages\{[^}]*group="([^"]+)"/gm)
      const names = new Set([...found].map(([, group]) => group))
      expect(names.size).toBeGreaterThan(0)
      return names
    })
    expect(groups).toEqual(new Set(TOPOLOGY_GROUPS.map(({ group }) => group)))
  })

  it('measures every store', async () => {
    await eventually(async () => {
      const text = await metricsOf('ledger') + await metricsOf('lookup')
      expect(text).toMatch(/^redis_memory_bytes\{store="state",server=""\} \d/m)
      expect(text).toMatch(/^redis_memory_bytes\{store="cache",server=""\} \d/m)
      expect(text).toMatch(/^kafka_partitions_under_replicated 0$/m)
      expect(text).toMatch(/^clickhouse_disk_bytes\{disk="default"\} \d/m)
    })
  })

  it('restores the key of a job and the wallets from topics, erases and rewraps', async () => {
    const { demo: { keys, orgId }, services: { baseUrl } } = secure
    const client = createClient({ baseUrl, apiKey: keys.test })
    expect(await run('pause', 'verify')).toMatchObject({ code: 0 })
    await eventually(async () => expect(await metricsOf('verify')).toMatch(/^stage_paused\b.* 1$/m))
    const { id } = await client.createJob({
      service: 'phone-validation', inputs: ['+1 212 736 5000'],
    })
    const { dataKey } = jobRedisKeys(tenantOf(orgId, 'test'), id)
    expect(await redis.del(dataKey)).toBe(1)
    await redis.multi().set('one', 'kept').set('other', 'kept').exec()
    secure.stack.parts.find(({ spec }) => spec.name === 'redis-state')?.kill('SIGKILL')
    await secure.stack.untilReady()
    expect(await redis.mget('one', 'other')).toEqual(['kept', 'kept'])
    expect(await run('resume', 'verify')).toMatchObject({ code: 0 })
    const job = await client.waitForEnd(id)
    expect([job.status, job.successRecords]).toEqual(['completed', 1])
    expect(await redis.exists(dataKey)).toBe(1)
    expect(await run('keys', 'rewrap')).toMatchObject({ code: 0 })
    const erasure = await run('job', 'erase', '--org', orgId, '--mode', 'test',
      '--job', id, '--wait-minutes', '0')
    // Brokers take the key out of its topic later.
    expect(erasure)
      .toMatchObject({ errors: '', out: expect.stringContaining('The jobs are unreadable') })
    expect(await redis.exists(dataKey)).toBe(0)
  })

  it('does jobs of every lane and adds up', async () => {
    const { services: { baseUrl }, demo: { keys, orgId } } = secure
    const client = createClient({ baseUrl, apiKey: keys.test })
    const numbers = (count: number) =>
      Array.from({ length: count }, (_, index) => `+1 212 736 ${1_000 + index}`)
    for (const count of [3, 1_001]) {
      const { job } = await runJob(client, { service: 'phone-validation', inputs: numbers(count) })
      expect([job.status, job.successRecords]).toEqual(['completed', count])
    }
    const { code, out } = await run('audit', '--json')
    expect([code, JSON.parse(out)]).toMatchObject([0, { breaches: [] }])
    expect(out).toContain(`${orgId}.test`)
  })

  it('does what a partner sends', async () => {
    const partner = await createTestPartner(secure.env, { usd: '10' })
    const contacts = Object.entries({ good: '+1 212 736 0000', bad: 'x' })
      .map(([reference, input]) => ({ reference, input, countryCode: undefined }))
    const { results } = await feedContacts(partner, contacts)
    expect(results.map(({ reference }) => reference).toSorted()).toEqual(['bad', 'good'])
  })

  it('denies nothing to any of its services, which leave no group of recovery behind', async () => {
    expect(secure.services.list()).toHaveLength(STAGES.length)
    expect(denials(secure)).toEqual([])
    const { groups } = await atBrokers(secure, undefined, ({ admin }) => admin.listGroups())
    const names = groups.map(({ groupId }) => groupId)
    expect(names).toContain('verify.small.whatsapp')
    expect(names.filter(name => /last-value|recovery/.test(name))).toEqual([])
  })
})
