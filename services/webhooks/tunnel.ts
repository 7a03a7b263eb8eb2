import type { Socket } from 'node:net'
import { unescape } from 'node:querystring'
import { addAbortSignal } from 'node:stream'
import { promisify } from 'node:util'
import { buildConnector, Client } from 'undici'

/** A proxy that is unavailable or refuses a tunnel. The message omits its address. */
export class ProxyError extends Error {
  override readonly name = 'ProxyError'
}

type TunnelOptions = {
  /** `http://user:password@host:port`, or https. */
  readonly proxy: string
  /** The allowed addresses of a host; rejects if there are none. */
  readonly findAddresses: (hostname: string) => Promise<readonly string[]>
  /** Of a connection, within `signal`, which ends everything. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** Whether a text is the URL of an HTTP proxy, with or without a user. */
export function isProxyUrl (text: string): boolean {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && url.pathname === '/' &&
    url.search === '' && url.hash === ''
}

/**
 * Connects through a tunnel (HTTP CONNECT). The proxy gets an IP address, so it connects to the
 * one that was checked and resolves no name; TLS inside the tunnel verifies the host name.
 * Errors: ProxyError, and those of `findAddresses` and of TLS.
 */
export function createTunnelConnector (options: TunnelOptions): buildConnector.connector {
  const secure = promisify(buildConnector({ timeout: options.timeoutMs, allowH2: false }))
  const connect = async (target: buildConnector.Options): Promise<Socket> => {
    const { hostname, protocol } = target
    const [address = ''] = await options.findAddresses(hostname)
    const port = target.port || (protocol === 'https:' ? '443' : '80')
    const host = address.includes(':') ? `[${address}]` : address
    const httpSocket = await openTunnel(`${host}:${port}`, options)
    return protocol === 'https:' ? (await secure({ ...target, httpSocket }))! : httpSocket
  }
  return (target, callback) => {
    const { signal } = options
    const over = Promise.withResolvers<never>()
    signal.addEventListener('abort', () => over.reject(signal.reason), { once: true })
    Promise.race([connect(target), over.promise])
      .then(socket => callback(null, socket), error => callback(error as Error, null))
  }
}

async function openTunnel (
  path: string, { proxy, timeoutMs, signal }: TunnelOptions
): Promise<Socket> {
  const { origin, username, password } = new URL(proxy)
  const user = Buffer.from(`${unescape(username)}:${unescape(password)}`).toString('base64')
  const headers = {
    host: path,
    ...username !== '' && { 'proxy-authorization': `Basic ${user}` },
  }
  const client = new Client(origin, {
    connect: { timeout: timeoutMs }, allowH2: false, headersTimeout: 0,
  })
  try {
    const { socket, statusCode } = await client.connect({ path, headers, signal })
    // An error of the socket also fails TLS or the request in it.
    socket.on('error', () => {})
    if (statusCode >= 200 && statusCode < 300) return addAbortSignal(signal, socket as Socket)
    socket.destroy()
    throw new ProxyError(`the proxy answered with status ${statusCode}`)
  } catch (error) {
    if (signal.aborted || error instanceof ProxyError) throw error
    throw new ProxyError('the proxy opened no tunnel', { cause: error })
  } finally {
    // An open tunnel no longer belongs to the client.
    client.destroy().catch(() => {})
  }
}
