import { hash } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import { connect as connectTo, isIP, type Socket } from 'node:net'
import { SocksClient } from 'socks'
import Type, { type Static } from 'typebox'
import { type SmtpCaller, SmtpFault } from './session.ts'

/**
 * Opens a connection to an IP address; rejects with SmtpFault. The socket must be listened to at
 * once: a server speaks first, and what a proxy sent along with its answer is emitted right then.
 */
export type Connect = (address: string, signal: AbortSignal) => Promise<Socket>

type ConnectOptions = {
  readonly port: number
  readonly timeoutMs: number
  /** A SOCKS5 or HTTP proxy as `parseProxy` reads it; connections are direct without it. */
  readonly proxy?: string | undefined
  /** The address of this machine that connections come from; the system's choice without it. */
  readonly from?: string | undefined
}

type Proxy = {
  readonly kind: 'socks5' | 'http'
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string
}

const PROXY = /^(\[[^\]]+\]|[^:[\]]+):(\d{1,5})$/

/** Whether a text is a proxy: a host or IP address (IPv6 with brackets) and a port. */
export function isProxyAddress (text: string): boolean {
  const port = Number(PROXY.exec(text)?.[2] ?? 0)
  return port >= 1 && port <= 65_535
}

/**
 * A proxy: `socks5://user:password@host:port`, `http://user:password@host:port` for CONNECT, or the
 * `host:port` of a SOCKS5 proxy. Log-ins are percent-encoded, and may be left out. Undefined for
 * any other text.
 */
