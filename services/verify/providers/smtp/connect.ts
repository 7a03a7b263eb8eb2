import { once } from 'node:events'
import { connect as connectTo, type Socket } from 'node:net'
import { SocksClient } from 'socks'
import { SmtpFault } from './reply.ts'

/** Opens a connection to an IP address; throws SmtpFault. */
export type Connect = (address: string, signal: AbortSignal) => Promise<Socket>

export type ConnectOptions = {
  readonly port: number
  readonly timeoutMs: number
  /** `host:port` of a SOCKS5 proxy that all connections go through. */
  readonly proxy?: string | undefined
}

const PROXY = /^(\[[^\]]+\]|[^:[\]]+):(\d{1,5})$/

/** Whether a text names a proxy: a host or IP address (version 6 in brackets) with its port. */
export function isProxyAddress (text: string): boolean {
  const port = Number(PROXY.exec(text)?.[2] ?? 0)
  return port >= 1 && port <= 65_535
}

/** Connections to mail servers, straight or through a proxy; never by name, as names can change. */
export function createConnect ({ port, timeoutMs, proxy }: ConnectOptions): Connect {
  const open = proxy === undefined || proxy === ''
    ? (address: string, signal: AbortSignal) => straight(address, port, signal)
    : (address: string, signal: AbortSignal) =>
        through(proxy, { host: address, port }, { timeoutMs, signal })
  return async (address, signal) => {
    const within = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
    try {
      return await open(address, within)
    } catch {
      throw new SmtpFault(signal.aborted ? 'timeout' : 'unreachable')
    }
  }
}

async function straight (address: string, port: number, signal: AbortSignal): Promise<Socket> {
  const socket = connectTo({ host: address, port })
  try {
    await once(socket, 'connect', { signal })
    return socket
  } catch (error) {
    socket.destroy()
    throw error
  }
}

type Target = { readonly host: string, readonly port: number }
type Within = { readonly timeoutMs: number, readonly signal: AbortSignal }

/** The socket is ours from the start, so that the proxy's own slowness can be cut short too. */
async function through (proxy: string, destination: Target, { timeoutMs, signal }: Within):
Promise<Socket> {
  const [, host = '', port] = PROXY.exec(proxy) ?? []
  const name = host.replace(/^\[|\]$/g, '')
  const socket = await straight(name, Number(port), signal)
  const stop = () => socket.destroy()
  signal.addEventListener('abort', stop, { once: true })
  try {
    await SocksClient.createConnection({
      proxy: { host: name, port: Number(port), type: 5 },
      command: 'connect',
      destination,
      timeout: timeoutMs,
      existing_socket: socket,
    })
    return socket
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
