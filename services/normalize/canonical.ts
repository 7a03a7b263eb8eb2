import { isIP } from 'node:net'
import { domainToASCII, domainToUnicode } from 'node:url'
import emailAddresses from 'email-addresses'
import ipaddr from 'ipaddr.js'
import { MAX_CONTACT_CHARACTERS } from '../../schemas/api/create-job.ts'
import type { PreflightReason } from '../../schemas/api/verdicts.ts'
import { parsePhone, readCell } from '../phone/cell.ts'
import { hasLength, type SplitNumber, typeOfNumber } from '../phone/plans.ts'

/** The canonical form of a contact, or why there is none. */
export type Canonical =
  | { readonly ok: true, readonly canonical: string }
  | { readonly ok: false, readonly reason: PreflightReason }

/** Bidirectional controls, zero-width characters, soft hyphens. */
const ALL_INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu

/**
 * The E.164 form of a phone number, or why there is none.
 *
 * `country` (ISO 3166, upper case) is used for numbers that are not in international format, and
 * for its international prefix (`011` in the US, `00` in Germany). A number is invalid only if it
 * cannot be parsed, has an impossible length for its calling code, or if the cell may mean several:
 * whether its range is assigned is decided by a provider. The rules are those of Google's
 * libphonenumber, and of `readCell` for what people and spreadsheets write. Never throws; canonical
 * forms map to themselves.
 */
export function canonicalPhone (input: string, country: string | undefined): Canonical {
  const usual = parsePhone(input, country)
  if (usual !== undefined) return toE164(usual)
  const trimmed = input.trim()
  // Before anything is expanded or searched.
  if (isTooLong(trimmed)) return invalid('too_long_input')
  const fault = inputFault(trimmed.replace(ALL_INVISIBLE, '').trim())
  if (fault !== undefined) return invalid(fault)
  const reading = readCell(trimmed, country)
  return 'fault' in reading ? invalid(reading.fault) : toE164(reading.number)
}

/**
 * The number unless its number of digits is impossible by the plan of the main country of the
 * calling code, as in Google's libphonenumber, so the result depends on the canonical form alone,
 * not on the country of the job. Other countries of the calling code may have assigned numbers of
 * other lengths: 310-1234 in Canada.
 */
function toE164 (number: SplitNumber): Canonical {
  const { callingCode: { digits, main: { lengths, maxLength } }, national } = number
  const { length } = national
  if (hasLength(lengths, length) || typeOfNumber(number) !== undefined) {
    return { ok: true, canonical: `+${digits}${national}` }
  }
  if (length > maxLength) return invalid('too_long')
  return invalid(lengths << (BITS - length) === 0 ? 'too_short' : 'impossible_length')
}

/** Of a set of lengths. */
const BITS = 32

/** RFC 5321, 4.5.3.1: octets of a local part, and of a whole address without its brackets. */
const MAX_LOCAL_BYTES = 64
const MAX_ADDRESS_BYTES = 254

const ASCII_ONLY = /^[ -~]*$/
/** Invisible characters can make two different addresses look the same, so they are rejected. */
const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u
/**
 * What copying from web pages leaves around a text; an override of its direction is not among them,
 * as it makes a text look like another one. Before it also a byte order mark read as Latin-1.
 */
const AROUND_CHARACTERS = String.raw`[\s\u00ad\u200b-\u200f\u202a-\u202c\u2060\ufeff]`
const BYTE_ORDER_MARK = 'ï»¿'
const AROUND = new RegExp(`^(?:${BYTE_ORDER_MARK}|${AROUND_CHARACTERS})+|` +
  `(?<!${AROUND_CHARACTERS})${AROUND_CHARACTERS}+$`, 'g')
