import { parse } from 'csv-parse/sync'
import { createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { policyAt } from '../../support/mail/owner-policies.ts'
import type { ClientLog } from '../client-log.ts'
import type { Fault, Injected, Preparation, Scene } from '../fault.ts'
import { MovedClock } from '../moved-clock.ts'
import { openStack } from '../stack.ts'
import { type DnsServer, startDnsServer, type Zone } from '../../support/mail/dns-server.ts'
import { poll } from '../poll.ts'

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
const LARGE = 'mx.large-host.net'
const STRANGER = 'mx.stranger.net'

/** Who asks which host. */
type Visit = { readonly exchange: string, readonly egress: string }

/** A reply in place of the usual one; undefined for that. */
type Manner = (visit: Visit, command: string) => string | undefined

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
class MailHosts {
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
async function judgeVerdicts ({ client, promised }: ClientLog): Promise<Truth> {
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

/** The mail hosts of the environment under test; a scenario runs alone. */
let hosts: MailHosts | undefined

const EGRESSES = { a: '127.2.0.1', b: '127.2.0.2' }
/** Of each owner, which has no policy of its own, from each egress. */
const { sessions: SESSIONS, sessionsAMinute: SESSIONS_A_MINUTE, recipientsAMinute } =
  policyAt('example0.com', LARGE, { sessions: 2, sessionsAMinute: 60, ratePercent: 100 })

async function prepareHosts (): Promise<Preparation> {
  const started = await MailHosts.start()
  hosts = started
  return {
    close: () => started.stop(),
    env: {
      ...started.env,
      SMTP_EGRESS: JSON.stringify(Object.entries(EGRESSES).map(([name, address]) =>
        ({ name, address, helo: `${name}.verify.org` }))),
      SMTP_CONCURRENCY: String(SESSIONS),
      SMTP_PER_MINUTE: String(SESSIONS_A_MINUTE),
      DNS_CACHE_SECONDS: '1',
      DNS_NEGATIVE_CACHE_SECONDS: '1',
      RETRY_DEADLINE_MS: '120000',
    },
  }
}

/**
 * Ends the load, and says what no check of mailboxes may do. A clock that is set ahead grants each
 * bucket, a sixth of its rate, and all sessions once more, so many times in a minute.
 */
async function judge (
  scene: Scene, used: MailHosts, setAhead = 0
): Promise<Pick<Injected, 'breaches' | 'note'>> {
  await scene.load.stop()
  const { right, unknown, false: wrong } = await judgeVerdicts(scene.log)
  const peaks = used.peaks()
  const breaches = [
    ...wrong.slice(0, 5),
    ...unknown === 0 ? [] : [`${unknown} rows are unknown, ${right} are right`],
    ...used.forbidden.slice(0, 5).map(command => `a check sent ${command}`),
    ...([
      ['sessions', SESSIONS * (1 + setAhead)],
      ['sessionsAMinute', SESSIONS_A_MINUTE * (1 + setAhead / 6)],
      ['recipientsAMinute', recipientsAMinute.most * (1 + setAhead / 6)],
    ] as const).filter(([name, most]) => peaks[name] > most)
      .map(([name, most]) => `${peaks[name]} ${name} of an owner from an egress, at most ${most}`),
  ]
  return {
    breaches,
    note: `${right} right verdicts; of an owner from an egress at most ${peaks.sessions} ` +
      `sessions at once, ${peaks.sessionsAMinute} new ones and ${peaks.recipientsAMinute} ` +
      'recipients a minute',
  }
}

const EMAILS = { emailShare: 1, bulkShare: 0, webhookShare: 0, clients: 2, smallRows: 30 } as const
const LYING_MS = 60_000

/** What the resolver says of a zone instead; undefined if it denies that the name exists. */
const LIES: Readonly<Record<string, (zone: Zone) => Zone | undefined>> = {
  fails: () => ({ fault: 'SERVFAIL' }),
  'knows no name': () => undefined,
  'is silent': () => ({ fault: 'silent' }),
  'answers garbage': () => ({ fault: 'garbage' }),
  refuses: () => ({ fault: 'REFUSED' }),
  'names servers of somebody else': zone =>
    zone.mx === undefined ? zone : { mx: [[10, STRANGER]] },
}

const lying: Fault = {
  name: 'mail-resolver-lies',
  kind: 'outside',
  about: 'the resolver lies for a minute: it fails, denies every name, is silent, answers ' +
    'garbage, and names servers of somebody else: no verdict is false',
  load: EMAILS,
  prepare: prepareHosts,
  inject: async scene => {
    const { load, say } = scene
    const used = hosts as MailHosts
    const { dns } = used
    await load.untilEnded(5)
    const truth = new Map(dns.zones)
    used.behave(({ exchange }, command) => exchange === STRANGER && command.startsWith('RCPT')
      ? '550 5.7.1 Relay access denied'
      : undefined)
    for (const [what, lie] of Object.entries(LIES)) {
      dns.zones.clear()
      for (const [name, zone] of truth) {
        const untrue = lie(zone)
        if (untrue !== undefined) dns.zones.set(name, untrue)
      }
      say(`the resolver ${what}`)
      await sleep(LYING_MS / Object.keys(LIES).length)
    }
    for (const [name, zone] of truth) dns.zones.set(name, zone)
    await load.untilEnded(5, 120_000)
    return { injected: Object.keys(LIES).length, ...await judge(scene, used) }
  },
}

/** Of the Redis with the memory of mail servers. */
let clock: MovedClock | undefined

/** The large host says that each egress is too fast; waits until it has. */
async function untilResting (used: MailHosts): Promise<readonly string[]> {
  const resting = new Set<string>()
  used.behave(({ exchange, egress }, command) => {
    if (exchange !== LARGE || !command.startsWith('RCPT')) return undefined
    resting.add(egress)
    return '421 4.7.28 unusual rate of mail from your address, try again in 20 seconds'
  })
  const all = Object.keys(EGRESSES).length
  await poll(() => resting.size === all || undefined, 60_000, 50)
  used.behave()
  if (resting.size === all) return []
  return [`${LARGE} was asked from ${resting.size} of ${all} egresses in a minute`]
}

const jumping: Fault = {
  name: 'mail-clock-jumps',
  kind: 'clock',
  about: 'the clock of the limits of mail servers jumps an hour ahead, back, five minutes back ' +
    'and ahead, while hosts rest and a process is killed in its sessions: no host is held or ' +
    'asked for longer, and no row is lost',
  load: { ...EMAILS, clients: 3, smallRows: 100 },
  missing: async () => await MovedClock.create().then(() => undefined, (error: Error) =>
    `the clock of Redis cannot be moved without a C compiler: ${error.message}`),
  stack: async () => {
    clock = await MovedClock.create()
    return await openStack({ envOfParts: { 'redis-cache': clock.env } })
  },
  prepare: async () => {
    const { env, ...prepared } = await prepareHosts()
    // A session that was killed has its lease for 50 s.
    return { ...prepared, scale: { verify: 2 }, env: { ...env, SMTP_SESSION_TIMEOUT_MS: '20000' } }
  },
  inject: async scene => {
    const { environment: { services }, load, say } = scene
    const used = hosts as MailHosts
    const jumpTo = async (minutes: number, ended: number) => {
      clock?.set(60 * minutes)
      say(`the clock is off by ${minutes} minutes`)
      if (await load.untilEnded(ended, 180_000)) return []
      return [`fewer than ${ended} jobs have ended in 3 minutes with a clock off by ${minutes}`]
    }
    await load.untilEnded(3, 120_000)
    const held = [...await jumpTo(60, 3), ...await untilResting(used)]
    services.kill('verify-1', 'SIGKILL')
    held.push(...await jumpTo(0, 6), ...await untilResting(used))
    services.kill('verify-2', 'SIGKILL')
    held.push(...await jumpTo(-5, 6), ...await jumpTo(0, 3))
    const { breaches = [], ...judged } = await judge(scene, used, 1)
    return { injected: 4, ...judged, breaches: [...breaches, ...held] }
  },
}

/** What goes wrong around checks of mailboxes. */
export const mail: readonly Fault[] = [lying, jumping]
