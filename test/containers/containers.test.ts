import { describe, expect, it } from 'vitest'
import { freePort } from '../../deploy/local/ports.ts'
import { STAGES } from '../../services/topology.ts'
import type { Client } from '../../services/client/client.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { expectComplete, send } from './complete-jobs.ts'
import { createDeployment, type Ports } from './deployment.ts'
import { openEngine } from './open.ts'

const FUNDS_USD = '1000000'

const ports: Ports = {
  interface: await freePort(),
  page: await freePort(),
  prometheus: await freePort(),
  grafana: await freePort(),
}
const engine = closeAfterAll(await openEngine({ ports: Object.values(ports), say: console.log }))
const deployment = createDeployment(engine, ports)
closeAfterAll({ stop: deployment.remove })
// Of an earlier run that was killed.
await deployment.compose('down', '--volumes', '--remove-orphans')

let client: Client
let org: string
let first: string

/** Sends jobs until this has happened, and expects every one to end as it should. */
async function expectCompleteDespite (event: () => Promise<void>): Promise<void> {
  const ids = [await send(client)]
  const end = new AbortController()
  const sendOn = async () => {
    do ids.push(await send(client))
    while (!end.signal.aborted)
  }
  const sent = Promise.all([sendOn(), sendOn()])
  await event().finally(() => end.abort())
  await sent
  for (const id of ids) await expectComplete(client, id)
}

it('the image is built and starts', async () => {
  await deployment.documented('docker build')
  await expect(deployment.documented('docker run')).rejects.toThrow('KAFKA_BROKERS')
})

describe('the containers of Compose', () => {
  it('all become healthy at their first start', async () => {
    await deployment.documented('up --build')
    const containers = await deployment.containers()
    const names = containers.map(({ Service: name }) => name).filter(name => name !== 'provision')
    expect(names).toEqual(expect.arrayContaining([...STAGES]))
    for (const name of names) {
      expect([name, await deployment.health(name)]).toEqual([name, 'healthy'])
      expect([name, await deployment.restarts(name)]).toEqual([name, 0])
    }
  })

  it('verify the rows of a job that is sent over TLS', async () => {
    org = (await deployment.admin<{ id: string }>('org', 'create', '--name Test')).id
    await deployment.admin('topup', '--org', org, '--usd', FUNDS_USD)
    const { secret } = await deployment.admin<{ secret: string }>('key', 'create', '--org', org)
    client = await deployment.client(secret)
    first = await send(client)
    await expectComplete(client, first)
  })

  it.each(['normalize', 'settle', 'redis-state', 'redis-cache', 'kafka', 'clickhouse'])(
    'complete jobs although %s is killed', async service => {
      await expectCompleteDespite(() => deployment.kill(service))
      expect(await deployment.restarts(service)).toBe(1)
    })

  it('complete jobs although they are upgraded', async () => {
    await expectCompleteDespite(() => deployment.upgrade())
    // It has another container than the one that was killed.
    expect(await deployment.restarts('normalize')).toBe(0)
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
    expect(await deployment.documented('admin audit', '--full')).toContain(org)
  })
})