const OTHER_SPACE = /[\p{Z}--[ ]]/v
/** RFC 6068; its header fields follow a question mark. Some write the slashes of a web address. */
const MAILTO = /^mailto:(?:\/\/)?([^?]*)/i
/** How directories name the kind of an address: the colon is never part of one without quotes. */
const SMTP = /^smtp:\s*/i
/** How Outlook writes an address behind a display name. */
const BRACKETED = /^([^<>[\]]*)\[((?:mailto|smtp):[^<>[\]]+)\]$/i
/** Only display names, comments and quoted local parts have these characters. */
const NEEDS_GRAMMAR = /[\s"()<>]/
/**
 * Until 2009 they gave out addresses with dots that RFC 5322 allows in quotes only, which people
 * write without them: `jane..doe.@docomo.ne.jp`.
 */
const WITH_ANY_DOTS: ReadonlySet<string> = new Set(['docomo.ne.jp', 'ezweb.ne.jp'])
const ANY_DOTS = /^[a-z\d][\w.+-]*$/i
/** RFC 5322 `dot-atom-text`: nearly every local part, matched without the full parser. */
const DOT_ATOM = /^[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*$/
/**
 * A domain name of the public DNS: two labels or more, of letters, digits and hyphens (RFC 5321,
 * 2.3.5 and 4.1.2); with a numeric last label it would be an IP address. Some hosts have an
 * underscore within a label and receive mail nevertheless.
 */
const DOMAIN_NAME = new RegExp('^(?:[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?\\.)+' +
  '(?!\\d+$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$')
/** What some scripts need between letters (RFC 5892, 2.6 and appendix A), and the zero of Han. */
const SIGNS_OF_SCRIPTS = String.raw`\u00b7\u0375\u05f3\u05f4\u0f0b\u3007\u30fb`
/**
 * Names have dots, hyphens and the signs of scripts, one of which has a narrow form. What the
 * WHATWG function does to other signs of a URL is no reading of a name.
 */
const SIGN_IN_NAME = new RegExp(String.raw`[[\p{P}\p{Sm}\p{Sk}\p{ASCII}]` +
  String.raw`--[\w.\-\u3002\uff61\uff65${SIGNS_OF_SCRIPTS}]]`, 'v')
/** Unicode maps some of these to letters or digits: `firm¹.de` is not `firm1.de`. */
const MAPPED_SIGN = /[\p{No}\p{So}\p{Sc}ªº]/gu
/** RFC 5891, 4.2.3.1. */
const OUTER_HYPHEN = /(?:^|\.)-|-(?:\.|$)/
/** IDNA maps signs, but no registry has them in a top-level domain (RFC 5892, 2). */
const SYMBOL_ENDING = /[^\p{L}\p{M}\p{N}.-][^.]*$/u
const ENCODED_LABEL = /(?:^|\.)xn--/
/** Hyphens as third and fourth character are reserved for encodings (RFC 5890, 2.3.1). */
const RESERVED_LABEL = /(?:^|\.)(?!xn)[a-z0-9]{2}--/
/** RFC 5321, 4.1.3. */
const DOMAIN_LITERAL = /^\[(?:(\d[\d.]+)|IPv6:([\da-f:.]+))\]$/i

/**
 * The canonical form of an RFC 5322 mailbox (RFC 6532 characters allowed), or why there is none:
 * its address without display name, comments, `mailto:`, the trailing dot of the domain, and what
 * copying from a mail client leaves around it. The domain is in lower case and ASCII (IDNA), or an
 * address in brackets; the local part keeps its spelling, in NFC (RFC 6532, 3.1), without
 * unnecessary quotes. Never throws; a canonical form maps to itself.
 */
export function canonicalEmail (input: string): Canonical {
  const trimmed = inAscii(ASCII_ONLY.test(input) ? input.trim() : input.replace(AROUND, ''))
  const text = withoutScheme(withoutEnclosure(trimmed).replace(BRACKETED, '$1<$2>'))
  const inputReason = inputFault(trimmed) ?? inputFault(text)
  if (inputReason !== undefined) return invalid(inputReason)
  const address = NEEDS_GRAMMAR.test(text) ? bareAddress(text) : text
  if (address?.includes('@') !== true) return invalid('not_an_email')
  const at = address.lastIndexOf('@')
  const name = address.slice(0, at).trim()
  const plainName = USUAL_NAME.test(name) ? name : plainLocal(name)
  const host = address.slice(at + 1).trim()
  const plainAddress = `${plainName}@${host}`
  if (!ASCII_ONLY.test(plainAddress)) {
    if (INVISIBLE.test(plainAddress)) return invalid('hidden_character')
    if (OTHER_SPACE.test(plainAddress)) return invalid('not_an_email')
  }
  const domain = ASCII_ONLY.test(host) ? host : host.replace(DOTTED_I, 'i')
  const local = canonicalLocal(plainName, domain)
  return local.ok ? joinAddress(local.canonical, domain) : local
}

const FULL_WIDTH = /[\uff01-\uff5e]/g
const FROM_ASCII = 0xfee0
/** Between letters: else it may be a quote. */
const APOSTROPHE = /(?<=\p{L})\u2019(?=\p{L})/gu
const HYPHENS = /[\u2010\u2011]/g

/**
 * The text with the signs of ASCII that programs replace while people type. No mail service gives
 * out names with the others, which RFC 8265 (3.3) maps or forbids.
 */
function inAscii (text: string): string {
  if (ASCII_ONLY.test(text) || text.length > 2 * MAX_CONTACT_CHARACTERS) return text
  return text.replaceAll(FULL_WIDTH, it => String.fromCharCode(it.charCodeAt(0) - FROM_ASCII))
    .replaceAll(APOSTROPHE, "'").replaceAll(HYPHENS, '-')
}

/** A capital of Turkish: UTS 46 makes of it what nobody can register. */
const DOTTED_I = /\u0130|i\u0307/gi
/**
 * What stands before an address: quotes, bullets, arrows and icons; `%20` of a link; the apostrophe
 * that a spreadsheet writes before a text. An ellipsis stands for a part of the address.
 */
const MARK_BEFORE = String.raw`[[\p{P}\p{Co}\u00b4\u2190-\u21ff\u25a0-\u27bf\u2b00-\u2bff` +
  String.raw`\u{1f300}-\u{1faff}]--[\p{ASCII}…]]\ufe0f?|${BYTE_ORDER_MARK}|\s|%20`
const BEFORE = new RegExp(`^(?!.*'$)(?:${MARK_BEFORE}|')+|^(?:${MARK_BEFORE})+`, 'v')
/** Styles and ligatures are the plain letters; one ligature of Armenian is a letter of its own. */
const CASED_LETTERS = /[[\p{Lu}\p{Ll}]--[\u0587]]/gv
/** Nothing stands before these, so that most names take no other expression. */
const USUAL_NAME = /^\w[\w.+-]*$/

/**
 * A local part without what stands before it, with its letters in their usual form. In quotes it is
 * what it is; and an icon may be a name.
 */
function plainLocal (text: string): string {
  if (text.startsWith('"')) return text.normalize('NFC')
  const local = (text.replace(BEFORE, '') || text).replace(/%2b/gi, '+')
  if (ASCII_ONLY.test(local)) return local
  const usual = local.normalize('NFC').replace(CASED_LETTERS, letter => letter.normalize('NFKC'))
  const undotted = usual.replace(DOTTED_I, letter => letter[0] === 'i' ? 'i' : 'I')
  return ASCII_ONLY.test(undotted) ? undotted : usual.normalize('NFC')
}

/** Quotes around an address, and the separators of a list of recipients behind it. */
const ENCLOSED = /^(?:'([^']+)'|"([^"\\]+)"|‘([^‘’]+)’|“([^“”]+)”|«([^«»]+)»|`([^`]+)`)$/
const SEPARATORS = /(?<![,;\s])[,;\s]+$/

function withoutEnclosure (text: string): string {
  const single = text.replace(SEPARATORS, '')
  const enclosed = ENCLOSED.exec(single)?.slice(1).find(content => content !== undefined)
  return enclosed === undefined ? single : enclosed.trim()
}

function withoutScheme (text: string): string {
  const encoded = MAILTO.exec(text)?.[1]
  if (encoded === undefined) return text.replace(SMTP, '')
  try {
    return decodeURIComponent(encoded).trim()
  } catch {
    return encoded.trim()
  }
}

/**
 * The address of a mailbox, without display name, angle brackets and comments, in one pass;
 * undefined if they do not match. The grammar of the library takes quadratic or cubic time, so it
 * only gets a local part of at most 64 bytes without comments.
 */
function bareAddress (text: string): string | undefined {
  let plain = ''
  let depth = 0
  let isQuoted = false
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    const isEscape = character === '\\' && (isQuoted || depth > 0)
    if (character === '"' && depth === 0) isQuoted = !isQuoted
    if (character === '(' && !isQuoted) depth += 1
    if (depth === 0) plain += isEscape ? text.slice(at, at + 2) : character
    // The grammar treats a comment as white space.
    if (character === ')' && !isQuoted && depth > 0 && (depth -= 1) === 0) plain += ' '
    if (isEscape) at += 1
  }
  return isQuoted || depth > 0 ? undefined : inBrackets(plain.trim())
}

