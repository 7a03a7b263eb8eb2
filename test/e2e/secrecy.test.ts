import { describe, expect, it } from 'vitest'
import { Clickhouse } from '../../services/runtime/platform/clickhouse.ts'
import { createKafkaBus } from '../../services/runtime/kafka/kafka-bus.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { withWorkspace } from '../../services/admin/deps.ts'
import { dumpOf, findings, formsOf, formsOfSecret, searched } from '../support/keys/canaries.ts'
import { messagesOf, onceMore, openDeadCommands } from '../support/dead.ts'
import { createTestPartner, feedContacts } from '../support/feeds/partner.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'
import { messageMacOf } from '../support/keys/signed.ts'
import { ask, runJob, startEnvironment } from '../support/stacks/environment.ts'
import { stackEnv, testStack } from '../support/stacks/stack.ts'

const env = stackEnv()
const brokers = (env.KAFKA_BROKERS ?? '').split(',')
const receiver = await startReceiver(response => { response.writeHead(500).end() })
const commands = openDeadCommands(env)
const bus = closeAfterAll(createKafkaBus({
  brokers, clientId: 'secrecy', mac: messageMacOf(env), onFatal: () => {},
}))
const clickhouse = closeAfterAll(new Clickhouse(env.CLICKHOUSE_URL ?? ''))

