import { createServer as createHttpServer } from 'node:http'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { listen } from '../listen.ts'

export type Proxy = {
  readonly address: string
  /** `host:port` of every requested connection, and `user:password` if there was a log-in. */
  readonly requests: readonly string[]
  readonly stop: () => Promise<void>
}

type ProxyOptions = {
  /** `user:password` that clients must send. */
  readonly login?: string
  /** Refuses every connection with this reply of SOCKS5 or status of HTTP. */
  readonly refusal?: number
}

/**
 * A SOCKS5 proxy (RFC 1928, 1929) or one for CONNECT (RFC 9110) that leads every connection to one
 * local port. What the target says first comes together with the answer of the proxy.
 */
export async function startProxy (
  kind: 'socks5' | 'http', portOf: () => number, options: ProxyOptions = {}
): Promise<Proxy> {
  const requests: string[] = []
  const sockets = new Set<Socket>()
  const lead = (socket: Socket, answer: Buffer) => {
    const target = connect(portOf(), '127.0.0.1')
    sockets.add(target)
    target.on('error', () => socket.destroy())
    target.once('data', (first) => {
      socket.write(Buffer.concat([answer, first]))
      socket.pipe(target).pipe(socket)
    })
  }
  const server = kind === 'socks5'
    ? createSocksServer(requests, lead, options)
    : createConnectServer(requests, lead, options)
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
  })
  const port = await listen(server)
  return {
    address: `127.0.0.1:${port}`,
    requests,
    stop: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => { server.close(() => resolve()) })
    },
  }
}

type Lead = (socket: Socket, answer: Buffer) => void

const [NO_LOGIN, LOGIN, NO_METHOD] = [0, 2, 0xff]
const GRANTED = Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0])

function createSocksServer (
  requests: string[], lead: Lead, { login, refusal }: ProxyOptions
): Server {
  const serve = (socket: Socket, request: Buffer, by: string) => {
    requests.push(`${by}${request.subarray(4, 8).join('.')}:${request.readUInt16BE(8)}`)
    if (refusal === undefined) return lead(socket, GRANTED)
    socket.end(Buffer.from([5, refusal, 0, 1, 0, 0, 0, 0, 0, 0]))
  }
  return createServer((socket) => {
    socket.once('data', (methods) => {
      const method = login === undefined ? NO_LOGIN : LOGIN
      const isOffered = methods.subarray(2).includes(method)
      socket.write(Buffer.from([5, isOffered ? method : NO_METHOD]))
      if (login === undefined) {
        socket.once('data', request => serve(socket, request, ''))
        return
      }
      socket.once('data', (sent) => {
        const size = sent[1] ?? 0
        const user = sent.toString('utf8', 2, 2 + size)
        const given = `${user}:${sent.toString('utf8', 3 + size)}`
        if (given !== login) return socket.end(Buffer.from([1, 1]))
        socket.write(Buffer.from([1, 0]))
        socket.once('data', request => serve(socket, request, `${given} `))
      })
    })
  })
}

function createConnectServer (
  requests: string[], lead: Lead, { login, refusal }: ProxyOptions
): Server {
  const server = createHttpServer()
  server.on('connect', ({ url, headers }, socket) => {
    const sent = headers['proxy-authorization']?.replace(/^Basic /, '')
    const given = sent === undefined ? undefined : Buffer.from(sent, 'base64').toString()
    const status = given === login ? refusal : 407
    requests.push([...given === undefined ? [] : [given], url].join(' '))
    if (status === undefined) lead(socket as Socket, Buffer.from('HTTP/1.1 200 OK\r\n\r\n'))
    else socket.end(`HTTP/1.1 ${status} Refused\r\ncontent-length: 0\r\n\r\n`)
  })
  return server
}
