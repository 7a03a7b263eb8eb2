import { createServer, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { freePort } from '../../../deploy/local/ports.ts'
import type { Zone } from '../../support/mail/dns-server.ts'

/** How the servers of one owner answer; times are those of the benchmark's faster clock. */
export type HostWays = {
  readonly owner: string
  readonly exchange: string
  readonly domains: readonly string[]
  /** The owner's own limits for one address: beyond them it refuses for now. */
  readonly sessions: number
  readonly recipientsAMinute: number
  readonly recipientsASession: number
  readonly catchAll?: true
  /** Milliseconds for which a recipient is refused after the first question for it. */
  readonly greylistMs?: number
  /** Milliseconds before each reply. */
  readonly tarpitMs?: number
  /** Every so many replies to recipients is a 451. */
  readonly failsEach?: number
  readonly pipelining?: true
}

/** What the servers of an owner saw. */
type Seen = {
  sessions: number
  recipients: number
  running: number
  mostRunning: number
  /** Times of recipients in the last minute, in ms. */
  readonly lately: number[]
  mostAMinute: number
  /** Refusals for a rate or a number of sessions that is too high. */
  refusals: number
}

export type MailHostServers = {
  readonly port: number
  readonly zones: Readonly<Record<string, Zone>>
  readonly seen: ReadonlyMap<string, Seen>
  readonly reset: () => void
  readonly stop: () => Promise<void>
}

const MINUTE_MS = 60_000

/** Whether a mailbox exists is in its name: `...n0` does not, and `...f0` is full. */
export const isMissing = (address: string): boolean => /\.n\d+@/.test(address)
export const isFullMailbox = (address: string): boolean => /\.f\d+@/.test(address)
const isMailbox = (address: string): boolean => /^(?:person\.\w\d+|postmaster)@/.test(address)

/** Servers of mail hosts, each with an address of its own in 127.0.0.0/8, at one port. */
export async function startMailHosts (hosts: readonly HostWays[]): Promise<MailHostServers> {
  const port = await freePort()
  const zones: Record<string, Zone> = {}
  const seen = new Map<string, Seen>()
  const greylisted = new Map<string, number>()
  const servers: Server[] = []
  const sockets = new Set<Socket>()
  for (const [index, ways] of hosts.entries()) {
    const address = `127.1.${Math.floor(index / 250)}.${index % 250 + 1}`
    zones[ways.exchange] = { a: [address] }
    for (const domain of ways.domains) zones[domain] = { mx: [[10, ways.exchange]] }
    const figures = seen.get(ways.owner) ?? unseen()
    seen.set(ways.owner, figures)
    const server = createServer(socket => {
      sockets.add(socket)
      socket.on('close', () => sockets.delete(socket))
      countSession(socket, figures)
      serve(socket, { ways, figures, greylisted })
    })
    await new Promise<void>(resolve => { server.listen(port, address, resolve) })
    servers.push(server)
  }
  return {
    port,
    zones,
    seen,
    reset: () => {
      for (const figures of seen.values()) {
        Object.assign(figures, unseen(), { running: figures.running })
      }
      greylisted.clear()
    },
    stop: async () => {
      for (const socket of sockets) socket.destroy()
      await Promise.all(servers.map(server =>
        new Promise<void>(resolve => { server.close(() => resolve()) })))
    },
  }
}

const unseen = (): Seen => ({
  sessions: 0, recipients: 0, running: 0, mostRunning: 0, lately: [], mostAMinute: 0, refusals: 0,
})

function countSession (socket: Socket, figures: Seen): void {
  figures.sessions += 1
  figures.running += 1
  figures.mostRunning = Math.max(figures.mostRunning, figures.running)
  socket.on('error', () => {})
  socket.on('close', () => { figures.running -= 1 })
}

function countRecipient (figures: Seen, nowMs: number): void {
  figures.recipients += 1
  figures.lately.push(nowMs)
  while ((figures.lately[0] ?? nowMs) < nowMs - MINUTE_MS) figures.lately.shift()
  figures.mostAMinute = Math.max(figures.mostAMinute, figures.lately.length)
}

/** Calls `onLine` for each line of a socket. */
function readLines (socket: Socket, onLine: (line: string) => void): void {
  let rest = ''
  socket.on('data', (bytes: Buffer) => {
    const lines = (rest + bytes.toString('latin1')).split('\r\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
  })
}

type Serving = {
  readonly ways: HostWays
  readonly figures: Seen
  readonly greylisted: Map<string, number>
}

function serve (socket: Socket, serving: Serving): void {
  const { ways, figures } = serving
  let recipients = 0
  let turn = Promise.resolve()
  const say = (text: string) => {
    turn = turn.then(async () => {
      if (ways.tarpitMs !== undefined) await delay(ways.tarpitMs)
      socket.write(`${text}\r\n`)
      if (text.startsWith('421') || text.startsWith('221')) socket.end()
    })
  }
  if (figures.running > ways.sessions) {
    figures.refusals += 1
    // Unread, the client's end would not arrive, and its session would count for ever.
    socket.resume()
    return say('421 4.7.0 Too many connections from your address, try again later')
  }
  say('220 ready')
  readLines(socket, line => {
    const verb = line.slice(0, 4).toUpperCase()
    if (verb === 'QUIT') say('221 bye')
    else if (verb === 'EHLO') say(ways.pipelining ? '250-hi\r\n250 PIPELINING' : '250 hi')
    else if (verb === 'MAIL' || verb === 'RSET') {
      recipients = 0
      say('250 ok')
    } else if (verb === 'RCPT') {
      say(replyTo(/<(.*)>/.exec(line)?.[1] ?? '', ++recipients, serving))
    } else say('502 no')
  })
}

function replyTo (address: string, number: number, { ways, figures, greylisted }: Serving): string {
  const nowMs = performance.now()
  countRecipient(figures, nowMs)
  if (figures.lately.length > ways.recipientsAMinute) {
    figures.refusals += 1
    return '421 4.7.28 Our system has detected an unusual rate of mail from your address, ' +
      'try again in 10 seconds'
  }
  if (number > ways.recipientsASession) return '452 4.5.3 Too many recipients'
  if (ways.failsEach !== undefined && figures.recipients % ways.failsEach === 0) {
    return '451 4.3.0 Temporary failure, try again in 10 seconds'
  }
  if (ways.greylistMs !== undefined) {
    const sinceMs = greylisted.get(address)
    if (sinceMs === undefined) greylisted.set(address, nowMs)
    if (nowMs - (sinceMs ?? nowMs) < ways.greylistMs) {
      const seconds = Math.ceil(ways.greylistMs / 1_000)
      return `451 4.7.1 Greylisted, try again in ${seconds} seconds`
    }
  }
  if (ways.catchAll) return '250 ok'
  if (isFullMailbox(address)) return '452 4.2.2 The mailbox is full'
  return isMailbox(address) && !isMissing(address) ? '250 ok' : '550 5.1.1 No such user'
}
