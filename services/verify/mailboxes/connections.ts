import { once } from 'node:events'
import { connect as connectTo, type Socket } from 'node:net'
import { bulkhead, type BulkheadPolicy } from 'cockatiel'
import { LRUCache } from 'lru-cache'
import { SocksClient } from 'socks'
import { createTokenBuckets, secondsUntil } from '../../runtime/platform/limits.ts'
import { sleep } from '../../runtime/platform/retry.ts'
import { SmtpFault } from './session.ts'

/** Opens a connection to an IP address; rejects with SmtpFault. */
export type Connect = (address: string, signal: AbortSignal) => Promise<Socket>

type ConnectOptions = {
  readonly port: number
  readonly timeoutMs: number
  /** `host:port` of a SOCKS5 proxy for all connections. */
  readonly proxy?: string | undefined
}

const PROXY = /^(\[[^\]]+\]|[^:[\]]+):(\d{1,5})$/

/** Whether a text is a proxy: a host or IP address (IPv6 with brackets) and a port. */
export function isProxyAddress (text: string): boolean {
  const port = Number(PROXY.exec(text)?.[2] ?? 0)
  return port >= 1 && port <= 65_535
}

/** Connects to mail servers, directly or by a proxy, and only by address: names can change. */
export function createConnect ({ port, timeoutMs, proxy }: ConnectOptions): Connect {
  const open = proxy === undefined || proxy === ''
    ? (address: string, signal: AbortSignal) => connectDirectly(address, port, signal)
    : (address: string, signal: AbortSignal) =>
        connectByProxy(proxy, { host: address, port }, { timeoutMs, signal })
  return async (address, signal) => {
    const within = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
    try {
      return await open(address, within)
    } catch {
      throw new SmtpFault(signal.aborted ? 'timeout' : 'unreachable')
    }
  }
}

async function connectDirectly (
  address: string, port: number, signal: AbortSignal
): Promise<Socket> {
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

/** The socket is our own, so that an abort also ends a slow connection to the proxy. */
async function connectByProxy (proxy: string, destination: Target, { timeoutMs, signal }: Within):
Promise<Socket> {
  const [, host = '', port] = PROXY.exec(proxy) ?? []
  const name = host.replace(/^\[|\]$/g, '')
  const socket = await connectDirectly(name, Number(port), signal)
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

export type SessionLimits = {
  /** Maximum concurrent sessions with the mail servers of one owner, and starts per minute. */
  readonly perOwner: number
  readonly perOwnerAMinute: number
  /** Maximum concurrent sessions of all owners. */
  readonly connections: number
}

type SessionOptions = {
  readonly signal: AbortSignal
  /** Unix time in milliseconds after which the session must not start any more. */
  readonly startByMs: number
}

/** Runs the session once all its keys allow it; undefined, without running it, if that is late. */
export type SessionLimiter = <T>(
  keys: readonly string[], session: () => Promise<T>, options: SessionOptions,
) => Promise<T | undefined>

const MAX_KEYS = 50_000

/**
 * Limits the sessions of this process, per key (owner or domain) and altogether. The slots are no
 * fair slots of `limits.ts`: a session that is aborted must leave its queue at once.
 */
export function createSessionLimiter (limits: SessionLimits): SessionLimiter {
  const all = bulkhead(limits.connections, Number.MAX_SAFE_INTEGER)
  const slots = new LRUCache<string, BulkheadPolicy>({ max: MAX_KEYS })
  const starts = createTokenBuckets(undefined, MAX_KEYS)
  const perMinute = [{ capacity: limits.perOwnerAMinute, seconds: 60 }] as const
  /** Waits until a session may start; false, without counting it, if that is late. */
  const takeStart = async (key: string, { signal, startByMs }: SessionOptions) => {
    starts.add(key, perMinute, -1)
    const [level] = starts.levels(key, perMinute)
    const waitMs = level === undefined ? 0 : secondsUntil(level, 0) * 1_000
    if (waitMs > Math.max(0, startByMs - Date.now())) {
      starts.add(key, perMinute, 1)
      return false
    }
    // It rejects only when it is aborted.
    if (waitMs > 0) await sleep(waitMs, signal).catch(() => {})
    return !signal.aborted
  }
  return async (keys, session, options) => {
    const releases: (() => void)[] = []
    const takeSlot = async (from: BulkheadPolicy) => {
      const release = await acquire(from, options.signal)
      if (release !== undefined) releases.push(release)
      return release !== undefined
    }
    try {
      for (const key of new Set(keys)) {
        const own = slots.get(key) ?? bulkhead(limits.perOwner, Number.MAX_SAFE_INTEGER)
        slots.set(key, own)
        if (!await takeSlot(own) || !await takeStart(key, options)) return undefined
      }
      return await takeSlot(all) ? await session() : undefined
    } finally {
      for (const release of releases) release()
    }
  }
}

/** Acquires a slot and resolves to its release; undefined if the signal was aborted first. */
async function acquire (slots: BulkheadPolicy, signal: AbortSignal):
Promise<(() => void) | undefined> {
  const acquired = Promise.withResolvers<boolean>()
  const released = Promise.withResolvers<void>()
  const stop = () => {
    acquired.resolve(false)
    released.resolve()
  }
  signal.addEventListener('abort', stop, { once: true })
  slots.execute(async () => {
    acquired.resolve(true)
    await released.promise
  }, signal).catch(() => acquired.resolve(false))
  const isMine = await acquired.promise
  signal.removeEventListener('abort', stop)
  return isMine ? released.resolve : undefined
}

/**
 * The probable owner of a mail server: the last two labels of its name, or three if the second last
 * is as short as in `co.uk`. Different owners that count as one only share a limit.
 */
export function ownerOf (host: string): string {
  const labels = host.replace(/\.$/, '').split('.')
  const [country = '', second = ''] = labels.toReversed()
  return labels.slice(country.length === 2 && second.length <= 3 ? -3 : -2).join('.')
}
