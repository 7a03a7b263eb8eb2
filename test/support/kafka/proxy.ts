import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  correlationIdOf, createSplitter, type KafkaApi, type KafkaError, type KafkaRequest, readRequest,
  refusal, renamePorts,
} from './wire.ts'
import { listen } from '../listen.ts'

/** What the proxy does to a request or to its answer. */
type What =
  /** The broker never receives it, and the connection stays. */
  | 'lose request'
  /** The broker executes it, and the answer is dropped; the connection stays. */
  | 'lose answer'
  /** Half of the request arrives, then both connections are reset. */
  | 'cut in request'
  /** The broker executes it, and the connection is reset instead of answered. */
  | 'cut before answer'
  /** The answer, and whatever follows it on the connection, comes later. */
  | 'delay answer'
  /** The broker never receives it, and an error is the answer. */
  | 'refuse'

export type ProxyFault = {
  readonly api: KafkaApi
  readonly what: What
  /** It begins with the nth matching request from now on; 1 is the next. */
  readonly nth?: number
  /** The number of matching requests, one after another; default 1, Infinity until `end`. */
  readonly times?: number
  readonly delayMs?: number
  readonly error?: KafkaError
  /** Which clients are meant, by the beginning of their names; all when left out. */
  readonly client?: string
  /** Only answers at least so large are lost, cut or delayed: a fetch that brings messages. */
  readonly answerBytes?: number
}

type Injected = {
  /** Resolves when the fault has happened as often as it was to. */
  readonly done: Promise<void>
  /** How often it happened so far. */
  readonly count: () => number
  /** It happens no more. */
  readonly end: () => void
}

/** A fault that waits for the frames it is meant for. */
type Trap = Injected & {
  readonly fault: ProxyFault
  readonly takes: (request: KafkaRequest) => boolean
  /** True if the fault happens now, which counts. */
  readonly springs: (frame: Buffer) => boolean
}

/** Makes a trap: `takes` matches a request, `springs` the frame of the fault. */
function createTrap (fault: ProxyFault): Trap {
  const { api, nth = 1, times = 1, client = '', answerBytes = 0 } = fault
  const { promise: done, resolve } = Promise.withResolvers<void>()
  let fitting = 0
  let count = 0
  let ended = false
  return {
    fault,
    done,
    count: () => count,
    end: () => { ended = true },
    takes: request => {
      if (ended || request.api !== api || !request.clientId.startsWith(client)) return false
      fitting += 1
      return fitting >= nth
    },
    springs: frame => {
      if (ended || frame.length < answerBytes) return false
      count += 1
      ended = count >= times
      if (ended) resolve()
      return true
    },
  }
}

type Traffic = {
  readonly requests: number
  /** Those of them that the broker has answered. */
  readonly answers: number
  /** The largest number of requests of this kind that waited for answers on one connection. */
  readonly mostWaiting: number
  readonly largestRequestBytes: number
  readonly answerBytes: number
}

export type ProxyOptions = {
  /** `host:port` of each broker. */
  readonly brokers: readonly string[]
  /** The port to name in the place of the proxy's own, when another proxy is in front of it. */
  readonly namePort?: (ownPort: number) => number
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] }
type Tap = {
  readonly traps: Trap[]
  readonly trafficOf: (api: KafkaApi | undefined) => Mutable<Traffic>
  readonly portOf: (brokerPort: number) => number
}

/**
 * A proxy before one or several Kafka brokers that understands their frames: everything passes
 * unchanged, but for the ports in answers that name brokers, until a fault is injected.
 */
export async function startKafkaProxy (options: ProxyOptions) {
  const { brokers, namePort = port => port } = options
  const traps: Trap[] = []
  const links = new Set<Link>()
  const traffic = new Map<KafkaApi | undefined, Mutable<Traffic>>()
  const ports = new Map<number, number>()
  const tap: Tap = {
    traps,
    portOf: port => ports.get(port) ?? port,
    trafficOf: api => {
      const known = traffic.get(api) ?? emptyTraffic()
      traffic.set(api, known)
      return known
    },
  }
  const servers = await Promise.all(brokers.map(async broker => {
    const target = portOfAddress(broker)
    const server = createServer({ noDelay: true }, socket => {
      const link = openLink(socket, target, tap)
      links.add(link)
      socket.once('close', () => links.delete(link))
    })
    ports.set(target, namePort(await listen(server)))
    return server
  }))
  const cutAll = () => { for (const link of [...links]) link.cut() }
  return {
    /** Where clients connect, one address a broker; the answers of the brokers name these too. */
    addresses: servers.map(server => `127.0.0.1:${(server.address() as AddressInfo).port}`),
    /** Resets every connection there is. */
    cutAll,
    traffic: (api: KafkaApi): Traffic => ({ ...tap.trafficOf(api) }),
    /** Injects a fault into later requests; of several that fit, the oldest acts. */
    inject: (fault: ProxyFault): Injected => {
      const trap = createTrap(fault)
      traps.push(trap)
      return trap
    },
    close: async () => {
      const closed = servers.map(server => once(server, 'close'))
      for (const server of servers) server.close()
      cutAll()
      await Promise.all(closed)
    },
  }
}

