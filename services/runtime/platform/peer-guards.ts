// What protects a process against what others send: connections that are too many or do not read
// their answers, bodies of requests that are too slow or too large, and bodies of responses.
import type { FastifyRequest } from 'fastify'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Server, Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { CHECK_EVERY_MS, type ConnectionSettings } from './http-server.ts'
import type { FairPool, PoolReservation } from './limits.ts'
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
    const sentBytes = countSentBytes(socket)
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
function countSentBytes (socket: Socket): number {
  const { _handle, _parent } = socket as unknown as WithHandle
  const handle = _parent?._handle ?? _handle
  return handle === null ? 0 : handle.bytesWritten - handle.writeQueueSize
}

/** A body up to this size that reserves no memory may be sent at any speed. */
export const SMALL_BODY_BYTES = 64 * 1_024

/** Memory is reserved in such steps, ahead of what has arrived. */
const STEP_BYTES = 256 * 1_024

/** How fast a body must arrive while memory is reserved for it. */
export type MinimumThroughput = {
  /** There is no minimum in this time at the beginning. */
  readonly graceMs: number
  readonly bytesPerSecond: number
  /** A body with a Content-Length must be fast enough to be complete within this time. */
  readonly completeWithinMs: number
}

type BodyFault = 'slow' | 'no memory'

type BodyGuardOptions = {
  /** The memory for all bodies, in bytes, which names share. */
  readonly pool: FairPool
  readonly minimum: MinimumThroughput
  /** The largest body, once it is decompressed. */
  readonly maxBytes: number
  /** Ends a request whose body is too slow, or whose memory is needed by a name with less. */
  readonly end: (request: FastifyRequest, why: BodyFault) => void
}

/**
 * Guards the memory that bodies take while they arrive. It is reserved as their bytes come, after
 * they are decompressed, unless a route reserves it before; so what only announces a body has none.
 * A request is ended when its body is slower than the minimum throughput, or when there is no
 * memory for it. A complete body keeps its memory until the response, even if the client has
 * disconnected; one that still arrives may lose it to a name that has less.
 */
export class BodyGuard {
  readonly #options: BodyGuardOptions
  readonly #bodies = new WeakMap<FastifyRequest, GuardedBody>()

  constructor (options: BodyGuardOptions) {
    this.#options = options
  }

  /**
   * The empty reservation of a request. The caller releases it with the response; a client that
   * disconnects earlier does not, because its complete body is still processed.
   */
  open (request: FastifyRequest, name: string): PoolReservation {
    const body = new GuardedBody(request, name, this.#options)
    this.#bodies.set(request, body)
    return body.reservation
  }

  /**
   * Watches the body of a request that was opened, synchronously before its reader is attached.
   * `decoded` is the decompressed body, which may grow beyond what arrives.
   */
  watch (request: FastifyRequest, arriving: Readable, decoded = arriving): void {
    this.#bodies.get(request)?.watch(arriving, decoded)
  }

  /** Releases the memory of a request. Idempotent. */
  release (request: FastifyRequest): void {
    this.#bodies.get(request)?.release()
  }
}

/**
 * One body with its reservation. Time is counted by timer ticks instead of a clock, so that a
 * blocked event loop makes no client slow.
 */
class GuardedBody {
  readonly reservation: PoolReservation
  readonly #request: FastifyRequest
  readonly #options: BodyGuardOptions
  /** The Content-Length; undefined for a chunked body. */
  readonly #length: number | undefined
  #arrivedBytes = 0
  #elapsedMs = 0
  #arriving: Readable | undefined
  #stop = () => {}

