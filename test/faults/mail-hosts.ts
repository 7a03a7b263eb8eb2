import { createServer, type Server, type Socket } from 'node:net'
import { parse } from 'csv-parse/sync'
import { type DnsServer, startDnsServer, type Zone } from '../support/mail/dns-server.ts'
import type { ClientLog } from './client-log.ts'

/** A mail host of the double: an exchange of an owner of its own, at an address of its own. */
type MailHost = { readonly exchange: string, readonly address: string, readonly domains: number }

/** They share the domains `example0.com` to `example6.com` of the load. */
const HOSTS: readonly MailHost[] = [
  { exchange: 'mx.large-host.net', address: '127.1.0.1', domains: 4 },
  { exchange: 'mx.middle-host.net', address: '127.1.0.2', domains: 2 },
  { exchange: 'mx.small-host.net', address: '127.1.0.3', domains: 1 },
  // Of somebody else: it relays for none of the domains.
  { exchange: 'mx.stranger.net', address: '127.1.0.4', domains: 0 },
]
/** The exchange with most rows. */
export const LARGE = 'mx.large-host.net'
export const STRANGER = 'mx.stranger.net'

/** Who asks which host. */
type Visit = { readonly exchange: string, readonly egress: string }

/** A reply in place of the usual one; undefined for that. */
export type Manner = (visit: Visit, command: string) => string | undefined

const MINUTE_MS = 60_000

/** Whether the mailbox of an address exists; made-up names do not, and postmasters do. */
function exists (address: string): boolean {
  if (address.startsWith('postmaster@')) return true
  const [, serial] = /^person\.(\d+)@/.exec(address) ?? []
  return serial !== undefined && Number(serial) % 3 !== 1
}

/**
 * Mail servers with known mailboxes, and the resolver that names them. They note what is asked of
 * them by each source address.
 */
export class MailHosts {
  readonly dns: DnsServer
  readonly port: number
  /** Commands that no check may send. */
  readonly forbidden: string[] = []
  #manner: Manner = () => undefined
  readonly #servers: readonly Server[]
  readonly #sockets = new Set<Socket>()
  readonly #open = new Map<string, number>()
  readonly #mostOpen = new Map<string, number>()
  readonly #sessions = new Map<string, number[]>()
  readonly #recipients = new Map<string, number[]>()

  private constructor (dns: DnsServer, port: number, servers: readonly Server[]) {
    this.dns = dns
    this.port = port
    this.#servers = servers
  }