const emptyTraffic = (): Mutable<Traffic> =>
  ({ requests: 0, answers: 0, mostWaiting: 0, largestRequestBytes: 0, answerBytes: 0 })

const portOfAddress = (address: string): number => Number(address.split(':').at(-1))

type Link = { readonly cut: () => void }
type Waiting = { readonly request: KafkaRequest, readonly trap: Trap | undefined }

/** Joins a client's connection to one of its own to the broker. */
function openLink (client: Socket, port: number, tap: Tap): Link {
  const broker = connect({ port, host: '127.0.0.1', noDelay: true })
  const waiting = new Map<number, Waiting>()
  const toBroker = createWriter(broker, client)
  const toClient = createWriter(client, broker)
  const cut = () => {
    client.resetAndDestroy()
    broker.resetAndDestroy()
  }
  const onRequest = (frame: Buffer) => {
    const request = readRequest(frame)
    const trap = tap.traps.find(candidate => candidate.takes(request))
    if (trap !== undefined && stopsRequest(request, trap, { toBroker, toClient, cut })) return
    waiting.set(request.correlationId, { request, trap })
    count(tap.trafficOf(request.api), request, waiting)
    toBroker(frame)
  }
  const onAnswer = (frame: Buffer) => {
    const answered = waiting.get(correlationIdOf(frame))
    if (answered === undefined) return toClient(frame)
    waiting.delete(answered.request.correlationId)
    const traffic = tap.trafficOf(answered.request.api)
    traffic.answers += 1
    traffic.answerBytes += frame.length
    renamePorts(answered.request, frame, tap.portOf)
    if (!answered.trap?.springs(frame)) return toClient(frame)
    const { what, delayMs = 0 } = answered.trap.fault
    if (what === 'cut before answer') cut()
    if (what === 'delay answer') toClient(frame, delayMs)
  }
  feed(client, createSplitter(onRequest), cut)
  feed(broker, createSplitter(onAnswer), cut)
  // One end that closes closes the other: what is under way is written out first.
  client.once('close', () => broker.end())
  broker.once('close', () => client.end())
  return { cut }
}

type Ends = {
  readonly toBroker: (bytes: Buffer) => void
  readonly toClient: (bytes: Buffer) => void
  readonly cut: () => void
}

/** Acts on a request before the broker has it; false when the fault concerns its answer. */
function stopsRequest (request: KafkaRequest, trap: Trap, { toBroker, toClient, cut }: Ends) {
  const { what, error = 'NOT_LEADER_OR_FOLLOWER' } = trap.fault
  if (['lose answer', 'cut before answer', 'delay answer'].includes(what)) return false
  if (!trap.springs(request.frame)) return false
  if (what === 'refuse') toClient(refusal(request, error))
  if (what === 'cut in request') {
    toBroker(request.frame.subarray(0, Math.ceil(request.frame.length / 2)))
    setImmediate(cut)
  }
  return true
}

function count (
  traffic: Mutable<Traffic>, { api, frame }: KafkaRequest, waiting: ReadonlyMap<number, Waiting>
): void {
  const alike = [...waiting.values()].filter(({ request }) => request.api === api).length
  traffic.requests += 1
  traffic.mostWaiting = Math.max(traffic.mostWaiting, alike)
  traffic.largestRequestBytes = Math.max(traffic.largestRequestBytes, frame.length)
}

function feed (socket: Socket, split: (chunk: Buffer) => void, cut: () => void): void {
  socket.on('error', cut)
  socket.on('data', (chunk: Buffer) => {
    try {
      split(chunk)
    } catch (error) {
      console.error(error)
      cut()
    }
  })
}

/** Writes in order, after the delay if any; a full target makes its source wait. */
function createWriter (target: Socket, source: Socket): (bytes: Buffer, afterMs?: number) => void {
  let held = 0
  let tail = Promise.resolve()
  const write = (bytes: Buffer) => {
    if (target.destroyed || target.write(bytes)) return
    source.pause()
    target.once('drain', () => source.resume())
  }
  return (bytes, afterMs = 0) => {
    if (held === 0 && afterMs === 0) return write(bytes)
    held += 1
    tail = tail.then(() => sleep(afterMs)).then(() => {
      held -= 1
      write(bytes)
    })
  }
}
