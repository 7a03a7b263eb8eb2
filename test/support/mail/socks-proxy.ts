import { connect, createServer, type Socket } from 'node:net'

export type SocksProxy = {
  readonly address: string
  /** `host:port` of every requested connection. */
  readonly destinations: readonly string[]
  readonly stop: () => Promise<void>
}

const GRANTED = Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0])

/** A SOCKS5 proxy (RFC 1928) without log-in that leads every connection to one local port. */
export async function startSocksProxy (portOf: () => number): Promise<SocksProxy> {
  const destinations: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('data', () => {
      socket.write(Buffer.from([5, 0]))
      socket.once('data', (request) => {
        destinations.push(`${request.subarray(4, 8).join('.')}:${request.readUInt16BE(8)}`)
        const target = connect(portOf(), '127.0.0.1', () => {
          socket.write(GRANTED)
          socket.pipe(target).pipe(socket)
        })
        sockets.add(target)
        target.on('error', () => socket.destroy())
      })
    })
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  const { port } = server.address() as { port: number }
  return {
    address: `127.0.0.1:${port}`,
    destinations,
    stop: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => { server.close(() => resolve()) })
    },
  }
}