function parseProxy (text: string): Proxy | undefined {
  const address = isProxyAddress(text) ? `socks5://${text}` : text
  const isOfKind = /^(?:socks5|http):\/\/[^/?#\s]+\/?$/.test(address)
  if (!isOfKind || !URL.canParse(address)) return undefined
  const { protocol, hostname, port, username, password } = new URL(address)
  // A URL leaves out the usual port of HTTP.
  const isUsualPort = protocol === 'http:' && /:80\/?$/.test(address)
  const number = isUsualPort ? 80 : Number(port)
  if (hostname === '' || !(number >= 1)) return undefined
  try {
    return {
      kind: protocol === 'http:' ? 'http' : 'socks5',
      host: hostname.replace(/^\[|\]$/g, ''),
      port: number,
      user: decodeURIComponent(username),
      password: decodeURIComponent(password),
    }
  } catch {
    return undefined
  }
}

/** Connects to mail servers, directly or by a proxy, and only by address: names can change. */
function createConnect ({ port, timeoutMs, proxy: text, from }: ConnectOptions): Connect {
  const proxy = text === undefined || text === '' ? undefined : parseProxy(text)
  return async (address, signal) => {
    const within = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
    const target = { host: address, port }
    try {
      return proxy === undefined
        ? await connectDirectly(target, within, from)
        : await connectByProxy(proxy, target, { timeoutMs, signal: within })
    } catch (error) {
      if (signal.aborted) throw new SmtpFault('timeout')
      throw error instanceof SmtpFault ? error : new SmtpFault('unreachable')
    }
  }
}

type Target = { readonly host: string, readonly port: number }
type Within = { readonly timeoutMs: number, readonly signal: AbortSignal }

/** Connects, perhaps from an address of this machine; `no_egress` if it has no such address. */
async function connectDirectly (
  target: Target, signal: AbortSignal, from?: string
): Promise<Socket> {
  const socket = connectTo({ ...target, localAddress: from })
  try {
    await once(socket, 'connect', { signal })
    return socket
  } catch (error) {
    socket.destroy()
    const isMissing = from !== undefined && error instanceof Error && 'code' in error &&
      error.code === 'EADDRNOTAVAIL'
    throw isMissing ? new SmtpFault('no_egress') : error
  }
}

/** The socket is our own, so that an abort also ends a slow connection to the proxy. */
async function connectByProxy (proxy: Proxy, target: Target, { timeoutMs, signal }: Within):
Promise<Socket> {
  const socket = await connectDirectly({ host: proxy.host, port: proxy.port }, signal)
    .catch(() => { throw new SmtpFault('no_egress') })
  const stop = () => socket.destroy()
  signal.addEventListener('abort', stop, { once: true })
  try {
    if (proxy.kind === 'http') await tunnelByHttp(socket, proxy, { target, signal })
    else await tunnelBySocks(socket, proxy, { target, timeoutMs })
    return socket
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** Refusals of a SOCKS5 proxy that concern the target (RFC 1928, 6); all others concern us. */
const TARGET_FAULTS = new RegExp(`(?:${[
  'Failure', 'NetworkUnreachable', 'HostUnreachable', 'ConnectionRefused', 'TTLExpired',
  'AddressNotSupported', 'timed out',
].join('|')})$`)

async function tunnelBySocks (
  socket: Socket, { host, port, user, password }: Proxy,
  { target, timeoutMs }: { readonly target: Target, readonly timeoutMs: number }
): Promise<void> {
  try {
    await SocksClient.createConnection({
      proxy: { host, port, type: 5, ...user !== '' && { userId: user, password } },
      command: 'connect',
      destination: target,
      timeout: timeoutMs,
      existing_socket: socket,
    })
  } catch (error) {
    const isOfTarget = error instanceof Error && TARGET_FAULTS.test(error.message)
    throw new SmtpFault(isOfTarget ? 'unreachable' : 'no_egress')
  }
}

async function tunnelByHttp (
  socket: Socket, { user, password }: Proxy,
  { target, signal }: { readonly target: Target, readonly signal: AbortSignal }
): Promise<void> {
  const authority = `${isIP(target.host) === 6 ? `[${target.host}]` : target.host}:${target.port}`
  const login = Buffer.from(`${user}:${password}`).toString('base64')
  const asking = request({
    createConnection: () => socket,
    method: 'CONNECT',
    path: authority,
    headers: { host: authority, ...user !== '' && { 'proxy-authorization': `Basic ${login}` } },
    signal,
  })
  asking.end()
  const [{ statusCode }, , head] = await once(asking, 'connect').catch(() => {
    throw new SmtpFault(signal.aborted ? 'unreachable' : 'no_egress')
  }) as [{ readonly statusCode: number }, Socket, Buffer]
  // 5xx: the proxy cannot reach the target (RFC 9110, 15.6); other refusals concern us.
  if (statusCode >= 500) throw new SmtpFault('unreachable')
  if (statusCode >= 300) throw new SmtpFault('no_egress')
  // A mail server speaks first, so that its greeting may come with the answer of the proxy.
  if (head.length > 0) socket.unshift(head)
}

const HOST_NAME =
  /^(?=.{4,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]$/i
const SENDER = /^[^\s<>@]{1,64}@[^\s<>@]+$/

/** Whether mail servers take a text as our name. */
export const isHeloName = (text: string): boolean => HOST_NAME.test(text)

/** Whether a text is a bare e-mail address, as senders are. */
export const isSenderAddress = (text: string): boolean => SENDER.test(text)

const ipAddress = () =>
  Type.Refine(Type.String(), text => isIP(text) !== 0, () => 'must be an IP address')

const describedEgress = Type.Refine(Type.Object({
  name: Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,31}$' }),
  helo: Type.Refine(Type.String(), isHeloName, () => 'must be a full host name'),
  sender: Type.Optional(Type.Refine(
    Type.String(), isSenderAddress, () => 'must be a bare e-mail address')),
  address: Type.Optional(ipAddress()),
  proxy: Type.Optional(Type.Refine(Type.String(), text => parseProxy(text) !== undefined, () =>
    'must be socks5://user:password@host:port or http://user:password@host:port')),
  publicAddress: Type.Optional(ipAddress()),
  owners: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })),
}, { additionalProperties: false }), ({ address, proxy }) =>
  address === undefined || proxy === undefined, () =>
  'must have an address of this machine or a proxy, not both')

/** An egress as SMTP_EGRESS describes it. */
export type DescribedEgress = Static<typeof describedEgress>

