import { parse } from 'csv-parse/sync'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freePort } from '../../deploy/local/ports.ts'
import { STAGES } from '../../services/topology.ts'
import type { Client } from '../../services/client/client.ts'
import { mixedPhones } from '../bench/inputs.ts'
import { createDeployment, type Deployment, type Ports } from './deployment.ts'
import type { Engine } from './engine.ts'
import { openEngine } from './open.ts'

const ROWS = 5_000
/** Long enough to be interrupted. */
const MANY_ROWS = 20_000
const MORE_JOBS = 3
const FUNDS_USD = '1000'

let engine: Engine
let deployment: Deployment
let client: Client
let org: string
let first: string
let serial = 0

beforeAll(async () => {
  const ports: Ports = {
    interface: await freePort(),
    page: await freePort(),
    prometheus: await freePort(),
    grafana: await freePort(),
  }
  engine = await openEngine({ ports: Object.values(ports), say: console.log })
  deployment = createDeployment(engine, ports)
  // Of an earlier run that was killed.
  await deployment.compose('down', '--volumes', '--remove-orphans')
})
afterAll(async () => {
  await deployment?.remove()
  await engine?.close()
})

/** Sends a job of contacts that no other job has. */
async function send (rows: number): Promise<string> {
  const inputs = mixedPhones(rows, serial)
  serial += rows
  const { id } = await client.createJob({ service: 'phone-validation', inputs, countryCode: 'US' })
  return id
}

/** Waits for the end of a job, and expects each of its rows in its file. */
async function expectComplete (id: string, rows: number): Promise<void> {
  const job = await client.waitForEnd(id)
  expect(job).toMatchObject({ status: 'completed', totalRows: rows })
  expect(job.successRecords + job.failedRecords).toBe(rows)
  expect(parse(await client.results(id))).toHaveLength(rows + 1)
}

/** Expects jobs to end as they should although this happens in their middle. */
async function expectCompleteDespite (event: () => Promise<void>): Promise<void> {
  const checked = await send(MANY_ROWS)
  // These are read and looked up meanwhile, as a job is accepted when that is done.
  const sent = Promise.all(Array.from({ length: MORE_JOBS }, () => send(MANY_ROWS)))
  expect((await client.job(checked)).status).not.toBe('completed')
  await event()
  for (const id of [checked, ...await sent]) await expectComplete(id, MANY_ROWS)
}

describe('the image', () => {
  it('is built and starts', async () => {
    await deployment.documented('docker build')
    await expect(deployment.documented('docker run')).rejects.toThrow('KAFKA_BROKERS')
  })
})

describe('the containers of Compose', () => {
  it('all become healthy', async () => {
    await deployment.documented('up --build')
    const containers = await deployment.containers()
    const running = containers.filter(({ Service: name }) => name !== 'provision')
    expect(running.map(({ Service: name, Health: health }) => [name, health]))
      .toEqual(running.map(({ Service: name }) => [name, 'healthy']))
    expect(running.map(({ Service: name }) => name)).toEqual(expect.arrayContaining([...STAGES]))
  })

  it('verify the rows of a job that is sent over TLS', async () => {
    org = (await deployment.workspace<{ id: string }>('org', 'create', '--name Test')).id
    await deployment.workspace('topup', '--org', org, '--usd', FUNDS_USD)
    const { secret } = await deployment.workspace<{ secret: string }>('key', 'create', '--org', org)
    client = await deployment.client(secret)
    first = await send(ROWS)
    await expectComplete(first, ROWS)
  })

  it.each(['normalize', 'settle', 'redis-state', 'kafka', 'clickhouse'])(
    'complete jobs although %s is killed', async service => {
      await expectCompleteDespite(() => deployment.kill(service))
      expect(await deployment.restarts(service)).toBe(1)
    })

  it('complete jobs although they are upgraded', async () => {
    await expectCompleteDespite(() => deployment.upgrade())
  })

  it('keep their data when they are removed and made again', async () => {
    const stored = async () => [await client.jobsPage(), await client.results(first)]
    const before = await stored()
    await deployment.documented(' down')
    await deployment.documented('up --build')
    expect(await stored()).toEqual(before)
  })

  it('hold no breach of what the audit checks', async () => {
    // Ends with 1 where there is one.
    expect(await deployment.documented('workspace audit', '--full')).toContain(org)
  })
})
