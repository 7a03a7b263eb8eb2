import ipaddr from 'ipaddr.js'
import { MAX_DOMAIN_LENGTH, readDomain } from '../../mail/owners.ts'
import { DnsFault, type DnsRecords } from './dns-records.ts'

/** What the owner of a domain says of an address that sends in its name (RFC 7208, 2.6). */
export type SpfResult =
  'pass' | 'fail' | 'softfail' | 'neutral' | 'none' | 'temperror' | 'permerror'

/** Who sends: `sender` is empty for the null sender, which counts as the postmaster of `helo`. */
export type SpfSender = {
  readonly address: string, readonly helo: string, readonly sender: string,
}

/** Ends a check early. */
class SpfError extends Error {
  override readonly name = 'SpfError'
  readonly result: 'temperror' | 'permerror'

  constructor (result: 'temperror' | 'permerror') {
    super(result)
    this.result = result
  }
}

/**
 * What receivers conclude from the SPF record of a sender (RFC 7208). No package of this size does
 * it: those there are lack parts, or bring a whole mail library.
 */
export async function checkSpf (dns: DnsRecords, from: SpfSender): Promise<SpfResult> {
  const sender = from.sender === '' ? `postmaster@${from.helo}` : from.sender
  try {
    return await new SpfCheck(dns, { ...from, sender }).evaluate(readDomain(sender))
  } catch (error) {
    if (error instanceof SpfError) return error.result
    if (error instanceof DnsFault) return 'temperror'
    throw error
  }
}

type Qualified = 'pass' | 'fail' | 'softfail' | 'neutral'

const QUALIFIERS: Readonly<Record<string, Qualified>> = {
  '+': 'pass', '-': 'fail', '~': 'softfail', '?': 'neutral',
}
/** Limits of one check (RFC 7208, 4.6.4). */
const MAX_LOOKUPS = 10
const MAX_VOID_LOOKUPS = 2
const MAX_RECORDS = 10

const MACRO = '%\\{[slodiphv]\\d*r?[.+,/_=-]*\\}|%[%_-]'
const MACRO_STRING = new RegExp(`^(?:${MACRO}|[!-$&-~])*$`, 'i')
/** A name ends with a label that is no number, or with a macro. */
const DOMAIN_END = /(?:\.(?!\d+\.?$)[a-z\d](?:[a-z\d-]*[a-z\d])?\.?|%\{[^}]+\})$/i
const MECHANISM = /^([+?~-]?)(all|include|a|mx|ptr|ip4|ip6|exists)(?=$|[:/])(.*)$/i
const MODIFIER = /^([a-z][\w.-]*)=(.*)$/i
const CIDRS = /^(.*?)(?:\/(0|[1-9]\d?))?(?:\/\/(0|[1-9]\d{0,2}))?$/

type Term = {
  readonly result: Qualified
  readonly kind: string
  readonly domain: string
  readonly bits4: number
  readonly bits6: number
}

type SpfRecord = { readonly terms: readonly Term[], readonly redirect: string | undefined }

/** What the SPF record of a domain says of every server that it does not name. */
export type SpfPolicy = Qualified | 'no_record' | 'invalid'

/** Records are short (RFC 7208, 3.4), and checked by patterns that take longer for long ones. */
export const MAX_RECORD_LENGTH = 4_096

/**
 * The SPF policy of a domain, by its term `all` or the record that replaces its own. Undefined if
 * that record depends on the sender. Rejects as `texts` does.
 */
export async function spfPolicy (
  domain: string, texts: (name: string) => Promise<readonly string[]>
): Promise<SpfPolicy | undefined> {
  let name = domain
  for (let lookups = 0; lookups <= MAX_LOOKUPS; lookups += 1) {
    const [text, ...others] = (await texts(name)).filter(isSpfRecord)
    if (text === undefined) return name === domain ? 'no_record' : 'invalid'
    if (others.length > 0 || text.length > MAX_RECORD_LENGTH) return 'invalid'
    const record = parsedRecord(text)
    if (record === undefined) return 'invalid'
    const all = record.terms.find(({ kind }) => kind === 'all')
    if (all !== undefined) return all.result
    if (record.redirect === undefined) return 'neutral'
    if (record.redirect.includes('%')) return undefined
    name = record.redirect.toLowerCase().replace(/\.$/, '')
  }
  return 'invalid'
}

const isSpfRecord = (text: string) => /^v=spf1(?: |$)/i.test(text)

function parsedRecord (text: string): SpfRecord | undefined {
  try {
    return parseRecord(text)
  } catch (error) {
    if (error instanceof SpfError) return undefined
    throw error
  }
}

