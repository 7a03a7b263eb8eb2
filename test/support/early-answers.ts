import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect } from 'vitest'

/** Requests that are answered before any hook of the framework runs, with the status. */
const EARLY: readonly (readonly [what: string, request: string, status: number])[] = [
  ['an invalid path', 'GET /%zz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n', 404],
  ['a request line that is none', 'no request\r\n\r\n', 400],
  ['headers that are too large',
    `GET / HTTP/1.1\r\nhost: x\r\nlarge: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
  ['a method that is none', 'FOO / HTTP/1.1\r\nhost: x\r\n\r\n', 400],
  ['a tunnel', 'CONNECT example.com:443 HTTP/1.1\r\nhost: x\r\n\r\n', 405],
]

/** Expects that a server lets nobody store or interpret its earliest answers. */
export async function expectProtectedAnswers (port: number): Promise<void> {
  for (const [what, request, status] of EARLY) {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    socket.write(request)
    const answer = await text(socket)
    const [head = ''] = answer.toLowerCase().split('\r\n\r\n')
    const [line = '', ...headers] = head.split('\r\n')
    expect([what, line.split(' ')[1]]).toEqual([what, String(status)])
    expect(headers, what).toEqual(expect.arrayContaining(
      ['cache-control: no-store', 'x-content-type-options: nosniff', 'connection: close']))
  }
}