/** Takes spans over OTLP as a collector does; texts stand in clear in what services send. */
const traces = await startReceiver(response => {
  // An empty message confirms that all of it was accepted.
  response.setHeader('content-type', 'application/x-protobuf').end()
})
const environment = closeAfterAll(await startEnvironment({
  WEBHOOK_WAITS_MS: '[50,50]', OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${traces.port}`,
}, { apart: ['verify'] }))
/** Digits and names that stand nowhere else; written as a client may write them. */
const serial = String(Date.now()).slice(-4)
const phones = [`+1212736${serial}`, `(415) 867-${serial}`, `+44 20 7946 ${serial}`]
const emails = [`canary.${serial}x@ietf.org`, `Zeisig${serial}@mailinator.com`]
const label = `label-${serial}-geheim`
const path = `hook-${serial}-verborgen`
/** By its last digits a sandbox check fails, or answers late. */
const failing = `+12129${serial.slice(2)}0005`
const slow = `+12129${serial.slice(2)}0004`
const nonsense = `no contact ${serial} whatsoever`
const member = `member.${serial}@canary.example`
const contacts = [...phones, ...emails, label, path, failing, slow, nonsense, member]

const folders = () => [testStack().dataDir, environment.services.dataDir]

/** Secrets that customers, operators and partners hold. */
async function secretForms (partnerKey: Buffer): Promise<readonly Buffer[]> {
  const webhook = await withWorkspace(env, async ({ people, webhookSecrets }) => {
    await people.add(environment.orgId, { email: member, role: 'owner', createdBy: member })
    return await webhookSecrets.show(environment.orgId)
  })
  const configured = [
    env.RESULTS_ROOT_KEYS, env.WEBHOOKS_ROOT_KEYS, env.PARTNERS_ROOT_KEYS, env.CACHE_SECRETS,
  ].flatMap(text =>
    Object.values(JSON.parse(text ?? '') as Record<string, string>))
  return [
    ...Object.values(environment.keys).flatMap(formsOf),
    ...[webhook, ...configured].flatMap(formsOfSecret),
    ...formsOfSecret(partnerKey.toString('base64')),
  ]
}

/** What the services show of themselves. */
async function metricsPages (): Promise<string> {
  const pages = await Promise.all(environment.services.list().map(async ({ metricsUrl }) =>
    (await fetch(metricsUrl)).text()))
  return pages.join('\n')
}

/** All spans, once those of the attempts have come; providers are known by number alone. */
async function spansOfAll (): Promise<string> {
  const sent = () => traces.received.filter(({ path }) => path === '/v1/traces')
    .map(({ body }) => body).join('\n')
  await expect.poll(() => sent().split('webhook attempt').length).toBeGreaterThan(3)
  const text = sent()
  // A name has its tag and its length before its value, which is tagged and measured as well.
  for (const process of ['ingest', 'pipeline', 'verify']) {
    expect(text).toMatch(new RegExp(`service\\.name\x12.\n.${process}`, 's'))
  }
  for (const provider of ['numbering-plan', 'email-domain', 'smtp-probe', 'sandbox']) {
    expect(text).not.toContain(provider)
  }
  return text
}

async function saveCache (): Promise<void> {
  const cache = openRedis(env.REDIS_CACHE_URL ?? '')
  await cache.save()
  cache.disconnect()
}

/** Requests that are refused, each for another reason, with what must not be quoted in them. */
async function refusedRequests (): Promise<readonly number[]> {
  const post = async (body: unknown, key = environment.keys.live) =>
    (await ask(`${environment.baseUrl}/jobs?note=${label}`, { key, body })).status
  const request = { service: 'phone-validation', inputs: [phones[0]] }
  return await Promise.all([
    post(`{"inputs":["${phones[0]}"`),
    post({ ...request, service: label }),
    post({ ...request, webhook_url: `https://user:pass@example.com/${path}` }),
    post({ ...request, [label]: phones[0] }),
    post(request, `${environment.keys.live}x`),
  ])
}

/** A check that fails and one whose process is killed; both jobs come to their end. */
async function failures (): Promise<void> {
  const { test } = environment
  const down = await test.createJob({ service: 'phone-validation', inputs: [failing] })
  const { id } = await test.createJob({ service: 'phone-validation', inputs: [slow, nonsense] })
  await test.waitForEnd(id, {
    pollEveryMs: 10,
    onProgress: ({ status }) => { if (status === 'verifying') throw new Error('under check') },
  }).catch(() => {})
  environment.services.kill('verify-1', 'SIGKILL')
  await test.waitForEnd(id)
  await test.cancel(down.id)
  await test.waitForEnd(down.id)
}

/** A batch of a job, repeated with a broken seal; resolves when it is a dead letter. */
async function poison (job: string): Promise<void> {
  const [part] = await messagesOf(brokers, job, 'rows.to-verify.small.phone-validation')
  if (part === undefined) throw new Error('the job has a part')
  const broken = Buffer.from(part.value ?? '')
  broken[broken.length - 1]! ^= 1
  await bus.producer('poison').send([onceMore(part, broken)])
  await commands.waitingOf(job)
}

describe('what is kept and shown', () => {
  it('has no contact, label, address or secret in clear, whatever fails', async () => {
    const metadata = { campaign: label }
    const done = await runJob(environment.live, {
      service: 'phone-validation',
      inputs: phones,
      countryCode: 'US',
      metadata,
      webhook_url: `http://127.0.0.1:${receiver.port}/${path}?token=${label}`,
    })
    await runJob(environment.live, { service: 'email-validation', inputs: emails, metadata })
    const partner = await createTestPartner(environment.env, { usd: '1' })
    const fed = phones.map(input => ({ input, reference: undefined, countryCode: undefined }))
    expect((await feedContacts(partner, fed)).results).toHaveLength(phones.length)
    expect(done.rows.map(row => row.input)).toEqual(phones)
    expect(await refusedRequests()).toEqual([400, 400, 400, 400, 401])
    await failures()
    await poison(done.created.id)
    await receiver.until(3, `/${path}?token=${label}`)
    await saveCache()

    const wanted = [...contacts.flatMap(formsOf), ...await secretForms(partner.key)]
    expect(searched(folders())).toBeGreaterThan(100)
    expect(findings(folders(), wanted)).toEqual([])
    const shown = Buffer.from(
      await spansOfAll() + await metricsPages() + await dumpOf(clickhouse, environment.orgId) +
      await commands.dead('show', 'verify', (await commands.waitingOf(done.created.id))[0]!.letter))
    expect(shown.length).toBeGreaterThan(10_000)
    expect(wanted.filter(form => shown.includes(form)).map(String)).toEqual([])
  })

  it('would be detected showing one', async () => {
    const canary = `+1646555${serial}`
    const redis = openRedis(env.REDIS_STATE_URL ?? '')
    await redis.set('control', Buffer.from(canary).toString('base64'))
    await redis.del('control')
    redis.disconnect()
    const value = Buffer.from(`a letter with ${canary}`)
    await bus.producer('poison').send([{ topic: 'publish.dead', key: 'any', value, headers: {} }])
    const found = findings(folders(), formsOf(canary))
    expect(found.some(file => file.includes('redis-state'))).toBe(true)
    expect(found.some(file => file.includes('publish.dead'))).toBe(true)
    // The service's own log would be searched as well.
    expect(findings([environment.services.dataDir], [Buffer.from('"name":"ingest"')]))
      .not.toEqual([])
  })
})
