import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Server, Socket } from 'node:net'
import { CHECK_EVERY_MS, type ConnectionSettings } from './http-server.ts'
import { clientNetwork, type Networks, plainAddress } from './networks.ts'

type Guarded = Pick<Server, 'on' | 'maxConnections' | 'listeners' | 'removeAllListeners' | 'once'>

/**
 * Protects a server with a handler of requests against its clients: limits the number of open
 * connections, handles the requests of a connection in turn, and closes connections whose answers
 * are not read.
 */
export function guardConnections (
  server: Guarded, settings: ConnectionSettings, proxies: Networks
): void {
  capConnections(server, settings, proxies)
  const [handle] = server.listeners('request')
  const turns = new RequestTurns((...exchange) => {
    Reflect.apply(handle as () => void, server, exchange)
  }, proxies)
  server.removeAllListeners('request')
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    turns.take(request, response)
  })
  closeUnread(server, turns.connections, { settings, proxies })
}

/**
 * Limits the number of open connections, in total and per client. Proxies have no limit per client,
 * since they forward many clients.
 */
function capConnections (
  server: Guarded, settings: ConnectionSettings, proxies: Networks
): void {
  server.maxConnections = settings.MAX_CONNECTIONS
  const open = new Map<string, number>()
  server.on('connection', socket => {
    if (proxies.has(plainAddress(socket.remoteAddress))) return
    const client = clientNetwork(socket.remoteAddress)
    const before = open.get(client) ?? 0
    if (before >= settings.MAX_CONNECTIONS_PER_ADDRESS) {
      socket.destroy()
      return
    }
    open.set(client, before + 1)
    socket.once('close', () => {
      const left = (open.get(client) ?? 0) - 1
      if (left > 0) open.set(client, left)
      else open.delete(client)
    })
  })
}

/** A request with its response. */
type Exchange = readonly [request: IncomingMessage, response: ServerResponse]

/** Requests of a connection: one is handled, others wait. */
type Connection = {
  readonly client: string
  readonly socket: Socket
  state: 'idle' | 'ready' | 'busy'
  readonly waiting: Exchange[]
}

/** A connection with so many waiting requests is not read any further. */
const MAX_READ_AHEAD = 4
/** The parser takes all requests of 64 KiB at once; above these a connection is closed. */
const MAX_WAITING = { all: 10_000, ofClient: 2_000 } as const
/** Some milliseconds of work. */
const MAX_STARTS_PER_TURN = 16

/**
 * Hands the requests of a connection to a handler one after another, each once the response before
 * it was sent: Node would start all at once. Waiting ones end with their connection. A turn of the
 * event loop starts a few requests; above that the clients take turns.
 */
class RequestTurns {
  /** The open connections with a request. */
  readonly connections = new Map<Socket, Connection>()
  readonly #handle: (request: IncomingMessage, response: ServerResponse) => void
  readonly #proxies: Networks
  readonly #waitingOf = new Map<string, number>()
  /** Connections whose next request may start, by client; the first client is the next one. */
  readonly #ready = new Map<string, Connection[]>()
  #waiting = 0
  #started = 0
  #isScheduled = false

  constructor (
    handle: (request: IncomingMessage, response: ServerResponse) => void, proxies: Networks
  ) {
    this.#handle = handle
    this.#proxies = proxies
  }

  take (request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    // The parser reads on to the end of what has arrived.
    if (socket.destroyed) return
    const connection = this.connections.get(socket) ?? this.#open(socket)
    const mayStart = connection.state === 'idle' && this.#ready.size === 0 &&
      this.#started < MAX_STARTS_PER_TURN
    if (mayStart) this.#start(connection, [request, response])
    else this.#wait(connection, [request, response])
  }

