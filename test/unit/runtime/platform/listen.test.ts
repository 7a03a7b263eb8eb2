import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { explainListenError, listenAt } from '../../../../services/runtime/platform/http-server.ts'
import { root } from '../../../support/sources.ts'

const other = createServer()
let port = 0
beforeAll(async () => {
  await new Promise<void>(resolve => { other.listen(0, '127.0.0.1', resolve) })
  ;({ port } = other.address() as AddressInfo)
})
afterAll(() => { other.close() })

describe('a port that another process uses', () => {
  it('is named with the setting that selects another', async () => {
    await expect(listenAt(createServer(), { host: '127.0.0.1', port }, 'PORT_HTTP')).rejects
      .toThrow(`port ${port} is in use: another process listens at 127.0.0.1. Stop that process, ` +
        'or set PORT_HTTP to another port.')
  })

  it.each([
    ['deploy/openid-provider.ts', () => ['--port', String(port), '--page', 'http://localhost:1']],
    ['deploy/examples/webhook-receiver.ts', () => []],
  ] as const)('ends %s with one line', async (program, words) => {
    // The provider listens at localhost, which is ::1 on some machines.
    const local = createServer()
    await new Promise<unknown>(resolve => {
      local.once('error', resolve).listen(port, 'localhost', () => { resolve(undefined) })
    })
    const child = spawn(process.execPath, [program, ...words()], {
      cwd: root,
      env: { PATH: process.env['PATH'], PORT: String(port), WEBHOOK_SECRET: 'whsec_x' },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const [lines] = await Promise.all([text(child.stderr), once(child, 'exit')])
    local.close()
    const line = new RegExp(`(^|\\n)[^\\n]*port ${port} is in use: .+\\n$`)
    expect([lines, child.exitCode]).toEqual([expect.stringMatching(line), 1])
  })
})

it('other errors of a listener are passed on, or say what to do', () => {
  const error = new Error('x')
  expect(explainListenError(error, 'PORT')).toBe(error)
  const reserved = Object.assign(error, { code: 'EACCES', address: '::', port: 80 })
  expect(explainListenError(reserved, 'PORT')).toMatchObject({
    message: 'port 80 of :: is reserved for the system. Set PORT to a port above 1023, or grant ' +
      'the right to use it.',
  })
})
