import { domainToASCII } from 'node:url'
import emailAddresses from 'email-addresses'
import { inputFault, invalid, type Canonical, type InvalidReason } from './input.ts'

/** RFC 5321, 4.5.3.1: octets of a local part, and of a whole address without its brackets. */
const MAX_LOCAL_BYTES = 64
const MAX_ADDRESS_BYTES = 254

const ASCII_ONLY = /^[ -~]*$/
/** Marks that show nothing can make two different addresses look alike, so they are refused. */
const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u
const OTHER_SPACE = /[\p{Z}--[ ]]/v
/** RFC 5322 `dot-atom-text`: nearly every local part, told without the full parser. */
const DOT_ATOM = /^[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*$/
const LABEL = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?'
/** A host name (RFC 1123); a last label of digits would make it an IP address. */
const HOST_NAME = new RegExp(`^(?:${LABEL}\\.)*(?!\\d+$)${LABEL}$`)

/**
 * The canonical form of a bare RFC 5322 addr-spec (RFC 6532 characters allowed), or why there is
 * none: the domain in lower case and as ASCII (IDNA), the local part byte for byte as submitted,
 * because only its own server may say which spellings are the same. Outer white space is no fault;
 * a display name, a comment or a domain literal is. Never throws; a canonical form maps to itself.
 */
export function canonicalEmail (input: string): Canonical {
  const text = input.trim()
  const fault = inputFault(text) ?? spellingFault(text)
  if (fault !== undefined) return invalid(fault)
  const at = text.lastIndexOf('@')
  const local = text.slice(0, at)
  const domain = text.slice(at + 1)
  const addressFault = DOT_ATOM.test(local) ? undefined : addrSpecFault(text, at)
  if (addressFault !== undefined) return invalid(addressFault)
  return joined(local, domain)
}

function spellingFault (text: string): InvalidReason | undefined {
  if (!text.includes('@')) return 'not_an_email'
  if (ASCII_ONLY.test(text)) return undefined
  if (INVISIBLE.test(text)) return 'hidden_character'
  return OTHER_SPACE.test(text) ? 'not_an_email' : undefined
}

/** Asks the full RFC 5322 grammar, without its obsolete part, about one mailbox. */
function addrSpecFault (text: string, at: number): InvalidReason | undefined {
  const mailbox = emailAddresses.parseOneAddress({
    input: text, startAt: 'mailbox', rfc6532: true, strict: true,
  })
  if (mailbox === null || mailbox.type !== 'mailbox') return 'not_an_email'
  if (mailbox.name !== null || text.endsWith('>')) return 'display_name'
  if (mailbox.parts.comments.length > 0) return 'comment'
  const { local } = mailbox.parts
  return local.tokens === text.slice(0, at) ? undefined : 'not_an_email'
}

function joined (local: string, domain: string): Canonical {
  if (domain.startsWith('[')) return invalid('domain_literal')
  const host = asciiDomain(domain)
  if (host === undefined) return invalid('invalid_domain')
  const localBytes = Buffer.byteLength(local)
  if (localBytes > MAX_LOCAL_BYTES) return invalid('local_part_too_long')
  const addressBytes = localBytes + 1 + host.length
  if (addressBytes > MAX_ADDRESS_BYTES) return invalid('address_too_long')
  return { ok: true, canonical: `${local}@${host}` }
}

/**
 * The ASCII form of a host name, or undefined if it has none. A plain name is only put into lower
 * case: the WHATWG function would read `1.2.3` as an IP address.
 */
function asciiDomain (domain: string): string | undefined {
  const mapped = ASCII_ONLY.test(domain) ? domain.toLowerCase() : domainToASCII(domain)
  return HOST_NAME.test(mapped) ? mapped : undefined
}
