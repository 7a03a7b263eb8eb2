import { createRequire } from 'node:module'
import { disposableEmailBlocklistSet } from 'disposable-email-domains-js'
import freeEmailDomains from 'free-email-domains'
import { getDomain } from 'tldts'
import {
  COMMON_PROVIDERS, FURTHER_PROVIDERS, RELAY_DOMAINS, SHARED_DOMAINS,
} from './lists/mail-providers.ts'
import { ROLE_WORDS } from './lists/role-words.ts'

// This list has no type declaration: domains with the service they belong to.
const fakeFilter = createRequire(import.meta.url)('fakefilter/json/data.json') as {
  readonly domains: Readonly<Record<string, unknown>>
}

const PROVIDERS: ReadonlySet<string> = new Set([...COMMON_PROVIDERS, ...FURTHER_PROVIDERS])
const RELAYS: ReadonlySet<string> = new Set(RELAY_DOMAINS)
const SHARED: ReadonlySet<string> = new Set(SHARED_DOMAINS)
const FREE_DOMAINS: ReadonlySet<string> = new Set([...freeEmailDomains, ...PROVIDERS])

/** The union of two kept lists: one by submissions, one that observes the services. */
const DISPOSABLE_DOMAINS: ReadonlySet<string> =
  new Set([...disposableEmailBlocklistSet(), ...Object.keys(fakeFilter.domains)])

/** RFC 1035, 2.3.4, without the dot of the root. What a name server answers may be longer. */
const MAX_NAME_LENGTH = 253

/**
 * Whether a domain provides disposable addresses: it is listed, or a domain above it is. A listed
 * provider of permanent mailboxes does not count, nor a listed domain under which others register
 * names: those are judged by the registrant's domain.
 */
export function isDisposable (domain: string): boolean {
  if (domain.length > MAX_NAME_LENGTH) return false
  const registered = registeredDomain(domain)
  for (let name = domain; ; name = name.slice(name.indexOf('.') + 1)) {
    if (PROVIDERS.has(name) || RELAYS.has(name)) return false
    if (DISPOSABLE_DOMAINS.has(name)) return true
    if (name === registered || !name.includes('.')) return false
  }
}

/** The domain that somebody has registered, directly below a public or shared suffix. */
function registeredDomain (domain: string): string {
  const labels = domain.split('.')
  for (let from = 1; from < labels.length; from++) {
    if (SHARED.has(labels.slice(from).join('.'))) return labels.slice(from - 1).join('.')
  }
  return getDomain(domain, { allowPrivateDomains: true }) ?? domain
}

/** Whether anybody may have a mailbox of the domain. Lists name disposable domains as well. */
export function isFree (domain: string): boolean {
  return FREE_DOMAINS.has(domain) && !isDisposable(domain)
}

const LETTERS_WITHOUT_MARK = {
  ß: 'ss', æ: 'ae', ø: 'o', œ: 'oe', ł: 'l', đ: 'd', ı: 'i', þ: 'th',
} as const
const UMLAUTS = { ä: 'ae', ö: 'oe', ü: 'ue', å: 'aa' } as const

/** A word in lower case without diacritics, as people write it in addresses. */
function foldWord (word: string): string {
  return word.normalize('NFKD').replace(/\p{M}/gu, '')
    .replace(/[ßæøœłđıþ]/g, letter =>
      LETTERS_WITHOUT_MARK[letter as keyof typeof LETTERS_WITHOUT_MARK])
}

/** The spelling of umlauts without marks is `ae` in one country, and `a` in another. */
function spellUmlauts (word: string): string {
  return word.normalize('NFC')
    .replace(/[äöüå]/g, letter => UMLAUTS[letter as keyof typeof UMLAUTS])
}

const ROLES: ReadonlySet<string> = new Set(Object.values(ROLE_WORDS).flat().map(foldWord))

/** Words beside a role word that do not make a person of it, further than codes of two letters. */
const QUALIFIERS: ReadonlySet<string> = new Set(`
  amer americas apac asia benelux canada central dach east emea europe france germany global iberia
  int international intl italia italy latam mena national nord nordic nordics north ost polska sued
  south spain sud usa west world and for not our the your please dont
`.trim().split(/\s+/))

/** Before a name of anything, such as a place, they are still a role. */
const GENERAL = /^(?:info|contact|kontakt|contacto|contato)[._-][^._-]+$/
const NO_REPLY = /(?:^|[._-])(?:no|non|not|never|dont|do-?not|do_not)[._-]?repl(?:y|ies)(?![a-z])/

/**
 * Whether a local part is a role (`sales`, `vertrieb2`, `info.berlin@berlin.example`), not a
 * person; a `+tag` is ignored. All of its words must be role words, numbers, codes of a country or
 * region, or the name of the domain.
 */
export function isRole (local: string, domain: string): boolean {
  const lower = local.toLowerCase()
  const plus = lower.indexOf('+')
  const name = plus > 0 ? lower.slice(0, plus) : lower
  if (GENERAL.test(name) || NO_REPLY.test(name)) return true
  return namesRole(foldWord(name), domain) || namesRole(foldWord(spellUmlauts(name)), domain)
}

function namesRole (name: string, domain: string): boolean {
  if (ROLES.has(name)) return true
  const owner = (getDomain(domain) ?? domain).split('.')[0] ?? ''
  let hasRole = false
  for (const part of name.split(/[._-]+/)) {
    const word = part.replace(/^\d+|\d+$/g, '')
    if (ROLES.has(word) || (owner.length > 2 && ROLES.has(withoutOwner(word, owner)))) {
      hasRole = true
    } else if (word.length > 2 && word !== owner && !QUALIFIERS.has(word)) return false
  }
  return hasRole
}

/** `infofirma` of `firma.example` is `info`. */
function withoutOwner (word: string, owner: string): string {
  if (word.endsWith(owner)) return word.slice(0, -owner.length)
  return word.startsWith(owner) ? word.slice(owner.length) : word
}
