import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { afterAll } from 'vitest'
import type { Certificate } from '../../../deploy/local/certificate.ts'
import { listen } from '../listen.ts'

/** What the proxy does with a request for a tunnel. */
type Behave = 'open' | 'hang' | 'close' | number

type ProxyOptions = {
  /** Given the number of the request, from 1; opens every tunnel by default. */
  readonly behave?: (count: number) => Behave
  /** `host:port`: requests to others are opened and not counted; they may be of other tests. */
  readonly only?: string
  /** The proxy speaks TLS with this certificate. */
  readonly certificate?: Certificate
}

/** A real HTTP proxy on this machine that only knows CONNECT; it ends with the test file. */
export async function startHttpProxy (
  { behave = () => 'open', only, certificate }: ProxyOptions = {}
) {
  /** Destination and `Proxy-Authorization` of every request, in their order. */
  const requests: { readonly to: string, readonly authorization: string }[] = []
  const sockets = new Set<Duplex>()
  const server = certificate === undefined ? createServer() : createTlsServer(certificate)
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.on('connect', ({ url = '', headers }, socket) => {
    socket.on('error', () => {})
    if (only !== undefined && url !== only) return openTunnel(url, socket)
    requests.push({ to: url, authorization: headers['proxy-authorization'] ?? '' })
    const does = behave(requests.length)
    if (does === 'open') openTunnel(url, socket)
    else if (does === 'close') socket.destroy()
    else if (does === 'hang') socket.resume().on('end', () => socket.end())
    else socket.end(`HTTP/1.1 ${does} No\r\n\r\n`)
  })
  const port = await listen(server)
  afterAll(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  /** Connections of clients that are open now. */
  const open = () => sockets.size
  return { port, requests, open }
}

function openTunnel (to: string, socket: Duplex): void {
  const { hostname, port } = new URL(`http://${to}`)
  const target = connect(Number(port || 80), hostname.replace(/^\[|\]$/g, ''), () => {
    socket.write('HTTP/1.1 200 Connection Established\r\n\r\n')
    socket.pipe(target).pipe(socket)
  })
  target.on('error', () => socket.destroy())
  target.on('close', () => socket.destroy())
  socket.on('close', () => target.destroy())
}
