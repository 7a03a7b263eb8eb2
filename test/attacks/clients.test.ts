import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { newSecret } from '../../services/accounts/key-format.ts'
import { eventually } from '../support/eventually.ts'
import { startWorld, type World } from '../support/world.ts'

const CONNECTIONS = 40

let world: World
beforeAll(async () => {
  world = await startWorld(
    { MAX_CONNECTIONS_PER_ADDRESS: String(CONNECTIONS) }, { stages: ['ingest'] })
})
afterAll(async () => { await world?.stop() })

async function statusOf (apiKey: string): Promise<number> {
  const headers = { authorization: `Bearer ${apiKey}` }
  return (await fetch(`${world.baseUrl}/balance`, { headers })).status
}

it('eleven million empty objects in a body end no process', async () => {
  const before = world.services.list().map(({ pid }) => pid)
  const body = `{"service":"phone-validation","inputs":[${'{},'.repeat(11_000_000)}{}]}`
  const response = await fetch(`${world.baseUrl}/jobs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${world.keys.test}`, 'content-type': 'application/json' },
    body,
  }).then(({ status }) => status, () => 'closed')
  expect([400, 413, 422, 'closed']).toContain(response)
  expect(await statusOf(world.keys.live)).toBe(200)
  expect(world.services.list().map(({ pid }) => pid)).toEqual(before)
})

it('who guesses keys is told to wait, and a customer behind the same address works', async () => {
  expect(await statusOf(world.keys.live)).toBe(200)
  for (let sent = 0; sent < 60; sent += 1) {
    expect(await statusOf(newSecret('live'))).toBe(401)
  }
  expect(await statusOf(newSecret('live'))).toBe(429)
  expect(await statusOf(world.keys.live)).toBe(200)
})

it('an address with many connections gets no more of them, and they end with it', async () => {
  const { hostname, port } = new URL(world.baseUrl)
  const sockets: Socket[] = []
  const closed = () => sockets.filter(socket => socket.closed).length
  for (let opened = 0; opened < 2 * CONNECTIONS; opened += 1) {
    const socket = connect(Number(port), hostname).on('error', () => {})
    sockets.push(socket.resume())
    await once(socket, 'connect')
  }
  // Others of this machine, as those that ask whether it is ready, take places as well.
  await eventually(() => expect(closed()).toBeGreaterThanOrEqual(CONNECTIONS))
  for (const socket of sockets) socket.destroy()
  await eventually(async () => expect(await statusOf(world.keys.live)).toBe(200))
})
