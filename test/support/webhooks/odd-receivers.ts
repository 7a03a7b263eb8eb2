import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { afterAll } from 'vitest'
import { selfSigned } from '../../../deploy/local/certificate.ts'

const MEGABYTE = 1_024 * 1_024
const head = (line: string, ...headers: readonly string[]) =>
  [`HTTP/1.1 ${line}`, ...headers, '', ''].join('\r\n')

/** Writes for as long as a client reads, up to so many bytes; counts what was handed over. */
function pour (socket: Socket, piece: Buffer, { most, count }: {
  readonly most: number
  readonly count?: (bytes: number) => void
}): void {
  let left = most
  const write = () => {
    while (left > 0 && !socket.destroyed) {
      left -= piece.length
      count?.(piece.length)
      if (!socket.write(piece)) return
    }
  }
  socket.on('drain', write)
  write()
}

/** A byte every second, forever. */
function drip (socket: Socket, text: string): void {
  socket.write(text)
  const timer = setInterval(() => socket.write('x'), 1_000)
  socket.on('close', () => clearInterval(timer))
}

type Behaviours = Readonly<Record<string, (socket: Socket) => void>>

/** What each does once something was sent to it; `count` receives the bytes it writes. */
function behavioursOf (count: (bytes: number) => void): Behaviours {
  const bomb = gzipSync(Buffer.alloc(50 * MEGABYTE))
  return {
    'drips its head': socket => drip(socket, 'HTTP/1.1 200 OK\r\nx: '),
    'sends a gigabyte': socket => {
      socket.write(head('200 OK', `content-length: ${1_024 * MEGABYTE}`))
      pour(socket, Buffer.alloc(MEGABYTE), { most: 1_024 * MEGABYTE, count })
    },
    'sends a bomb': socket => socket.end(Buffer.concat([
      Buffer.from(head('200 OK', 'content-encoding: gzip', `content-length: ${bomb.length}`)),
      bomb,
    ])),
    'sends headers without end': socket => {
      socket.write('HTTP/1.1 200 OK\r\n')
      pour(socket, Buffer.from('x: y\r\n'.repeat(1_000)), { most: 100 * MEGABYTE })
    },
    'sends hints without end': socket =>
      pour(socket, Buffer.from(head('103 Early Hints').repeat(100)), { most: 20 * MEGABYTE }),
    'continues first': socket => {
      const interim = ['100 Continue', '102 Processing', '100 Continue'].map(line => head(line))
      socket.end(interim.join('') + head('202 Accepted', 'content-length: 0'))
    },
    'continues without end': socket =>
      pour(socket, Buffer.from(head('100 Continue').repeat(100)), { most: 20 * MEGABYTE }),
    'changes the protocol': socket =>
      socket.end(head('101 Switching Protocols', 'connection: upgrade', 'upgrade: x')),
    'is garbage': socket => socket.end('220 mail.example ESMTP\r\n'),
    'leaves at once': socket => socket.end(),
    resets: socket => socket.resetAndDestroy(),
    'resets in its body': socket => socket.write(
      head('200 OK', 'content-length: 1000'), () => socket.resetAndDestroy()),
    hangs: () => {},
  }
}

/** Receivers that answer as no receiver should, by what they do; they end with the test file. */
export async function startOddReceivers () {
  let poured = 0
  const behaviours = behavioursOf(bytes => { poured += bytes })
  const servers: Server[] = []
  const ports: Record<string, number> = {}
  const add = async (name: string, server: Server) => {
    server.listen(0, '0.0.0.0')
    await once(server, 'listening')
    servers.push(server)
    ports[name] = (server.address() as AddressInfo).port
  }
  const sockets = new Set<Socket>()
  for (const [name, behave] of Object.entries(behaviours)) {
    await add(name, createServer(socket => {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.once('data', () => behave(socket))
      if (name === 'resets') behave(socket)
      else socket.resume()
    }))
  }
  await add('is not trusted', createTlsServer(selfSigned('untrusted')))
  afterAll(() => {
    for (const socket of sockets) socket.destroy()
    for (const server of servers) server.close()
  })
  /** Of the body of a gigabyte, over all connections. */
  const pouredBytes = () => poured
  return { ports, pouredBytes }
}