/** The setting SMTP_EGRESS. */
export const egressSetting = Type.Refine(Type.Refine(Type.Array(describedEgress, {
  default: [],
  secret: true,
  description: 'Addresses that smtp-probe connects from, JSON: deploy/docs/mailboxes.md; secret, ' +
    'as it holds passwords of proxies. SMTP_HELO, SMTP_SENDER and SMTP_PROXY describe a single ' +
    'one instead.',
}), all => new Set(all.map(({ name }) => name)).size === all.length, () =>
  'must have different names'),
all => all.length === 0 || all.some(({ owners }) => owners === undefined), () =>
  'must have one without "owners", for all other owners')

/** An address of ours that mail servers see, and how we introduce ourselves from it. */
export type Egress = {
  readonly name: string
  readonly caller: SmtpCaller
  readonly connect: Connect
  /** Owners of mail exchanges that it is for; without it, all that no other egress names. */
  readonly owners?: readonly string[] | undefined
  /** Whether its proxy or address itself did not work lately. */
  readonly isDown: () => boolean
}

/** An egress is spared for so long after its own proxy or address did not work. */
const DOWN_MS = 30_000

/** The egress of a description; connections go to `port` of mail servers. */
export function createEgress (
  { name, helo, sender = '', address, proxy, owners }: DescribedEgress,
  { port, timeoutMs }: ConnectOptions
): Egress {
  const connect = createConnect({ port, timeoutMs, proxy, from: address })
  let upAtMs = 0
  return {
    name,
    caller: { helo, sender },
    owners,
    isDown: () => performance.now() < upAtMs,
    connect: async (target, signal) => {
      try {
        const socket = await connect(target, signal)
        upAtMs = 0
        return socket
      } catch (error) {
        const isOurs = error instanceof SmtpFault && error.kind === 'no_egress'
        if (isOurs) upAtMs = performance.now() + DOWN_MS
        throw error
      }
    },
  }
}

export type EgressPool = {
  readonly all: readonly Egress[]
  /**
   * The egress for an address at an owner, of those that do not rest there: always the same while
   * it does not rest, because servers that greylist remember it. Undefined if all of them rest.
   */
  readonly choose: (
    owner: string, address: string, isResting: (egress: string) => boolean,
  ) => Egress | undefined
}

/** A pool of egresses with different names. */
export function createEgressPool (all: readonly Egress[]): EgressPool {
  const general = all.filter(({ owners }) => owners === undefined)
  return {
    all,
    choose: (owner, address, isResting) => {
      const dedicated = all.filter(({ owners }) => owners?.includes(owner) === true)
      const ready = (dedicated.length > 0 ? dedicated : general).filter(({ name }) =>
        !isResting(name))
      const working = ready.filter(({ isDown }) => !isDown())
      // Rendezvous hashing: only the addresses of an egress that rests or returns move.
      const [best] = (working.length > 0 ? working : ready)
        .map(egress => ({ egress, score: hash('sha256', `${egress.name} ${address}`) }))
        .toSorted((a, b) => a.score < b.score ? -1 : 1)
      return best?.egress
    },
  }
}

/** Settings of egresses. */
type EgressConfig = {
  readonly SMTP_EGRESS: readonly DescribedEgress[]
  readonly SMTP_HELO?: string | undefined
  readonly SMTP_SENDER?: string | undefined
  readonly SMTP_PROXY?: string | undefined
}

/**
 * The egresses of the configuration: SMTP_EGRESS, or the single one of the other settings; none if
 * nothing is set.
 * @throws RangeError if both are set.
 */
export function describedEgresses (config: EgressConfig): readonly DescribedEgress[] {
  const { SMTP_EGRESS: all, SMTP_HELO: helo, SMTP_SENDER: sender, SMTP_PROXY: proxy } = config
  if (all.length === 0) {
    if (helo === undefined) return []
    return [{ name: 'default', helo, ...sender && { sender }, ...proxy && { proxy } }]
  }
  const others = Object.entries({ SMTP_HELO: helo, SMTP_SENDER: sender, SMTP_PROXY: proxy })
    .flatMap(([setting, value]) => value === undefined ? [] : [setting])
  if (others.length === 0) return all
  throw new RangeError(`SMTP_EGRESS replaces ${others.join(', ')}: describe that egress in ` +
    'SMTP_EGRESS, and unset the other')
}
