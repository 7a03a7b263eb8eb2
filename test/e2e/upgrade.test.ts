import { cpSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterAll, describe, expect, it } from 'vitest'
import { freePort } from '../../deploy/local/ports.ts'
import { answersOk } from '../../deploy/local/process.ts'
import { supervise } from '../../deploy/local/supervise.ts'
import { topicName } from '../../services/runtime/platform/topics.ts'
import type { StageName, TopicName } from '../../services/topology.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { messagesOf } from '../support/dead.ts'
import { eventually } from '../support/eventually.ts'
import { newFolder } from '../support/folder.ts'
import { organizationKeysKey, withoutForeignRootKeys } from '../support/keys/organization-keys.ts'
import { listen } from '../support/listen.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { root } from '../support/sources.ts'
import { runJob, startEnvironment } from '../support/stacks/environment.ts'
import { startProgram } from '../support/stacks/processes.ts'
import { startAll } from '../support/stacks/services.ts'
import { stackEnv } from '../support/stacks/stack.ts'

type Env = Readonly<Record<string, string>>

type Field = { readonly name: string, readonly type: unknown, readonly default?: unknown }
type RecordSchema = { readonly fields: readonly Field[] }

type Release = ReturnType<typeof createRelease>
type ReleasedService = Awaited<ReturnType<typeof startService>>

const COPIED = ['services', 'schemas', 'deploy', 'package.json']

type Differences = {
  /** A further migration of its own. */
  readonly migration?: string
  /** Its code where that differs: a file, a text of it that must be there, and its replacement. */
  readonly code?: readonly (readonly [file: string, text: string, replacement: string])[]
}

/**
 * Another release of the product: the same programs in a folder of their own, with other schemas.
 * `change` is given every schema by its file's name, without the ending.
 */