function inBrackets (plain: string): string | undefined {
  const unquoted = plain.replace(/"(?:[^"\\]|\\.)*"/g, quoted => 'q'.repeat(quoted.length))
  const open = unquoted.indexOf('<')
  if (open === -1) return plain
  const isClosed = unquoted.indexOf('>') === plain.length - 1 && unquoted.lastIndexOf('<') === open
  if (!isClosed) return undefined
  const address = withoutScheme(plain.slice(open + 1, -1).trim())
  // Directories write `Doe, Jane <...>` without quotes; mail clients repeat the address as name.
  const phrase = plain.slice(0, open).trim()
  const isPhrase = !/[@<>]/.test(unquoted.slice(0, open)) ||
    withoutEnclosure(phrase).toLowerCase() === address.toLowerCase()
  return isPhrase ? address : undefined
}

/**
 * What is no name beyond ASCII, in quotes neither: punctuation, private and unassigned characters
 * (RFC 8264, 4.2.3). Pictures are.
 */
const SIGN_WITHIN =
  new RegExp(String.raw`[[^\p{L}\p{M}\p{Nd}\p{So}]--[\p{ASCII}${SIGNS_OF_SCRIPTS}]]`, 'v')

/** Parses a quoted local part by the full RFC 5322 grammar, without its obsolete syntax. */
function canonicalLocal (local: string, domain: string): Canonical {
  if (DOT_ATOM.test(local)) return { ok: true, canonical: local }
  if (SIGN_WITHIN.test(local) || hasMappedSign(local)) return invalid('not_an_email')
  if (ANY_DOTS.test(local) && WITH_ANY_DOTS.has(domain.toLowerCase().replace(/\.$/, ''))) {
    return { ok: true, canonical: `"${local}"` }
  }
  if (Buffer.byteLength(local) > MAX_LOCAL_BYTES) return invalid('local_part_too_long')
  const mailbox = emailAddresses.parseOneAddress({
    input: `${local}@example.org`, startAt: 'mailbox', rfc6532: true, strict: true,
  })
  const isWhole = mailbox?.type === 'mailbox' && mailbox.name === null &&
    mailbox.parts.local.tokens === local
  return isWhole ? { ok: true, canonical: leastQuoted(local) } : invalid('not_an_email')
}

