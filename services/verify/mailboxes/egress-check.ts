import { once } from 'node:events'
import { createServer, isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { readDomain } from '../../mail/owners.ts'
import { isPublicAddress } from '../../runtime/platform/networks.ts'
import { DnsFault, type DnsRecords, reversed } from './dns-records.ts'
import type { DescribedEgress, Egress } from './egress.ts'
import type { SmtpReply } from './replies.ts'
import { SmtpChannel, SmtpFault } from './session.ts'
import { checkSpf, type SpfResult } from './spf.ts'

/** What a mail server sees of an egress, and what to do about it. */
export type EgressFinding = {
  readonly check:
    'address' | 'connection' | 'reverse name' | 'helo' | 'sender' | 'spf' | 'block list'
  /** `advice`: some servers mind it. `unknown`: the DNS gave no answer. */
  readonly level: 'good' | 'advice' | 'unknown' | 'fault'
  readonly text: string
  readonly todo?: string
}

export type EgressReport = {
  readonly name: string
  readonly helo: string
  /** Empty for the null sender. */
  readonly sender: string
  /** The addresses that mail servers see, as far as they are known. */
  readonly addresses: readonly string[]
  readonly findings: readonly EgressFinding[]
}

type EgressCheckOptions = {
  readonly dns: DnsRecords
  /** Zones of DNS block lists (RFC 5782). */
  readonly blockLists: readonly string[]
}

/** What to look at besides the DNS. */
type EgressCheckRequest = {
  /** Whether connections will come from this machine, which must have the address. */
  readonly isOfThisMachine?: boolean
  /** A mail exchange to connect to, by this egress. */
  readonly connection?: {
    readonly egress: Egress, readonly host: string, readonly timeoutMs: number,
  }
}

type Finding = Omit<EgressFinding, 'check'>

const good = (text: string): Finding => ({ level: 'good', text })
const advice = (text: string, todo: string): Finding => ({ level: 'advice', text, todo })
const fault = (text: string, todo: string): Finding => ({ level: 'fault', text, todo })

/** Names that look like those of dial-up lines, which many servers refuse. */
const DYNAMIC_NAME = /(?:\d{1,3}[.-]){3}\d{1,3}|\b(?:dsl|dyn|dynamic|dhcp|pool|dialup|cable)\b/i

/** Checks what mail servers see of our egresses. Its methods never reject for the DNS. */
export class EgressChecks {
  readonly #options: EgressCheckOptions
  /** Whether a block list answers for its test entry. */
  readonly #lists = new Map<string, Promise<boolean>>()

  constructor (options: EgressCheckOptions) {
    this.#options = options
  }

  async check (described: DescribedEgress, request: EgressCheckRequest = {}):
  Promise<EgressReport> {
    const { name, helo, sender = '' } = described
    const findings: EgressFinding[] = []
    const add = (check: EgressFinding['check'], finding: Finding) =>
      findings.push({ check, ...finding })
    if (request.isOfThisMachine === true && described.address !== undefined) {
      const finding = await checkLocalAddress(described.address)
      if (finding !== undefined) add('address', finding)
    }
    let seen: string | undefined
    if (request.connection !== undefined) {
      const { address, ...finding } = await this.#connect(helo, request.connection)
      add('connection', finding)
      seen = address
    }
    const addresses = await this.#addresses(described, seen, finding => add('address', finding))
    for (const address of addresses) {
      add('reverse name', await orUnknown(this.#reverseName(address, helo)))
      add('helo', await orUnknown(this.#helo(address, helo)))
      add('spf', await this.#spf(address, { helo, sender }))
      for (const zone of this.#options.blockLists) {
        add('block list', await orUnknown(this.#blockList(address, zone)))
      }
    }
    if (sender !== '') add('sender', await orUnknown(this.#sender(sender)))
    return { name, helo, sender, addresses, findings }
  }

  /** What mail servers see: what one of them says, the configuration says, or HELO suggests. */
  async #addresses (
    { address, publicAddress, helo }: DescribedEgress, seen: string | undefined,
    add: (finding: Finding) => void
  ): Promise<readonly string[]> {
    const expected = publicAddress ??
      (address !== undefined && isPublicAddress(address) ? address : undefined)
    if (seen !== undefined && expected !== undefined && !isSameAddress(seen, expected)) {
      add(fault(`the mail server sees ${seen}, not ${expected}`,
        `correct the route, or set "publicAddress" to ${seen}`))
    }
    const current = seen ?? expected
    if (current !== undefined) return [current]
    const addresses = await this.#options.dns.addresses(helo).catch(orNone)
    add(addresses.length > 0
      ? advice(`assumed from the name ${helo}: ${addresses.join(', ')}`,
        'set "publicAddress" in SMTP_EGRESS to the address that mail servers see')
      : fault(`unknown, because the name ${helo} has no address`,
        `give ${helo} an A record with the address that mail servers see`))
    return addresses
  }

  async #reverseName (address: string, helo: string): Promise<Finding> {
    const { dns } = this.#options
    const names = await dns.names(address)
    const todo = `have the provider of ${address} set its reverse name to ${helo}`
    if (names.length === 0) return fault(`${address} has none`, todo)
    const confirmed: string[] = []
    for (const name of names) {
      const addresses = await dns.addresses(name)
      if (addresses.some(it => isSameAddress(it, address))) confirmed.push(name)
    }
    const list = names.join(', ')
    if (confirmed.length === 0) {
      return fault(`${address} is ${list}, which does not lead back to it`, todo)
    }
    const isHelo = confirmed.includes(helo.toLowerCase())
    const isDynamic = confirmed.every(name => DYNAMIC_NAME.test(name))
    const text = `${address} is ${list}, which leads back to it`
    if (!isHelo || isDynamic) {
      const but = isDynamic ? 'but looks like a dial-up line' : `but HELO says ${helo}`
      return advice(`${text}, ${but}`, todo)
    }
    return good(text)
  }

  async #helo (address: string, helo: string): Promise<Finding> {
    const addresses = await this.#options.dns.addresses(helo)
    if (addresses.some(it => isSameAddress(it, address))) {
      return good(`${helo} resolves to ${address}`)
    }
    return fault(`${helo} resolves to ${addresses.join(', ') || 'nothing'}, not to ${address}`,
      `add an ${isIP(address) === 6 ? 'AAAA' : 'A'} record of ${helo} with ${address}`)
  }

  async #sender (sender: string): Promise<Finding> {
    const { dns } = this.#options
    const domain = readDomain(sender)
    const exchanges = await dns.exchanges(domain)
    const isServed = exchanges.length > 0
      ? exchanges.some(name => name !== '' && name !== '.')
      : (await dns.addresses(domain)).length > 0
    return isServed
      ? good(`${domain} accepts mail`)
      : fault(`${domain} accepts no mail, so that servers refuse it as a sender`,
        `add an MX record of ${domain}, and let it accept mail for ${sender}`)
  }

  async #spf (address: string, { helo, sender }: Pick<EgressReport, 'helo' | 'sender'>):
  Promise<Finding> {
    const domain = sender === '' ? helo : readDomain(sender)
    const result = await checkSpf(this.#options.dns, { address, helo, sender })
    const term = `ip${isIP(address)}:${address}`
    const todo = result === 'none'
      ? `add a TXT record of ${domain}: v=spf1 ${term} -all`
      : result === 'permerror'
        ? `correct the SPF record of ${domain}, then add ${term} to it if that is missing`
        : `add ${term} to the SPF record of ${domain}`
    const level = SPF_LEVELS[result]
    const text = `${domain} says of ${address}: ${SPF_TEXTS[result]}`
    return level === 'good' || level === 'unknown' ? { level, text } : { level, text, todo }
  }

  async #blockList (address: string, zone: string): Promise<Finding> {
    const { dns } = this.#options
    const question = `${reversed(address)}.${zone}`
    const answers = await dns.addressesOf(question, 4)
    const isRefused = answers.some(it => it.startsWith('127.255.255.') || !it.startsWith('127.'))
    const test = this.#lists.get(zone) ??
      dns.addressesOf(`2.0.0.127.${zone}`, 4).then(it => it.some(ip => ip.startsWith('127.0.')))
    // Its failure counts where it is awaited.
    test.catch(orNone)
    this.#lists.set(zone, test)
    // A list that does not know its test entry knows nothing (RFC 5782, 5).
    if (isRefused || (answers.length === 0 && !await test)) {
      return {
        level: 'unknown',
        text: `${zone} does not answer these resolvers`,
        todo: 'ask by a resolver of your own in DNS_SERVERS: lists refuse public ones; or take ' +
          `${zone} out of SMTP_DNSBL_ZONES`,
      }
    }
    if (answers.length === 0) return good(`${address} is not on ${zone}`)
    const reasons = await dns.texts(question).catch(orNone)
    return fault([`${address} is on ${zone} (${answers.join(', ')})`, ...reasons].join(': '),
      `have ${address} removed by ${zone}, and use it less until then`)
  }

  /** What a mail exchange replies to a greeting; `address` is what it says it sees. */
  async #connect (helo: string, connection: Required<EgressCheckRequest>['connection']):
  Promise<Finding & { readonly address?: string | undefined }> {
    const { egress, host, timeoutMs } = connection
    const { dns } = this.#options
    try {
      const [exchange = host] = isIP(host) === 0 ? await dns.exchanges(host) : []
      const [target] = isIP(exchange) === 0 ? await dns.addresses(exchange) : [exchange]
      if (target === undefined) return { level: 'unknown', text: `${exchange} has no address` }
      const signal = AbortSignal.timeout(timeoutMs)
      const socket = await egress.connect(target, signal)
      const channel = new SmtpChannel(socket, { replyTimeoutMs: timeoutMs, signal })
      try {
        const greeting = await channel.send()
        const hello = greeting.code < 400 ? await channel.send(`EHLO ${helo}`) : undefined
        return readWelcome(exchange, greeting, hello)
      } finally {
        await channel.close()
      }
    } catch (error) {
      if (error instanceof DnsFault) return { level: 'unknown', text: error.message }
      if (!(error instanceof SmtpFault)) throw error
      return error.kind === 'no_egress'
        ? fault('the proxy or the address of this egress does not work',
          'check "address", or "proxy" with its password, and that it allows the port')
        : fault(`no answer of ${host}: ${error.kind}`,
          'have outgoing port 25 opened for this address; hosting companies block it')
    }
  }
}

const MAX_REPLY = 200
const ADDRESSES = /[\da-f:.]*(?:\d\.\d|:[\da-f]*:)[\da-f:.]*/gi

function readWelcome (host: string, greeting: SmtpReply, hello: SmtpReply | undefined) {
  const { code, lines } = hello ?? greeting
  const [first = ''] = lines
  if (hello === undefined || code >= 400) {
    return fault(`${host} replies ${`${code} ${lines.join(' ')}`.slice(0, MAX_REPLY)}`,
      'do what its reply says; a block of one host says nothing about the others')
  }
  // Servers that name the address of a client do so in the first line: "at your service, [...]".
  const address = (first.match(ADDRESSES) ?? []).find(it => isPublicAddress(it))
  return { ...good(`${host} takes our name: ${code} ${first}`), address }
}

const SPF_LEVELS: Readonly<Record<SpfResult, EgressFinding['level']>> = {
  pass: 'good',
  none: 'advice',
  neutral: 'advice',
  softfail: 'fault',
  fail: 'fault',
  permerror: 'fault',
  temperror: 'unknown',
}

const SPF_TEXTS: Readonly<Record<SpfResult, string>> = {
  pass: 'it may send',
  none: 'nothing, as it has no SPF record',
  neutral: 'nothing definite',
  softfail: 'it probably may not send',
  fail: 'it may not send',
  permerror: 'its SPF record is wrong',
  temperror: 'the DNS gave no answer',
}

const isSameAddress = (a: string, b: string): boolean =>
  ipaddr.process(a).toString() === ipaddr.process(b).toString()

/** For what is only shown, or assumed. */
function orNone (error: unknown): readonly string[] {
  if (error instanceof DnsFault) return []
  throw error
}

async function orUnknown (check: Promise<Finding>): Promise<Finding> {
  try {
    return await check
  } catch (error) {
    if (error instanceof DnsFault) return { level: 'unknown', text: error.message }
    throw error
  }
}

/** A fault if this machine has no such address. */
async function checkLocalAddress (address: string): Promise<Finding | undefined> {
  const server = createServer()
  try {
    const listening = once(server, 'listening')
    server.listen({ host: address, port: 0 })
    await listening
    return undefined
  } catch {
    return fault(`this machine cannot connect from ${address}`,
      `give ${address} to an interface of this machine, or to its container`)
  } finally {
    server.close()
  }
}