  #open (socket: Socket): Connection {
    const client = clientNetwork(socket.remoteAddress)
    const connection: Connection = { client, socket, state: 'idle', waiting: [] }
    this.connections.set(socket, connection)
    socket.once('close', () => {
      this.connections.delete(socket)
      this.#drop(connection)
    })
    return connection
  }

  #start (connection: Connection, [request, response]: Exchange): void {
    connection.state = 'busy'
    this.#started += 1
    this.#schedule()
    response.once('close', () => this.#finish(connection))
    this.#handle(request, response)
  }

  #finish (connection: Connection): void {
    connection.state = 'idle'
    const { socket, waiting } = connection
    if (socket.destroyed || socket.writableEnded) this.#drop(connection)
    if (waiting.length < MAX_READ_AHEAD && socket.isPaused()) socket.resume()
    if (waiting.length > 0) this.#makeReady(connection)
  }

  #wait (connection: Connection, exchange: Exchange): void {
    const { client, socket, waiting } = connection
    const isProxy = this.#proxies.has(plainAddress(socket.remoteAddress))
    const maxOfClient = isProxy ? MAX_WAITING.all : MAX_WAITING.ofClient
    const ofClient = this.#waitingOf.get(client) ?? 0
    if (this.#waiting >= MAX_WAITING.all || ofClient >= maxOfClient) {
      socket.destroy()
      return
    }
    this.#count(connection, 1)
    waiting.push(exchange)
    if (connection.state === 'idle') this.#makeReady(connection)
    // After the parser, which resumes the socket at the end of each request.
    if (waiting.length === MAX_READ_AHEAD) {
      process.nextTick(() => { if (waiting.length >= MAX_READ_AHEAD) socket.pause() })
    }
  }

  #makeReady (connection: Connection): void {
    connection.state = 'ready'
    const others = this.#ready.get(connection.client)
    if (others === undefined) this.#ready.set(connection.client, [connection])
    else others.push(connection)
    this.#schedule()
  }

  #schedule (): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#started = 0
      for (let start = 0; start < MAX_STARTS_PER_TURN && this.#ready.size > 0; start++) {
        this.#startNext()
      }
      if (this.#ready.size > 0) this.#schedule()
    })
  }

  /** Starts a request of the next client, which is the last one then. */
  #startNext (): void {
    const [client, connections] = this.#ready.entries().next().value ?? []
    const connection = connections?.shift()
    if (client === undefined || connections === undefined || connection === undefined) return
    this.#ready.delete(client)
    if (connections.length > 0) this.#ready.set(client, connections)
    connection.state = 'idle'
    const next = connection.waiting.shift()
    if (next === undefined) return
    this.#count(connection, -1)
    this.#start(connection, next)
  }

  #drop (connection: Connection): void {
    this.#count(connection, -connection.waiting.length)
    connection.waiting.length = 0
  }

  #count ({ client }: Connection, change: number): void {
    this.#waiting += change
    const left = (this.#waitingOf.get(client) ?? 0) + change
    if (left > 0) this.#waitingOf.set(client, left)
    else this.#waitingOf.delete(client)
  }
}

/** What a connection has not read: since when, in ticks, and the bytes sent until then. */
type Unread = { sinceMs: number, sentBytes: number }

/**
 * Closes connections that read their answers too slowly, and those with most unread bytes while
 * there are too many of one client or of all. Time is counted by timer ticks instead of a clock, so
 * that a blocked event loop makes no client slow.
 */
function closeUnread (
  server: Guarded, connections: ReadonlyMap<Socket, Connection>,
  { settings, proxies }: { readonly settings: ConnectionSettings, readonly proxies: Networks }
): void {
  const { READ_WITHIN_MS: withinMs, READ_BYTES_PER_SECOND: bytesPerSecond } = settings
  const everyMs = Math.min(CHECK_EVERY_MS, withinMs)
  const unread = new WeakMap<Socket, Unread>()
  const isStalled = (socket: Socket): boolean => {
    const sentBytes = sentBytesOf(socket)
    const before = unread.get(socket)
    if (before === undefined) {
      unread.set(socket, { sinceMs: 0, sentBytes })
      return false
    }
    before.sinceMs += everyMs
    if (before.sinceMs < withinMs) return false
    if (sentBytes - before.sentBytes < bytesPerSecond * withinMs / 1_000) return true
    unread.set(socket, { sinceMs: 0, sentBytes })
    return false
  }
  const timer = setInterval(() => {
    const pending: Connection[] = []
    for (const connection of connections.values()) {
      const { socket } = connection
      if (socket.writableLength === 0) unread.delete(socket)
      else if (isStalled(socket)) socket.destroy()
      else pending.push(connection)
    }
    const direct = pending.filter(({ socket }) => !proxies.has(plainAddress(socket.remoteAddress)))
    for (const ofClient of Map.groupBy(direct, ({ client }) => client).values()) {
      closeAbove(ofClient, settings.MAX_UNREAD_BYTES_PER_ADDRESS)
    }
    closeAbove(pending, settings.MAX_UNREAD_BYTES)
  }, everyMs).unref()
  server.once('close', () => clearInterval(timer))
}

/** Closes the connections with most unread bytes until the others have no more than `maxBytes`. */
function closeAbove (connections: readonly Connection[], maxBytes: number): void {
  const open = connections.map(({ socket }) => socket).filter(({ destroyed }) => !destroyed)
  let bytes = open.reduce((sum, { writableLength }) => sum + writableLength, 0)
  if (bytes <= maxBytes) return
  for (const socket of open.toSorted((a, b) => b.writableLength - a.writableLength)) {
    if (bytes <= maxBytes) return
    bytes -= socket.writableLength
    socket.destroy()
  }
}

type Handle = { readonly bytesWritten: number, readonly writeQueueSize: number }
type WithHandle = { readonly _handle: Handle | null, readonly _parent?: WithHandle | null }

/**
 * The bytes that the system has taken, of a large write those so far. Only the handle has them:
 * Node's own timeout reads it too. A socket with TLS writes through the one below it.
 */
function sentBytesOf (socket: Socket): number {
  const { _handle, _parent } = socket as unknown as WithHandle
  const handle = _parent?._handle ?? _handle
  return handle === null ? 0 : handle.bytesWritten - handle.writeQueueSize
}
