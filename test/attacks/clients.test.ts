import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect, it } from 'vitest'
import { newApiKey } from '../../services/accounts/api-keys.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { createOrganizationWith } from '../support/organizations.ts'
import { startEnvironment } from '../support/stacks/environment.ts'

const CONNECTIONS = 40

const environment = closeAfterAll(await startEnvironment(
  { MAX_CONNECTIONS_PER_ADDRESS: String(CONNECTIONS) }, { stages: ['ingest'] }))

async function statusOf (apiKey: string): Promise<number> {
  const headers = { authorization: `Bearer ${apiKey}` }
  return (await fetch(`${environment.baseUrl}/balance`, { headers })).status
}

it('eleven million empty objects in a body end no process', async () => {
  const before = environment.services.list().map(({ pid }) => pid)
  const body = `{"service":"phone-validation","inputs":[${'{},'.repeat(11_000_000)}{}]}`
  const response = await fetch(`${environment.baseUrl}/jobs`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${environment.keys.test}`, 'content-type': 'application/json',
    },
    body,
  }).then(({ status }) => status, () => 'closed')
  expect([400, 413, 422, 'closed']).toContain(response)
  expect(await statusOf(environment.keys.live)).toBe(200)
  expect(environment.services.list().map(({ pid }) => pid)).toEqual(before)
})

it('guessing keys gets 429, and customers behind the same address are served', async () => {
  expect(await statusOf(environment.keys.live)).toBe(200)
  const neverSeen = (await createOrganizationWith(environment.env, { availableMicros: 0 })).keys
  for (let sent = 0; sent < 60; sent += 1) {
    expect(await statusOf(newApiKey('live'))).toBe(401)
  }
  expect(await statusOf(newApiKey('live'))).toBe(429)
  expect(await statusOf(environment.keys.live)).toBe(200)
  expect(await statusOf(neverSeen.live)).toBe(200)
})

it('an address with many connections gets no further ones until it closes some', async () => {
  const { hostname, port } = new URL(environment.baseUrl)
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
  await eventually(async () => expect(await statusOf(environment.keys.live)).toBe(200))
})