/** `"jane"` is `jane`, and `"\a b"` is `"a b"`. */
function leastQuoted (local: string): string {
  if (!local.startsWith('"')) return local
  const content = local.slice(1, -1).replace(/\\(.)/gu, '$1')
  const isPlain = DOT_ATOM.test(content) && plainLocal(content) === content
  return isPlain ? content : `"${content.replace(/["\\]/g, '\\$&')}"`
}

function joinAddress (local: string, domain: string): Canonical {
  const host = domain.startsWith('[') ? canonicalLiteral(domain) : canonicalDomain(domain)
  if (host === undefined) return invalid('invalid_domain')
  const localBytes = Buffer.byteLength(local)
  if (localBytes > MAX_LOCAL_BYTES) return invalid('local_part_too_long')
  const addressBytes = localBytes + 1 + host.length
  if (addressBytes > MAX_ADDRESS_BYTES) return invalid('address_too_long')
  return { ok: true, canonical: `${local}@${host}` }
}

/**
 * The ASCII form of a domain name, or undefined. An ASCII name is only converted to lower case: the
 * WHATWG function would parse `1.2.3` as an IP address.
 */
function canonicalDomain (domain: string): string | undefined {
  const isAscii = ASCII_ONLY.test(domain)
  if (!isAscii && (SIGN_IN_NAME.test(domain) || hasMappedSign(domain))) return undefined
  const mapped = isAscii ? domain.toLowerCase() : domainToASCII(domain)
  const name = mapped.replace(/\.$/, '')
  if (!DOMAIN_NAME.test(name) || RESERVED_LABEL.test(name)) return undefined
  if (!ENCODED_LABEL.test(name)) return name
  // Such a label must be the encoding of another one (RFC 5890, 2.3.2.1).
  const unicode = domainToUnicode(name)
  return ENCODED_LABEL.test(unicode) || SYMBOL_ENDING.test(unicode) || OUTER_HYPHEN.test(unicode)
    ? undefined
    : name
}

const hasMappedSign = (text: string): boolean =>
  (text.match(MAPPED_SIGN) ?? []).some(sign => sign.normalize('NFKC') !== sign)

/** An IP address in brackets, in its canonical spelling. */
function canonicalLiteral (domain: string): string | undefined {
  const [, older = '', newer = ''] = DOMAIN_LITERAL.exec(domain) ?? []
  if (isIP(older) === 4) return `[${older}]`
  return isIP(newer) === 6 ? `[IPv6:${ipaddr.parse(newer).toString()}]` : undefined
}

const PRINTABLE_ASCII = /^[ -~]+$/
// eslint-disable-next-line no-control-regex -- control characters are what is looked for
const CONTROL_CHARACTER = /[\u0000-\u001f\u007f-\u009f]/

/** The result for an invalid row. */
function invalid (reason: PreflightReason): Canonical {
  return { ok: false, reason }
}

/**
 * Checks an input before it is parsed as a phone number or an e-mail address. Returns undefined if
 * it is fine. `trimmed` is the input without outer white space, so a trailing line break is
 * accepted.
 */
function inputFault (trimmed: string): PreflightReason | undefined {
  if (trimmed === '') return 'empty'
  if (isTooLong(trimmed)) return 'too_long_input'
  if (PRINTABLE_ASCII.test(trimmed)) return undefined
  if (CONTROL_CHARACTER.test(trimmed)) return 'control_character'
  if (!trimmed.isWellFormed()) return 'malformed_unicode'
  return undefined
}

/** Whether a text exceeds the maximum length of an input. */
function isTooLong (text: string): boolean {
  if (text.length <= MAX_CONTACT_CHARACTERS) return false
  // A character outside the basic plane has two code units; only code points are counted.
  return text.length > 2 * MAX_CONTACT_CHARACTERS || [...text].length > MAX_CONTACT_CHARACTERS
}