class SpfCheck {
  readonly #dns: Pick<DnsRecords, 'addressesOf' | 'exchanges' | 'names' | 'texts'>
  readonly #from: SpfSender
  readonly #address: ipaddr.IPv4 | ipaddr.IPv6
  #lookups = 0
  #voidLookups = 0

  constructor (dns: DnsRecords, from: SpfSender) {
    this.#dns = dns
    this.#from = from
    this.#address = ipaddr.process(from.address)
  }

  /** The function check_host of RFC 7208. */
  async evaluate (domain: string): Promise<SpfResult> {
    const labels = domain.replace(/\.$/, '').split('.')
    if (labels.length < 2 || labels.some(({ length }) => length === 0 || length > 63)) return 'none'
    const texts = await this.#dns.texts(domain)
    const [text, ...others] = texts.filter(isSpfRecord)
    if (text === undefined) return 'none'
    if (others.length > 0) throw new SpfError('permerror')
    const { terms, redirect } = parseRecord(text)
    for (const term of terms) {
      if (await this.#matches(term, domain)) return term.result
    }
    if (redirect === undefined) return 'neutral'
    this.#countLookup()
    const result = await this.evaluate(this.#expand(redirect, domain))
    return result === 'none' ? 'permerror' : result
  }

  async #matches (term: Term, domain: string): Promise<boolean> {
    const { kind } = term
    if (kind === 'all') return true
    if (kind === 'ip4' || kind === 'ip6') return this.#isIn(term.domain, term)
    this.#countLookup()
    const target = term.domain === '' ? domain : this.#expand(term.domain, domain)
    switch (kind) {
      case 'include': {
        const result = await this.evaluate(target)
        if (result === 'none' || result === 'permerror') throw new SpfError('permerror')
        return result === 'pass'
      }
      case 'exists':
        return (await this.#found(this.#dns.addressesOf(target, 4))).length > 0
      case 'mx': {
        const hosts = await this.#found(this.#dns.exchanges(target))
        if (hosts.length > MAX_RECORDS) throw new SpfError('permerror')
        for (const host of hosts) if (await this.#isAt(host, term)) return true
        return false
      }
      case 'ptr': {
        const names = await this.#confirmedNames()
        return names.some(name => `.${name}`.endsWith(`.${target.toLowerCase()}`))
      }
      default:
        return await this.#isAt(target, term)
    }
  }

  #countLookup (): void {
    this.#lookups += 1
    if (this.#lookups > MAX_LOOKUPS) throw new SpfError('permerror')
  }

  /** Records of a query; too many queries without one are an error. */
  async #found<T> (query: Promise<readonly T[]>): Promise<readonly T[]> {
    const records = await query
    if (records.length === 0) this.#voidLookups += 1
    if (this.#voidLookups > MAX_VOID_LOOKUPS) throw new SpfError('permerror')
    return records
  }

  get #family (): 4 | 6 {
    return this.#address.kind() === 'ipv4' ? 4 : 6
  }

  /** Whether our address is in the network of one of the addresses of a name. */
  async #isAt (name: string, term: Term): Promise<boolean> {
    const addresses = await this.#found(this.#dns.addressesOf(name, this.#family))
    return addresses.some(address => this.#isIn(address, term))
  }

  #isIn (address: string, { bits4, bits6 }: Term): boolean {
    const network = ipaddr.parse(address)
    if (network.kind() !== this.#address.kind()) return false
    return this.#address.match(network, network.kind() === 'ipv4' ? bits4 : bits6)
  }

  /** The reverse names of our address that resolve to it. Faults count as no name. */
  async #confirmedNames (): Promise<readonly string[]> {
    const names = await this.#dns.names(this.#from.address).catch(() => [])
    const confirmed = await Promise.all(names.slice(0, MAX_RECORDS).map(async name => {
      const addresses = await this.#dns.addressesOf(name, this.#family).catch(() => [])
      const isOurs = addresses.some(it => ipaddr.parse(it).toString() === this.#address.toString())
      return isOurs ? [name] : []
    }))
    return confirmed.flat()
  }

  /** A name with its macros replaced (RFC 7208, 7), cut on the left to what the DNS allows. */
  #expand (text: string, domain: string): string {
    const { sender, helo } = this.#from
    const at = sender.lastIndexOf('@')
    const values: Readonly<Record<string, string>> = {
      s: at > 0 ? sender : `postmaster${sender}`,
      l: at > 0 ? sender.slice(0, at) : 'postmaster',
      o: sender.slice(at + 1),
      d: domain,
      i: this.#family === 4
        ? this.#address.toString()
        : [...this.#address.toByteArray().map(byte => byte.toString(16).padStart(2, '0')).join('')]
            .join('.'),
      // Receivers need not find the name, and RFC 7208 advises against it.
      p: 'unknown',
      h: helo,
      v: this.#family === 4 ? 'in-addr' : 'ip6',
    }
    const name = text.replaceAll(/%(?:\{[^}]*\}|[%_-])/g, macro => expandMacro(macro, values))
    const labels = name.replace(/\.$/, '').split('.')
    while (labels.join('.').length > MAX_DOMAIN_LENGTH) labels.shift()
    return labels.join('.')
  }
}

const ESCAPES: Readonly<Record<string, string>> = { '%%': '%', '%_': ' ', '%-': '%20' }

function expandMacro (macro: string, values: Readonly<Record<string, string>>): string {
  const [, letter = '', digits = '', reverse = '', delimiters = ''] =
    /^%\{([a-z])(\d*)(r?)(.*)\}$/i.exec(macro) ?? []
  const value = values[letter.toLowerCase()]
  if (value === undefined) return ESCAPES[macro] ?? ''
  const separators = delimiters === '' ? '.' : delimiters
  const parts = value.split(new RegExp(`[${separators.replaceAll('-', String.raw`\-`)}]`))
  if (reverse !== '') parts.reverse()
  const expanded = parts.slice(digits === '' ? 0 : -Number(digits)).join('.')
  return /[A-Z]/.test(letter) ? encodeURIComponent(expanded) : expanded
}

/** @throws SpfError `permerror` for a record that breaks the rules anywhere. */
function parseRecord (text: string): SpfRecord {
  const modifiers = new Map<string, string>()
  const terms: Term[] = []
  for (const word of text.split(' ').slice(1).filter(part => part !== '')) {
    const mechanism = parseMechanism(word)
    if (mechanism !== undefined) {
      terms.push(mechanism)
      continue
    }
    const [, name = '', value = ''] = MODIFIER.exec(word) ?? []
    const key = name.toLowerCase()
    const isOfNames = key === 'redirect' || key === 'exp'
    const isValid = name !== '' && (isOfNames ? isDomainSpec(value) : MACRO_STRING.test(value))
    if (!isValid || (isOfNames && modifiers.has(key))) throw new SpfError('permerror')
    modifiers.set(key, value)
  }
  return { terms, redirect: modifiers.get('redirect') }
}

const isDomainSpec = (text: string): boolean => DOMAIN_END.test(text) && MACRO_STRING.test(text)

/** Undefined for a word that is no mechanism. */
function parseMechanism (word: string): Term | undefined {
  const [, qualifier = '', name = '', rest = ''] = MECHANISM.exec(word) ?? []
  const kind = name.toLowerCase()
  const result = QUALIFIERS[qualifier === '' ? '+' : qualifier]
  if (name === '' || result === undefined) return undefined
  const term = { result, kind, domain: '', bits4: 32, bits6: 128 }
  if (kind === 'ip4' || kind === 'ip6') return { ...term, ...parseNetwork(rest, kind) }
  if (kind === 'a' || kind === 'mx') {
    const [, target = '', bits4 = '32', bits6 = '128'] = CIDRS.exec(rest) ?? []
    const isValid = (target === '' || isTarget(target)) && Number(bits4) <= 32 &&
      Number(bits6) <= 128
    if (!isValid) throw new SpfError('permerror')
    return { ...term, domain: target.slice(1), bits4: Number(bits4), bits6: Number(bits6) }
  }
  const isOptional = kind === 'ptr' || kind === 'all'
  const isValid = rest === '' ? isOptional : kind !== 'all' && isTarget(rest)
  if (!isValid) throw new SpfError('permerror')
  return { ...term, domain: rest.slice(1) }
}

const isTarget = (text: string) => text.startsWith(':') && isDomainSpec(text.slice(1))

function parseNetwork (
  rest: string, kind: 'ip4' | 'ip6'
): Pick<Term, 'domain' | 'bits4' | 'bits6'> {
  const [, address = '', bits] = /^:([^/]*)(?:\/(0|[1-9]\d{0,2}))?$/.exec(rest) ?? []
  const isAddress = kind === 'ip4'
    ? ipaddr.IPv4.isValidFourPartDecimal(address)
    : ipaddr.IPv6.isValid(address)
  const longest = kind === 'ip4' ? 32 : 128
  const length = bits === undefined ? longest : Number(bits)
  if (!isAddress || length > longest) throw new SpfError('permerror')
  return { domain: address, bits4: length, bits6: length }
}
