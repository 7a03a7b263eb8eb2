import { isIP } from 'node:net'
import { isPublicAddress, LOOPBACK } from '../runtime/platform/networks.ts'

/** Exceptions for development installations. */
export type WebhookRules = {
  readonly allowHttp: boolean
  readonly allowLoopback: boolean
  /** Allowed ports below 1024 or of other services. */
  readonly ports?: readonly number[]
}

const LOWEST_FREE_PORT = 1_024
const WEB_PORTS: readonly number[] = [80, 443]
/** Ports of databases, brokers and control planes. */
const SERVICE_PORTS: ReadonlySet<number> = new Set([
  1433, 1521, 2049, 2181, 2375, 2376, 2379, 2380, 3306, 3389, 4369, 5432, 5671, 5672, 5900, 5984,
  6000, 6379, 6443, 6665, 6666, 6667, 6668, 6669, 6697, 7000, 7001, 8123, 8500, 9000, 9042, 9092,
  9093, 9200, 9300, 10_250, 11_211, 15_672, 16_379, 26_379, 27_017, 27_018, 50_000,
])

const MAX_CHARACTERS = 2_048
/** Suffixes of private names; no public name ends with them. */
const PRIVATE_SUFFIXES = [
  '.local', '.internal', '.localdomain', '.localdomain6', '.arpa', '.lan', '.home', '.corp',
  '.intranet', '.private', '.svc', '.consul', '.onion',
]

/**
 * Why a URL cannot receive webhooks, as a sentence, or undefined. Checks the text only; the
 * resolved address is checked at each delivery.
 */
export function webhookUrlError (text: string, rules: WebhookRules): string | undefined {
  if (text.length > MAX_CHARACTERS) return `It is longer than ${MAX_CHARACTERS} characters.`
  // URL parsers drop or encode such characters, so two parsers might see two addresses. Only an
  // internationalized host may have other letters.
  const [, host = ''] = /^[a-z]+:\/*([^/?#]*)/i.exec(text) ?? []
  const withoutLetters = text.replace(host, host.replace(/[^\P{L}!-~]|[^\P{M}!-~]/gu, ''))
  if (/[^!-~]/.test(withoutLetters) || text.includes('\\')) {
    return 'It has characters that must be encoded.'
  }
  // Parsers disagree about `https:example.com` and `https:///example.com`.
  if (/^https?:(?!\/\/[^/])/i.test(text)) return 'It is not an absolute URL.'
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined) return 'It is not an absolute URL.'
  const schemes = rules.allowHttp ? ['https:', 'http:'] : ['https:']
  if (!schemes.includes(url.protocol)) return 'It does not begin with https://.'
  if (url.username !== '' || url.password !== '' || host.includes('@')) {
    return 'It holds a user name or password.'
  }
  if (!isAllowedHost(url.hostname, rules)) {
    return isIP(normalizeHost(url.hostname)) === 0
      ? 'Its host is not a public name.'
      : 'Its host is not a public address.'
  }
  return isAllowedPort(url, rules)
    ? undefined
    : `Webhooks are not sent to port ${url.port}. Use 443, or a free port from 1024 on.`
}

/** The same URL in ASCII, with the host as punycode (RFC 3492). */
export function toAsciiUrl (text: string): string {
  return /[^!-~]/.test(text) ? new URL(text).href : text
}

/** A receiver on this machine, which only development allows, may have any port. */
function isAllowedPort ({ port, hostname }: URL, { ports = [], ...rules }: WebhookRules): boolean {
  const number = Number(port)
  if (port === '' || WEB_PORTS.includes(number) || ports.includes(number)) return true
  if (rules.allowLoopback && isLoopback(normalizeHost(hostname))) return true
  return number >= LOWEST_FREE_PORT && !SERVICE_PORTS.has(number)
}

const normalizeHost = (hostname: string): string =>
  hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '').toLowerCase()

const isLoopback = (host: string): boolean =>
  LOOPBACK.has(host) || host === 'localhost' || host.endsWith('.localhost')

/** The host is as parsed by URL, so 0x7f.1 and 2130706433 are 127.0.0.1 here. */
function isAllowedHost (hostname: string, rules: WebhookRules): boolean {
  const host = normalizeHost(hostname)
  if (isLoopback(host)) return rules.allowLoopback
  if (isIP(host) !== 0) return isPublicAddress(host)
  const isPrivate = PRIVATE_SUFFIXES.some(suffix => host.endsWith(suffix))
  return !isPrivate && /^[^.]+(\.[^.]+)+$/.test(host)
}
