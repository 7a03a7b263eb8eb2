import { createServer, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import { startContainers } from '../../../../deploy/local/containers.ts'
import { newFolder } from '../../../support/folder.ts'

type Answer = { readonly status: number, readonly body: unknown }
type Bindings = Readonly<Record<string, readonly { readonly HostIp?: string }[]>>
type Create = { readonly HostConfig: { readonly PortBindings: Bindings } }

const created: Create[] = []
let pull: Answer

async function bodyOf (request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const piece of request) text += String(piece)
  return text
}

/** A container engine that answers, and fails to pull images or to create containers. */
function answerOf (path: string, body: string): Answer {
  if (path.endsWith('/_ping')) return { status: 200, body: 'OK' }
  if (path.endsWith('/info')) return { status: 200, body: { OperatingSystem: 'test' } }
  if (path.includes('/images/create')) return pull
  if (path.includes('/containers/json')) return { status: 200, body: [] }
  if (path.includes('/containers/create')) {
    created.push(JSON.parse(body) as Create)
    return { status: 500, body: { message: 'no space left on device' } }
  }
  return { status: 404, body: { message: 'no such image' } }
}

// One engine for all tests: testcontainers keeps its first connection.
const folder = newFolder('engine-')
const server = createServer((request, response) => {
  bodyOf(request).then(body => {
    const answer = answerOf(request.url ?? '', body)
    response.writeHead(answer.status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(answer.body))
  }, () => response.destroy())
})
const socket = join(folder, 'engine.sock')
await new Promise<void>(resolve => server.listen(socket, resolve))
vi.stubEnv('DOCKER_HOST', `unix://${socket}`)
vi.stubEnv('TESTCONTAINERS_HOST_OVERRIDE', '127.0.0.1')
vi.stubEnv('TESTCONTAINERS_RYUK_DISABLED', 'true')

beforeEach(() => { created.length = 0 })
afterAll(() => {
  vi.unstubAllEnvs()
  server.close()
  server.closeAllConnections()
})

it('containers publish their ports on this machine only', async () => {
  pull = { status: 200, body: { status: 'done' } }
  await expect(startContainers(() => {})).rejects.toThrow('no space left on device')
  const bindings = created.flatMap(({ HostConfig: { PortBindings: ports } }) =>
    Object.values(ports).flat())
  expect(bindings.length).toBe(5)
  expect(new Set(bindings.map(({ HostIp: address }) => address))).toEqual(new Set(['127.0.0.1']))
})

it('a container engine without images is an error that says what to do', async () => {
  pull = { status: 500, body: { message: 'registry unreachable' } }
  await expect(startContainers(() => {})).rejects.toThrow(
    /^the stack could not be started in containers: .*registry unreachable.*or unset STACK_SOURCE/s)
  expect(created).toEqual([])
})