function createRelease (
  name: string, change: (schema: RecordSchema, file: string) => RecordSchema,
  { migration, code = [] }: Differences = {}
) {
  const folder = newFolder(`verification-jobs-${name}-`)
  for (const entry of COPIED) cpSync(join(root, entry), join(folder, entry), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  const schemas = readdirSync(join(folder, 'schemas')).filter(file => file.endsWith('.avsc'))
  for (const file of schemas) {
    const path = join(folder, 'schemas', file)
    const schema = JSON.parse(readFileSync(path, 'utf8')) as RecordSchema
    writeFileSync(path, JSON.stringify(change(schema, file.slice(0, -'.avsc'.length))))
  }
  for (const [file, text, replacement] of code) {
    const path = join(folder, file)
    const source = readFileSync(path, 'utf8')
    if (!source.includes(text)) throw new Error(`${file} has no "${text}" to replace`)
    writeFileSync(path, source.replace(text, replacement))
  }
  if (migration !== undefined) {
    const tables = join(folder, 'schemas', 'clickhouse')
    const number = String(readdirSync(tables).length + 1).padStart(4, '0')
    writeFileSync(join(tables, `${number}_${name}.sql`), migration)
  }
  return {
    /** Its own provisioning, in a process as deployment runs it. */
    provision: (env: Env) =>
      startProgram(process.execPath, ['deploy/provision.ts'], env, folder).ended(),
    /** A service of it, under a name of its own; ready once `untilReady` has resolved. */
    start: (stage: string, env: Env) =>
      startService({ folder, name: `${name}-${stage}` }, stage, env),
  }
}

async function startService (
  { folder, name }: { readonly folder: string, readonly name: string }, stage: string, env: Env
) {
  const port = await freePort()
  const address = `http://127.0.0.1:${port}`
  const supervised = supervise({
    name,
    command: process.execPath,
    args: [`services/${stage}/main.ts`],
    cwd: folder,
    env: { ...env, ...withoutForeignRootKeys([stage]), INSTANCE: name, PORT_METRICS: String(port) },
    dataDir: folder,
    ready: () => answersOk(`${address}/readyz`),
    graceMs: 25_000,
  })
  return {
    metrics: async () => await (await fetch(`${address}/metrics`)).text(),
    /** How often it was started again after it died. */
    restarts: supervised.restarts,
    untilReady: () => supervised.untilReady(),
    /** SIGTERM, as an upgrade does. */
    stop: supervised.stop,
  }
}

/** Ids of a subject's versions, or of those of all subjects, the oldest first. */
async function idsOf (registryUrl: string, subject?: string): Promise<readonly number[]> {
  const read = async <T>(path: string) =>
    await (await fetch(`${registryUrl}/subjects${path}`)).json() as T
  const subjects = subject === undefined ? await read<readonly string[]>('') : [subject]
  const found = await Promise.all(subjects.map(async one => {
    const versions = await read<readonly number[]>(`/${one}/versions`)
    return await Promise.all(versions.map(async version =>
      (await read<{ readonly id: number }>(`/${one}/versions/${version}`)).id))
  }))
  return found.flat()
}

type LaggingRegistry = {
  readonly url: string
  /** How often it answered a request for an existing schema with 404. */
  readonly denials: () => number
  /** From now on it has all schemas. */
  readonly catchUp: () => void
  readonly stop: () => void
}

const NOT_FOUND = JSON.stringify({ error_code: 40403, message: 'Schema not found' })

/** A copy of the registry that does not have the schemas above an id yet. */
async function startLaggingRegistry (url: string, newestId: number):
Promise<LaggingRegistry> {
  let denials = 0
  let isLagging = true
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const id = Number(/\/schemas\/ids\/(\d+)/.exec(request.url ?? '')?.[1] ?? 0)
    if (isLagging && id > newestId) {
      denials++
      response.writeHead(404, { 'content-type': 'application/json' }).end(NOT_FOUND)
      return
    }
    const { method = 'GET' } = request
    const body = await buffer(request)
    const found = await fetch(`${url}${request.url}`, {
      method,
      headers: { 'content-type': request.headers['content-type'] ?? 'application/json' },
      ...body.length > 0 && { body },
    })
    response.writeHead(found.status, { 'content-type': 'application/json' })
      .end(await found.text())
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  return {
    url: `http://127.0.0.1:${await listen(server)}`,
    denials: () => denials,
    catchUp: () => { isLagging = false },
    stop: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

const env = stackEnv()
const brokers = (env.KAFKA_BROKERS ?? '').split(',')
const registryUrl = env.SCHEMA_REGISTRY_URL ?? ''

/** Fields that came with bulk feeds, the rotation of cache secrets, and counts of verdicts. */
const YOUNG = ['feed', 'contacts', 'rotatedTokens', 'verdicts']
const INNER = /^(rows\.|jobs\.|job\.|wallet\.)/

const isOld = ({ name, default: value }: Field) => value === undefined || !YOUNG.includes(name)
const withField = (schema: RecordSchema, field: Field): RecordSchema =>
  ({ ...schema, fields: [field, ...schema.fields] })

/** What came before: messages lack the fields that are young, and no tenant is one of samples. */
const previous = createRelease('previous', schema =>
  ({ ...schema, fields: schema.fields.filter(isOld) }), {
  code: [['services/accounts/tenant.ts', 'nameIn(tenant).endsWith(SAMPLE)', 'false']],
})
/** What comes next: every message and every row says more, and that first of all. */
const next = createRelease('next', (schema, file) => INNER.test(file)
  ? withField(schema, { name: 'inNextRelease', type: 'string', default: 'a text in all messages' })
  : schema, {
  migration: ['result_blocks', 'jobs', 'journal', 'deliveries', 'job_keys'].map(table =>
    `ALTER TABLE ${table} ADD COLUMN IF NOT EXISTS in_next_release String FIRST;\n`).join(''),
})
/** A release that is incompatible with the old one: a field that older writers do not send. */
const breaking = createRelease('breaking', (schema, file) => file === 'rows.to-verify'
  ? withField(schema, { name: 'priority', type: 'int' })
  : schema)

const released: ReleasedService[] = []
const start = async (release: Release, stage: StageName, overrides = {}) => {
  const service = await release.start(stage, { ...env, ...overrides })
  released.push(service)
  await service.untilReady()
  return service
}

const requestOf = (rows: number, from: number) => ({
  service: 'phone-validation', inputs: mixedPhones(rows, from), countryCode: 'US', forceFresh: true,
} as const)

function begin (request: ReturnType<typeof requestOf>): ReturnType<typeof runJob> {
  const running = runJob(client, request)
  // The caller sees its failure when it waits for it.
  running.catch(() => {})
  return running
}

/** Ids of the schemas by which a job's messages in a topic were written. */
async function writersOf (jobs: readonly string[], topic: TopicName): Promise<Set<number>> {
  const name = topicName(topic, { lane: 'bulk', service: 'phone-validation' })
  const found = await Promise.all(jobs.map(job => messagesOf(brokers, job, name)))
  return new Set(found.flat().map(({ value }) => value?.readUInt32BE(1) ?? -1))
}

async function expectWhole (running: ReturnType<typeof runJob>, inputs: readonly string[]) {
  const { job, rows } = await running
  expect(job.status).toBe('completed')
  expect(rows.map(row => row['input'])).toEqual(inputs)
  expect(rows.map(row => row['row'])).toEqual(inputs.map((_, row) => String(row + 1)))
  // Rows of dead letters end for that reason.
  expect(rows.filter(row => row['reason'] === 'internal')).toEqual([])
  return job.id
}

const known = await idsOf(registryUrl)
const registry = closeAfterAll(await startLaggingRegistry(registryUrl, Math.max(...known)))
const environment = closeAfterAll(await startEnvironment())
const client = environment.live
// These are of other releases here.
await environment.services.setScale({ normalize: 0, lookup: 0, settle: 0 })
const settle = closeAfterAll(await startAll({
  env, stages: ['settle'], overrides: { SCHEMA_REGISTRY_URL: registry.url },
}))
afterAll(() => Promise.all(released.map(service => service.stop())))

describe('two releases side by side', () => {
  it('are provisioned in both directions if each can read the other, else refused', async () => {
    for (const release of [previous, next, previous]) {
      expect(await release.provision(env)).toMatchObject({ code: 0 })
    }
    const refused = await breaking.provision(env)
    expect(refused.code).toBe(1)
    expect(refused.out + refused.errors)
      .toContain('the schema of rows.to-verify-value is incompatible')
  })

  it('read what the other wrote; an unknown schema is waited for', async () => {
    await Promise.all([start(previous, 'normalize'), start(next, 'lookup')])
    const request = requestOf(1_500, 20_000_000)
    const running = begin(request)
    await expect.poll(() => registry.denials()).toBeGreaterThan(2)
    const metrics = await (await fetch(settle.list()[0]?.metricsUrl ?? '')).text()
    expect(metrics).toMatch(/^stage_blocked\{.*group="settle.bulk"\} [1-9]/m)
    expect(metrics).not.toMatch(/^stage_dead_letters_total.* [1-9]/m)
    registry.catchUp()
    const job = await expectWhole(running, request.inputs)
    const [current, before, after] = await idsOf(registryUrl, 'rows.normalized-value')
    expect(await writersOf([job], 'rows.submitted'))
      .toEqual(new Set((await idsOf(registryUrl, 'rows.submitted-value')).slice(0, 1)))
    expect(await writersOf([job], 'rows.normalized')).toEqual(new Set([before]))
    expect(new Set([current, before, after]).size).toBe(3)
    const [now, , later] = await idsOf(registryUrl, 'rows.completed-value')
    expect(await writersOf([job], 'rows.completed')).toEqual(new Set([now, later]))
  })

  it('share one group, and replace each other in the middle of jobs', async () => {
    const [oldNormalize, newLookup] = released as [ReleasedService, ReleasedService]
    const [, , oldVerify, , newSettle] = await Promise.all([
      start(next, 'normalize'), start(previous, 'lookup'),
      start(previous, 'verify'), start(next, 'verify'),
      start(next, 'settle'), start(previous, 'settle'),
    ])
    // Some forty chunks over the partitions of both releases, so that neither is left without any.
    const requests = [0, 1, 2].map(at => requestOf(26_000, 21_000_000 + at * 30_000))
    const running = requests.map(begin)
    await eventually(async () => {
      const { data } = await client.jobsPage({ limit: 3, status: 'verifying' })
      expect(data.length).toBeGreaterThan(0)
    })
    await Promise.all([oldNormalize, newLookup, oldVerify, newSettle].map(one => one.stop()))
    const jobs = await Promise.all(running.map((one, at) =>
      expectWhole(one, requests[at]?.inputs ?? [])))
    const [, before, after] = await idsOf(registryUrl, 'rows.normalized-value')
    expect(await writersOf(jobs, 'rows.normalized')).toEqual(new Set([before, after]))

    // All that is left of these two: the newer one writes, the older one reads.
    const last = requestOf(1_500, 22_000_000)
    const job = await expectWhole(begin(last), last.inputs)
    expect(await writersOf([job], 'rows.normalized')).toEqual(new Set([after]))
    expect(released.map(one => one.restarts())).toEqual(released.map(() => 0))
    expect(await environment.breaches()).toEqual([])
  })

  it('that knows no samples of lists leads after one that does', async () => {
    await Promise.all(released.map(service => service.stop()))
    await environment.services.setScale({})
    const inputs = mixedPhones(300, 23_000_000)
    const estimateOf = async () => (await client.quote({
      service: 'phone-validation', inputs, countryCode: 'US', sample: true,
    })).estimate
    const estimate = await estimateOf()
    expect(estimate).toMatchObject({ status: 'completed', reason: null })

    const redis = openRedis(env.REDIS_STATE_URL ?? '')
    const keys = organizationKeysKey(environment.orgId)
    const names = (await redis.hkeys(keys)).toSorted()
    await environment.services.setScale({ ledger: 0 })
    const ledger = await start(previous, 'ledger', { CHECK_EVERY_MS: '500' })
    // Each of its checks passes over the tenants of samples, and goes on to those of others.
    await redis.del(keys)
    await eventually(async () => {
      expect((await redis.hkeys(keys)).toSorted()).toEqual(names)
    })
    const last = requestOf(1_500, 24_000_000)
    await expectWhole(begin(last), last.inputs)
    expect(await ledger.metrics()).toMatch(/^tenants_frozen 0$/m)
    expect(ledger.restarts()).toBe(0)
    await ledger.stop()
    await environment.services.setScale({})
    expect(await estimateOf()).toEqual(estimate)
    redis.disconnect()
    expect(await environment.breaches()).toEqual([])
  })
})