  constructor (request: FastifyRequest, name: string, options: BodyGuardOptions) {
    this.#request = request
    this.#options = options
    this.#length = contentLength(request)
    this.reservation = options.pool.open(name, () => this.#end('no memory'))
  }

  watch (arriving: Readable, decoded: Readable): void {
    this.#arriving = arriving
    const { reservation } = this
    const { minimum, maxBytes } = this.#options
    const isPlain = arriving === decoded
    const isSmall = isPlain && this.#length !== undefined && this.#length <= SMALL_BODY_BYTES
    if (isSmall && reservation.amount === 0) return
    const mostBytes = isPlain ? this.#length ?? maxBytes : maxBytes
    let decodedBytes = 0
    const count = (piece: Buffer) => { this.#arrivedBytes += piece.length }
    const reserve = (piece: Buffer) => {
      decodedBytes += piece.length
      if (decodedBytes <= Math.max(reservation.amount, SMALL_BODY_BYTES)) return
      const ahead = Math.min(decodedBytes + STEP_BYTES, mostBytes)
      if (!reservation.grow(ahead) && !reservation.grow(decodedBytes)) this.#end('no memory')
    }
    const everyMs = Math.min(CHECK_EVERY_MS, minimum.graceMs)
    const timer = setInterval(() => {
      this.#elapsedMs += everyMs
      if (this.#isTooSlow()) this.#end('slow')
    }, everyMs).unref()
    const complete = () => {
      this.#stop()
      reservation.keep()
    }
    this.#stop = () => {
      clearInterval(timer)
      arriving.off('data', count)
      decoded.off('data', reserve).off('end', complete).off('close', complete)
    }
    arriving.on('data', count)
    decoded.on('data', reserve).once('end', complete).once('close', complete)
  }

  release (): void {
    this.#stop()
    this.reservation.release()
  }

  #end (why: BodyFault): void {
    this.release()
    // The rest stays in the socket, so the body is never complete.
    this.#arriving?.pause()
    this.#options.end(this.#request, why)
  }

  /**
   * Whether the average throughput after the grace period is below the minimum. The minimum grows
   * with the Content-Length, which reserves memory: otherwise a client could reserve most of the
   * memory for the duration of a request and send almost nothing.
   */
  #isTooSlow (): boolean {
    const { graceMs, bytesPerSecond, completeWithinMs } = this.#options.minimum
    const length = this.#length ?? 0
    if (Math.max(this.reservation.amount, length) <= SMALL_BODY_BYTES) return false
    const countedMs = this.#elapsedMs - graceMs
    const minBytesPerMs = Math.max(bytesPerSecond / 1_000, length / completeWithinMs)
    return countedMs > 0 && this.#arrivedBytes < minBytesPerMs * countedMs
  }
}

/** The Content-Length of a request; undefined for a chunked body. */
export function contentLength ({ headers }: FastifyRequest): number | undefined {
  const length = headers['content-length']
  return length === undefined ? undefined : Number(length)
}

/** A body in more pieces than this is refused: each piece costs time, however small it is. */
const MAX_PIECES = 20_000

const FIRST_BYTES = 16_384

/**
 * Reads the body of a response, without its content coding, into one buffer. Undefined for a body
 * of more than `maxBytes`, or in more than 20,000 pieces: the connection is closed then. Rejects if
 * the body is cut off or the request is aborted.
 */
export async function readBody ({ body }: Response, maxBytes: number): Promise<Buffer | undefined> {
  let bytes = Buffer.allocUnsafe(Math.min(maxBytes, FIRST_BYTES))
  let length = 0
  let pieces = 0
  for await (const piece of body ?? []) {
    pieces += 1
    if (pieces > MAX_PIECES || length + piece.length > maxBytes) return undefined
    // The pieces are copied, because an array of small ones takes far more memory than its bytes.
    if (length + piece.length > bytes.length) {
      const larger = Buffer.allocUnsafe(
        Math.min(maxBytes, Math.max(2 * bytes.length, length + piece.length)))
      bytes.copy(larger, 0, 0, length)
      bytes = larger
    }
    bytes.set(piece, length)
    length += piece.length
  }
  return bytes.subarray(0, length)
}