  static async start (): Promise<MailHosts> {
    const servers = HOSTS.map(() => createServer())
    let port = 0
    for (const [index, server] of servers.entries()) {
      port = await listen(server, port, HOSTS[index]?.address ?? '')
    }
    const hosts = new MailHosts(await startDnsServer(zones()), port, servers)
    for (const [index, server] of servers.entries()) {
      const exchange = HOSTS[index]?.exchange ?? ''
      server.on('connection', socket => hosts.#greet(socket, exchange))
    }
    return hosts
  }

  /** Settings of `verify` for these hosts. */
  get env (): Readonly<Record<string, string>> {
    return {
      DNS_SERVERS: this.dns.address,
      SMTP_PORT: String(this.port),
      SMTP_ALLOW_PRIVATE: 'true',
      PROVIDERS: JSON.stringify({
        'phone-validation': ['numbering-plan'], 'email-validation': ['smtp-probe'],
      }),
    }
  }

  /** From now on, also in sessions that are open. */
  behave (manner: Manner = () => undefined): void {
    this.#manner = manner
  }

  /** Sessions that began, and recipients asked, of an exchange from a source address. */
  countOf (visit: Visit): { readonly sessions: number, readonly recipients: number } {
    const key = keyOf(visit)
    return {
      sessions: this.#sessions.get(key)?.length ?? 0,
      recipients: this.#recipients.get(key)?.length ?? 0,
    }
  }

  /** What any exchange met from one source address: at once, and within any minute. */
  peaks () {
    return {
      sessions: Math.max(0, ...this.#mostOpen.values()),
      sessionsAMinute: busiestMinute(this.#sessions),
      recipientsAMinute: busiestMinute(this.#recipients),
    }
  }

  async stop (): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await Promise.all([this.dns.stop(), ...this.#servers.map(server =>
      new Promise<void>(resolve => { server.close(() => resolve()) }))])
  }

  #greet (socket: Socket, exchange: string): void {
    const visit = { exchange, egress: socket.remoteAddress ?? '' }
    const key = keyOf(visit)
    const open = (this.#open.get(key) ?? 0) + 1
    this.#open.set(key, open)
    this.#mostOpen.set(key, Math.max(this.#mostOpen.get(key) ?? 0, open))
    note(this.#sessions, key)
    this.#sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => {
      this.#open.set(key, (this.#open.get(key) ?? 1) - 1)
      this.#sockets.delete(socket)
    })
    const say = (command: string) => {
      const reply = this.#manner(visit, command) ?? usualReply(command)
      socket.write(`${reply}\r\n`)
      if (/^(221|421|554)/.test(reply)) socket.end()
    }
    say('')
    let rest = ''
    socket.setEncoding('latin1').on('data', (text: string) => {
      const lines = (rest + text).split('\r\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (line.startsWith('RCPT')) note(this.#recipients, key)
        if (/^(DATA|VRFY|EXPN|BDAT|AUTH)/.test(line)) this.forbidden.push(line)
        if (socket.writable) say(line)
      }
    })
  }
}

const keyOf = ({ exchange, egress }: Visit) => `${exchange} ${egress}`

function note (times: Map<string, number[]>, key: string): void {
  const list = times.get(key) ?? []
  times.set(key, list)
  list.push(Date.now())
}

function busiestMinute (times: ReadonlyMap<string, readonly number[]>): number {
  let most = 0
  for (const list of times.values()) {
    let first = 0
    for (const [index, atMs] of list.entries()) {
      while (atMs - (list[first] ?? 0) >= MINUTE_MS) first++
      most = Math.max(most, index - first + 1)
    }
  }
  return most
}

/** The reply to a command; the empty one is the greeting. */
function usualReply (command: string): string {
  const [, address] = /^RCPT TO:<([^>]*)>/i.exec(command) ?? []
  if (address !== undefined) return exists(address) ? '250 2.1.5 fine' : '550 5.1.1 no such user'
  if (command === '') return '220 ready'
  if (/^EHLO/i.test(command)) return '250-hello\r\n250-PIPELINING\r\n250 ENHANCEDSTATUSCODES'
  return /^QUIT/i.test(command) ? '221 2.0.0 bye' : '250 2.0.0 fine'
}

async function listen (server: Server, wanted: number, address: string): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(wanted, address, resolve)
  })
  return (server.address() as { readonly port: number }).port
}

/** Exchanges, and the domains of each. */
function zones (): Readonly<Record<string, Zone>> {
  const owners = HOSTS.flatMap(({ exchange, domains }) => Array.from({ length: domains }, () =>
    exchange))
  return {
    ...Object.fromEntries(HOSTS.map(({ exchange, address }) => [exchange, { a: [address] }])),
    ...Object.fromEntries(owners.map((exchange, index): [string, Zone] =>
      [`example${index}.com`, { mx: [[10, exchange]] }])),
  }
}

/** Rows of e-mail addresses by how true their verdicts are, once all jobs have ended. */
type Truth = { readonly right: number, readonly unknown: number, readonly false: readonly string[] }

/** Compares the results of all jobs of a load with the mailboxes that there are. */
export async function judgeVerdicts ({ client, promised }: ClientLog): Promise<Truth> {
  const wrong: string[] = []
  let [right, unknown] = [0, 0]
  for (const { id } of promised) {
    await client.waitForEnd(id, { timeoutMs: 240_000 })
    const rows = parse(await client.results(id), { columns: true }) as
      Readonly<Record<string, string>>[]
    for (const { input = '', status = '', reason = '' } of rows) {
      if (!/^person\.\d+@example\d\.com$/.test(input)) continue
      if (status === 'unknown') unknown += 1
      else if (status === (exists(input) ? 'valid' : 'invalid')) right += 1
      else wrong.push(`${input} of ${id} is ${status} (${reason})`)
    }
  }
  return { right, unknown, false: wrong }
}
