import { parse } from 'csv-parse/sync'
import { Kafka, logLevel } from 'kafkajs'
import { readFileSync, statSync } from 'node:fs'
import { Writable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { provision } from '../../../deploy/provision.ts'
import type { AuditReport } from '../../../services/admin/audit/report.ts'
import { createClient } from '../../../services/client/client.ts'
import { connectDeps } from '../../../services/runtime/engine/connections.ts'
import { createLog } from '../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import type { ProcessContext, ServiceContext } from '../../../services/runtime/platform/run.ts'
import { STAGES } from '../../../services/topology.ts'
import { receiver, secure } from './shared.ts'
import { eventually } from '../../support/eventually.ts'
import { findings, formsOf } from '../../support/keys/canaries.ts'
import { openRedis } from '../../support/redis/open-redis.ts'
import { runJob } from '../../support/stacks/environment.ts'
import { startProgram } from '../../support/stacks/processes.ts'
import { listeningPorts, plainAnswer } from '../../support/stacks/secure-stack.ts'

type StoreAddresses = {
  readonly REDIS_STATE_URL: string
  readonly REDIS_CACHE_URL: string
}

type StoreOutput = {
  /** The first answer of the state Redis. */
  readonly answer: string
  /** The messages of the log. */
  readonly output: readonly unknown[]
  /** Its answer once it was repaired; undefined when it was not. */
  readonly later: string | undefined
}

/** What a service logs about stores that reject it, and the answer of a repaired one. */
async function storeOutput (
  addresses: StoreAddresses, repair?: () => Promise<unknown>
): Promise<StoreOutput> {
  const output: unknown[] = []
  const destination = new Writable({
    write: (line, _encoding, done) => {
      output.push((JSON.parse(String(line)) as { msg: unknown }).msg)
      done()
    },
  })
  const closers: (() => unknown)[] = []
  const context: ProcessContext = {
    name: 'sample',
    log: createLog('sample', { destination }),
    metrics: createMetrics(),
    fatal: () => {},
    hasFailed: () => false,
    onStop: close => { closers.push(close) },
  }
  const share: ServiceContext['share'] = (_name, open) => open(context)
  const { state } = await connectDeps(addresses, { ...context, share }, ['state', 'cache'])
  try {
    const answer = await state.ping().catch((error: Error) => error.message)
    await eventually(() => expect(output.length).toBeGreaterThan(1))
    await repair?.()
    const later = repair && await eventually(() => state.ping())
    return { answer, output: output.sort(), later }
  } finally {
    for (const close of closers) await close()
  }
}

/** Lets a user of a Redis sign in with one more password while work is done. */
async function withPassword (
  url: string, password: string, work: (allow: () => Promise<unknown>) => Promise<void>
): Promise<void> {
  const redis = openRedis(url)
  const { username } = new URL(url)
  try {
    await work(() => redis.call('ACL', 'SETUSER', username, `>${password}`))
    await redis.call('ACL', 'SETUSER', username, `<${password}`)
  } finally {
    redis.disconnect()
  }
}

const phones = (): readonly string[] => {
  const file = new URL('../../../deploy/sample/phones.csv', import.meta.url)
  return parse(readFileSync(file), { from_line: 2, relax_quotes: false })
    .map((cells: string[]) => cells[0] ?? '')
}

/** All passwords of the stack: of the parts, of the brokers among themselves, of each stage. */
function passwords (): readonly string[] {
  const accounts = JSON.parse(readFileSync(`${secure.dataDir}/access/accounts.json`, 'utf8')) as
    Record<string, { readonly password: string }>
  return Object.values(accounts).map(({ password }) => password)
}

const wrong = (address: string) => address.replace(/:[^:@/]+@/, ':wrong@')

describe('a stack with TLS and passwords everywhere', () => {
  it('takes the sample from POST to its file and its webhook, and adds up', async () => {
    const { services: { baseUrl }, demo: { keys } } = secure
    const client = createClient({ baseUrl, apiKey: keys.live })
    const inputs = phones()
    const { job, rows } = await runJob(client, {
      service: 'phone-validation',
      inputs,
      countryCode: 'US',
      webhook_url: `http://127.0.0.1:${receiver.port}/hook`,
    })
    expect([job.status, rows.map(row => row.input)]).toEqual(['completed', inputs])
    const [event] = await receiver.until(1, '/hook')
    expect(JSON.parse(event?.body ?? '')).toMatchObject({
      type: 'job.completed', data: { id: job.id, chargedMicros: job.chargedMicros },
    })
    expect(job.chargedMicros).toBeGreaterThan(1_000_000)
  })

  it('keeps the limits of the interface in the cache Redis, of which it sees no more', async () => {
    const { env, stack } = secure
    const [all, own] = [env, stack.envByStage.ingest]
      .map(it => openRedis(String(it?.REDIS_CACHE_URL)))
    expect(await all?.keys('limit:*')).toContain(`limit:{${secure.demo.orgId}}:post`)
    await expect(own?.keys('*')).rejects.toThrow('NOPERM')
    for (const redis of [all, own]) redis?.disconnect()
  })

  it('passes the audit command for all tenants, and keeps running', async () => {
    const { env, demo: { orgId } } = secure
    const run = async (...words: readonly string[]) => {
      const { code, out, errors } = await startProgram(
        process.execPath, ['services/admin/main.ts', 'audit', '--json', ...words], env).ended()
      expect(errors).toMatch(/^reading \d+ journal entries and about \d+ result rows of 2 /)
      const report = JSON.parse(out) as AuditReport
      expect([code, report.breaches]).toEqual([0, []])
      expect(report.tenants.map(({ tenant }) => tenant)).toEqual([`${orgId}.live`, `${orgId}.test`])
      return report.tenants[0]
    }
    const all = { closedJobs: 1, rows: phones().length }
    expect(await run()).toMatchObject(all)
    expect(await run()).toMatchObject({ closedJobs: 0, rows: 0 })
    expect(await run('--full')).toMatchObject(all)
  })

  it('answers nothing without TLS, at any port of its parts', async () => {
    const ports = Object.fromEntries(secure.stack.parts.map(({ spec, pid }) =>
      [spec.name, listeningPorts(pid() ?? 0)]))
    expect(Object.entries(ports).map(([name, { length }]) => [name, length])).toEqual([
      ['kafka', 2], ['registry', 1], ['redis-state', 1], ['redis-cache', 1], ['clickhouse', 1],
      ['registry-front', 1],
    ])
    const words = ['GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n', 'PING\r\n\r\n']
    for (const port of Object.values(ports).flat()) {
      for (const text of words) {
        expect(['', 'alert'], `port ${port}`).toContain(await plainAnswer(port, text))
      }
    }
    // The metrics of a service are plain, so the probe detects plain answers.
    const metrics = Number(new URL(secure.services.list()[0]?.metricsUrl ?? '').port)
    expect(await plainAnswer(metrics, words[0] ?? '')).toMatch(/^HTTP\/1\.1 404/)
  })

  it('refuses TLS connections without a password', async () => {
    const { env } = secure
    const open = (name: string) => String(env[name]).replace(/\/\/[^@]*@/, '//')
    const registry = await fetch(`${open('SCHEMA_REGISTRY_URL')}/subjects`)
    const clickhouse = await fetch(`${open('CLICKHOUSE_URL')}/?query=SELECT%201`)
    expect([registry.status, clickhouse.status]).toEqual([401, 403])
    expect(await storeOutput({
      REDIS_STATE_URL: open('REDIS_STATE_URL'), REDIS_CACHE_URL: open('REDIS_CACHE_URL'),
    })).toMatchObject({ answer: expect.stringMatching(/^NOAUTH /) })
    const admin = new Kafka({
      brokers: [String(env.KAFKA_BROKERS)],
      ssl: true,
      logLevel: logLevel.NOTHING,
      retry: { retries: 0 },
    }).admin()
    await expect(admin.connect().then(() => admin.listTopics())).rejects.toThrow()
    await admin.disconnect()
  })

  it.each([
    ['KAFKA_SASL_PASSWORD', () => 'wrong',
      /^Kafka authentication failed: .* KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD$/],
    ['SCHEMA_REGISTRY_URL', wrong, /check user and password in SCHEMA_REGISTRY_URL$/],
    ['CLICKHOUSE_URL', wrong,
      /^ClickHouse authentication failed: check user and password in CLICKHOUSE_URL$/],
  ] as const)('reports a wrong %s to provision', async (name, change, message) => {
    const env = { ...secure.env, [name]: change(String(secure.env[name])) }
    await expect(provision(env)).rejects.toThrow(message)
  })

  it('logs a wrong Redis password with its remedy, and recovers once it is repaired', async () => {
    const { env } = secure
    const stores = {
      REDIS_STATE_URL: wrong(String(env.REDIS_STATE_URL)),
      REDIS_CACHE_URL: wrong(String(env.REDIS_CACHE_URL)),
    }
    await withPassword(String(env.REDIS_STATE_URL), 'wrong', async allow => {
      expect(await storeOutput(stores, allow)).toEqual({
        answer: expect.stringMatching(/^WRONGPASS /),
        output: ['REDIS_CACHE_URL', 'REDIS_STATE_URL'].map(name =>
          `Redis authentication failed: check user and password in ${name}`),
        later: 'PONG',
      })
    })
  })

  it('shows no password in a log, in an argument or to others than its owner', () => {
    const all = passwords()
    expect(new Set(all).size).toBe(7 + STAGES.length)
    const forms = all.flatMap(formsOf)
    const logs = [`${secure.dataDir}/logs`, `${secure.services.dataDir}/logs`]
    expect(findings(logs, forms)).toEqual([])
    const pids = [...secure.stack.parts.map(({ pid }) => pid()),
      ...secure.services.list().map(({ pid }) => pid)]
    const lines = pids.map(pid => readFileSync(`/proc/${pid}/cmdline`))
    expect(lines.filter(line => forms.some(form => line.includes(form)))).toEqual([])
    const { dataDir } = secure
    const holding = findings([dataDir], forms).map(file => file.slice(dataDir.length))
    // Where brokers keep who signs in by SCRAM, the password is salted and hashed.
    expect(holding.sort()).toEqual([
      '/access/accounts.json', '/kafka/server.properties', '/redis-cache/redis.conf',
      '/redis-state/redis.conf',
    ])
    const modes = [...holding, '/secrets.json', '/access/key.pem', '/access/authority.pem']
      .map(file => statSync(`${dataDir}${file}`).mode & 0o777)
    expect(new Set(modes)).toEqual(new Set([0o600]))
  })
})
