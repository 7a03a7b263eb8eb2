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
  const addressFault = DOT_ATOM.test(local) ? undefined : addrSpecFault(text)
  if (addressFault !== undefined) return invalid(addressFault)
  return joined(local, domain)
}

function spellingFault (text: string): InvalidReason | undefined {
  if (!text.includes('@')) return 'not_an_email'
  if (ASCII_ONLY.test(text)) return undefined
  if (INVISIBLE.test(text)) return 'hidden_character'
  return OTHER_SPACE.test(text) ? 'not_an_email' : undefined
}

/**
 * Why a mailbox whose local part is no dot-atom is none that is taken. The library's grammar takes
 * time that grows with the square or the cube of its input, so it only ever sees a local part of at
 * most 64 bytes without comments; everything around it is split off in one pass.
 */
function addrSpecFault (text: string): InvalidReason | undefined {
  const mailbox = splitMailbox(text)
  if (mailbox === undefined) return 'not_an_email'
  const { address, isNamed, hasComment } = mailbox
  const at = address.lastIndexOf('@')
  const fault = at === -1 ? 'not_an_email' : localPartFault(address.slice(0, at).trim())
  if (fault === 'not_an_email') return fault
  if (isNamed) return 'display_name'
  return hasComment ? 'comment' : fault
}

type Mailbox = {
  readonly address: string
  readonly isNamed: boolean
  readonly hasComment: boolean
}

/** Splits display name, angle brackets and comments off; undefined where they do not match. */
function splitMailbox (text: string): Mailbox | undefined {
  let plain = ''
  let depth = 0
  let isQuoted = false
  let hasComment = false
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    const isEscape = character === '\\' && (isQuoted || depth > 0)
    if (character === '"' && depth === 0) isQuoted = !isQuoted
    if (character === '(' && !isQuoted) {
      depth += 1
      hasComment = true
    }
    if (depth === 0) plain += isEscape ? text.slice(at, at + 2) : character
    // A comment is white space to the grammar.
    if (character === ')' && !isQuoted && depth > 0 && (depth -= 1) === 0) plain += ' '
    if (isEscape) at += 1
  }
  if (isQuoted || depth > 0) return undefined
  return angled(plain.trim(), hasComment)
}

function angled (plain: string, hasComment: boolean): Mailbox | undefined {
  const unquoted = plain.replace(/"(?:[^"\\]|\\.)*"/g, quoted => 'q'.repeat(quoted.length))
  const open = unquoted.indexOf('<')
  if (open === -1) return { address: plain, isNamed: false, hasComment }
  const isPhrase = !/[@<>,;:\\[\]]/.test(unquoted.slice(0, open))
  const isClosed = unquoted.indexOf('>') === plain.length - 1 && unquoted.lastIndexOf('<') === open
  return isPhrase && isClosed
    ? { address: plain.slice(open + 1, -1), isNamed: true, hasComment }
    : undefined
}

/** Asks the full RFC 5322 grammar, without its obsolete part, about one local part. */
function localPartFault (local: string): InvalidReason | undefined {
  if (DOT_ATOM.test(local)) return undefined
  if (Buffer.byteLength(local) > MAX_LOCAL_BYTES) return 'local_part_too_long'
  const mailbox = emailAddresses.parseOneAddress({
    input: `${local}@example.org`, startAt: 'mailbox', rfc6532: true, strict: true,
  })
  if (mailbox === null || mailbox.type !== 'mailbox' || mailbox.name !== null) return 'not_an_email'
  if (mailbox.parts.comments.length > 0) return 'comment'
  return mailbox.parts.local.tokens === local ? undefined : 'not_an_email'
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
