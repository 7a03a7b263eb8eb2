import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { createEgress, type Connect } from '../../../services/verify/mailboxes/egress.ts'
import type { Zone } from './dns-server.ts'

/** The reply of a server to a recipient it refuses, such as `550 5.1.1 No such user`. */
type Recipients = (address: string, connection: number) => string | undefined

/** Replies by verb; one that is promised is sent once it is there. */
export type Script =
  Readonly<Record<string, string | ((line: string) => string | Promise<string>)>>

/**
 * A real server that follows the standard, or one that follows a script: replies by verb (GREETING
 * for the first one), where `silent` sends nothing, `drop` ends the connection and what is left out
 * is accepted. Both accept their postmaster (RFC 5321, 4.5.1), unless a script has a reply by
 * POSTMASTER. `closed` has an address where no server listens.
 */
export type MailServer =
  | { readonly recipients: Recipients, readonly options?: SMTPServerOptions }
  | { readonly script: Script }
  | 'closed'

export type MailServers = {
  /** Names of all hosts with public addresses. */
  readonly zones: Readonly<Record<string, Zone>>
  /** Leads those addresses to the servers. */
  readonly connect: Connect
  /** Ports of the servers on 127.0.0.1. */
  readonly portOf: (host: string) => number
  /** Commands that came, by host; those of a real server only as `MAIL` and `RCPT`. */
  readonly heard: ReadonlyMap<string, string[]>
  readonly stop: () => Promise<void>
}

const CONNECT_TIMEOUT_MS = 120_000
/** Nothing listens at this port (discard), which only the superuser could open. */
const CLOSED_PORT = 9
const TLS_HANDSHAKE = 0x16

/** Mail servers on ports of 127.0.0.1, one a host. */
export async function startMailServers (
  servers: Readonly<Record<string, MailServer>>
): Promise<MailServers> {
  const heard = new Map<string, string[]>()
  const ports = new Map<string, number>()
  const zones: Record<string, Zone> = {}
  const stops: (() => Promise<void>)[] = []
  for (const [index, [host, server]] of Object.entries(servers).entries()) {
    const address = `93.184.${Math.floor(index / 200) + 200}.${(index % 200) + 1}`
    const commands: string[] = []
    heard.set(host, commands)
    zones[host] = { a: [address] }
    const running = server === 'closed' ? undefined : await start(server, commands)
    ports.set(address, running?.port ?? CLOSED_PORT)
    if (running !== undefined) stops.push(running.stop)
  }
  const portAt = (address = '') => ports.get(address) ?? CLOSED_PORT
  return {
    zones,
    heard,
    portOf: (host) => portAt(zones[host]?.a?.[0]),
    connect: (address, signal) => createEgress({ name: 'test', helo: 'a.org' }, {
      port: portAt(address), timeoutMs: CONNECT_TIMEOUT_MS,
    }).connect('127.0.0.1', signal),
    stop: async () => { await Promise.all(stops.map((stop) => stop())) },
  }
}

type Running = { readonly port: number, readonly stop: () => Promise<void> }

async function start (server: Exclude<MailServer, 'closed'>, heard: string[]): Promise<Running> {
  return 'script' in server
    ? await startScripted(server.script, heard)
    : await startReal(server.recipients, { ...server.options, heard })
}

type RealOptions = SMTPServerOptions & { readonly heard: string[] }

async function startReal (recipients: Recipients, { heard, ...options }: RealOptions):
Promise<Running> {
  let connections = 0
  const server = new SMTPServer({
    authOptional: true,
    disableReverseLookup: true,
    hideENHANCEDSTATUSCODES: true,
    logger: false,
    onConnect: (_session, done) => {
      connections++
      done()
    },
    onMailFrom: ({ address }, session, done) => {
      heard.push(`MAIL ${address} ${session.secure ? 'TLS' : 'plain'} ${session.hostNameAppearsAs}`)
      done()
    },
    onRcptTo: ({ address }, _session, done) => {
      heard.push(`RCPT ${address}`)
      const refusal = /^postmaster@/i.test(address) ? undefined : recipients(address, connections)
      if (refusal === undefined) return done()
      const [code = '', ...words] = refusal.split(' ')
      done(Object.assign(new Error(words.join(' ')), { responseCode: Number(code) }))
    },
    onData: () => heard.push('DATA'),
    ...options,
  })
  server.on('error', () => {})
  const listening = server.listen(0, '127.0.0.1')
  await new Promise<void>((resolve) => { listening.once('listening', resolve) })
  const { port } = listening.address() as { port: number }
  return { port, stop: () => new Promise((resolve) => { server.close(() => resolve()) }) }
}

/** A server that follows a script, on a free port of this machine or on this address and port. */
export async function startScripted (
  script: Script, heard: string[], { host = '127.0.0.1', port = 0 } = {}
): Promise<Running> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    say(socket, script['GREETING'] ?? '220 ready', '')
    let rest = ''
    socket.on('data', (bytes) => {
      // The first record of TLS is no command, whatever ends of lines its random bytes have.
      if (bytes[0] === TLS_HANDSHAKE) return say(socket, '500 what?', '')
      const lines = (rest + bytes.toString('latin1')).split('\r\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        heard.push(line)
        const verb = /^RCPT TO:<postmaster@/i.test(line)
          ? 'POSTMASTER'
          : line.split(/[ :]/)[0]?.toUpperCase() ?? ''
        say(socket, script[verb] ?? (verb === 'QUIT' ? '221 bye' : '250 fine'), line)
      }
    })
  })
  await once(server.listen(port, host), 'listening')
  const stop = async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise<void>((resolve) => { server.close(() => resolve()) })
  }
  return { port: (server.address() as AddressInfo).port, stop }
}

function say (socket: Socket, reply: Script[string], line: string): void {
  const send = (text: string) => {
    if (text === 'drop') socket.destroy()
    else if (text !== 'silent') socket.write(`${text}\r\n`)
    if (text.startsWith('221')) socket.end()
  }
  const text = typeof reply === 'string' ? reply : reply(line)
  if (typeof text === 'string') send(text)
  else text.then(send).catch(() => socket.destroy())
}
