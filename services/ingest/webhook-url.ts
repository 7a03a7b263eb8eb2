import { BlockList, isIP } from 'node:net'

/** What a development installation may allow besides public HTTPS addresses. */
export type WebhookRules = { readonly allowHttp: boolean, readonly allowLoopback: boolean }

const MAX_CHARACTERS = 2_048
/** Names that mean something only within a network; no public name ends like this. */
const PRIVATE_SUFFIXES = [
  '.local', '.internal', '.localdomain', '.localdomain6', '.arpa', '.lan', '.home', '.corp',
  '.intranet', '.private', '.svc', '.consul', '.onion',
]

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/**
 * Why an address can't receive webhooks, as a sentence, or undefined if it can. Looks only at the
 * text; where a name leads is checked whenever a delivery connects.
 */
export function webhookUrlFault (text: string, rules: WebhookRules): string | undefined {
  if (text.length > MAX_CHARACTERS) return `It is longer than ${MAX_CHARACTERS} characters.`
  // URL parsers drop or encode such characters, so that two readers might see two addresses.
  if (/[^!-~]/.test(text) || text.includes('\\')) return 'It has characters that must be encoded.'
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined) return 'It is not an absolute URL.'
  const schemes = rules.allowHttp ? ['https:', 'http:'] : ['https:']
  if (!schemes.includes(url.protocol)) return 'It does not begin with https://.'
  if (url.username !== '' || url.password !== '' || authorityOf(text).includes('@')) {
    return 'It holds a user name or password.'
  }
  return isAllowedHost(url.hostname, rules) ? undefined : 'It is not a public host name.'
}

/** The host is what the URL parser made of it, so 0x7f.1 and 2130706433 are 127.0.0.1 here. */
function isAllowedHost (hostname: string, rules: WebhookRules): boolean {
  const host = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '').toLowerCase()
  const version = isIP(host)
  if (version !== 0) {
    return rules.allowLoopback && loopback.check(host, version === 4 ? 'ipv4' : 'ipv6')
  }
  if (host === 'localhost' || host.endsWith('.localhost')) return rules.allowLoopback
  const isPrivate = PRIVATE_SUFFIXES.some(suffix => host.endsWith(suffix))
  return !isPrivate && /^[^.]+(\.[^.]+)+$/.test(host)
}

function authorityOf (text: string): string {
  return /^[a-z]+:\/*([^/?#]*)/i.exec(text)?.[1] ?? ''
}
