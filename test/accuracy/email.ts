import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { canonicalEmail } from '../../services/normalize/canonical.ts'
import { suggestDomain } from '../../services/verify/providers/domain-typos.ts'
import { builtInLists } from '../../services/verify/providers/email-lists.ts'
import { COMMON_PROVIDERS } from '../../services/verify/providers/built-in-lists.ts'
import { measure, type AccuracyRow } from './row.ts'

const read = (name: string) => readFileSync(new URL(`data/${name}`, import.meta.url), 'utf8')
const json = (name: string): unknown => JSON.parse(read(name))

/** Words as people and organizations use them in addresses, separated by spaces. */
type EmailWords = {
  readonly commonMailboxes: string
  /** Sites of the list of top sites that are known for their mailboxes too. */
  readonly mailboxSites: string
  /** Functions as registers and imprints print them, by RFC or language. */
  readonly functions: Readonly<Record<string, string>>
  readonly people: string
  /** Domains with names that are a letter from those of providers. */
  readonly besideProviders: string
  /** A typo, and what mailcheck suggests. */
  readonly mailcheck: Readonly<Record<string, string | null>>
}
const emailWords = json('email-words.json') as EmailWords

/** How many providers the typos are generated from, the most common ones. */
const TYPO_PROVIDERS = 72

/** The figures of everything that is decided about an e-mail address without a network. */
export function measureEmail (): readonly AccuracyRow[] {
  return [
    ...syntaxRows(), ...typoRows(), ...realDomainRows(), ...disposableRows(), ...freeRows(),
    ...roleRows(),
  ]
}

/**
 * One address of a suite. `valid` is what the suite says, or our policy where `policy` names one
 * (POLICIES in `policies.ts`).
 */
type SyntaxCase = {
  readonly suite: string
  readonly address: string
  readonly valid: boolean
  readonly policy?: string
}

function syntaxRows (): readonly AccuracyRow[] {
  const cases = read('email-syntax.jsonl').trim().split('\n')
    .map(line => JSON.parse(line) as SyntaxCase)
  return [...Map.groupBy(cases, ({ suite }) => suite)].map(([suite, some]) =>
    measure({ suite: 'e-mail syntax', part: suite }, some, ({ address, valid }) => {
      const outcome = canonicalEmail(address)
      if (outcome.ok === valid) return { is: 'right' }
      // An address that works and is called invalid is worse than the reverse.
      return { is: valid === true ? 'wrong' : 'missed', case: `${address}: ${outcome.ok}` }
    }))
}

const NEIGHBORS = new Map([
  'qwertyuiop', 'asdfghjkl', 'zxcvbnm',
].flatMap(row => [...row].map((key, at) => [key, [row[at - 1], row[at + 1]]] as const)))

const ENDINGS: Readonly<Record<string, readonly string[]>> = {
  com: ['con', 'cmo', 'co', 'cm', 'om', 'vom', 'xom', 'comm', 'cim', 'ocm', 'coom', 'cpm'],
  net: ['ner', 'nte', 'nett', 'ent', 'ne'],
  de: ['dee', 'd'],
  fr: ['frr', 'f'],
}

/** The slips that people make most: a letter missing, doubled, swapped or beside the right one. */
function * slipsOf (domain: string): Generator<readonly [kind: string, typo: string]> {
  const dot = domain.indexOf('.')
  const [name, ending] = [domain.slice(0, dot), domain.slice(dot + 1)]
  for (let at = 0; at < name.length; at++) {
    const [before, letter, after] = [name.slice(0, at), name[at]!, name.slice(at + 1)]
    yield ['a missing letter', `${before}${after}.${ending}`]
    yield ['a doubled letter', `${before}${letter}${letter}${after}.${ending}`]
    const next = after[0]
    if (next !== undefined && next !== letter) {
      yield ['swapped letters', `${before}${next}${letter}${after.slice(1)}.${ending}`]
    }
    for (const neighbor of NEIGHBORS.get(letter) ?? []) {
      if (neighbor !== undefined) yield ['a key beside', `${before}${neighbor}${after}.${ending}`]
    }
  }
  for (const typo of ENDINGS[ending] ?? []) yield ['another ending', `${name}.${typo}`]
}

function typoRows (): readonly AccuracyRow[] {
  const real = new Set([...COMMON_PROVIDERS, ...emailWords.besideProviders.split(' ')])
  const isDomain = (text: string) => canonicalEmail(`jane@${text}`).ok && !real.has(text)
  const slips = COMMON_PROVIDERS.slice(0, TYPO_PROVIDERS).flatMap(domain =>
    [...slipsOf(domain)].filter(([, typo]) => isDomain(typo))
      .map(([kind, typo]) => ({ kind, typo, domain })))
  const generated = [...Map.groupBy(slips, ({ kind }) => kind)].map(([kind, some]) =>
    measure({ suite: 'typos', part: kind }, some, ({ typo, domain }) => {
      const suggestion = suggestDomain(typo)
      if (suggestion === domain) return { is: 'right' }
      return { is: suggestion === undefined ? 'missed' : 'wrong', case: `${typo}: ${suggestion}` }
    }))
  const mailcheck = Object.entries(emailWords.mailcheck)
  return [...generated, measure({ suite: 'typos', part: 'mailcheck' }, mailcheck, ([typo, want]) =>
    suggestDomain(typo) === (want ?? undefined)
      ? { is: 'right' }
      : { is: want === null ? 'wrong' : 'missed', case: `${typo}: ${suggestDomain(typo)}` })]
}

type MailServices = { readonly legitimate: readonly string[], readonly free: readonly string[] }
const mailServices = json('mail-services.json') as MailServices

/** Domains that exist and must never be corrected; real typos that somebody runs are no such. */
function realDomainRows (): readonly AccuracyRow[] {
  const { domains } = json('top-sites.json') as { readonly domains: readonly string[] }
  const countries = ['hotmail.lt', 'hotmail.rs', 'yahoo.lt', 'yahoo.ee', 'yahoo.rs', 'yahoo.com.hr']
  return Object.entries({
    'top sites': domains,
    'mail services': mailServices.legitimate.filter(domain => domain !== 'hotmailr.com'),
    'providers in other countries': countries,
    'a letter from a provider': emailWords.besideProviders.split(' '),
  }).map(([part, some]) => measure({ suite: 'real domains', part }, some, domain => {
    const suggestion = suggestDomain(domain)
    return suggestion === undefined
      ? { is: 'right' }
      : { is: 'wrong', case: `${domain}: ${suggestion}` }
  }))
}

type FakeFilter = {
  /** When the list was made, in seconds. */
  readonly t: number
  readonly domains: Readonly<Record<string, { readonly lastseen: number }>>
}

const ALIVE_SECONDS = 90 * 86_400

function disposableRows (): readonly AccuracyRow[] {
  const list = createRequire(import.meta.url)('fakefilter/json/data.json') as FakeFilter
  const alive = Object.entries(list.domains)
    .filter(([, { lastseen }]) => lastseen > list.t - ALIVE_SECONDS).map(([domain]) => domain)
  const shared = ['jane.mooo.com', 'jane.us.to', 'jane.chickenkiller.com', 'jane.eu.org']
  return [
    measure({ suite: 'disposable', part: 'observed in the last 90 days' }, alive, domain =>
      builtInLists.lookUp(domain).disposable ? { is: 'right' } : { is: 'missed', case: domain }),
    measure({ suite: 'disposable', part: 'legitimate hosts' },
      [...mailServices.legitimate, ...shared], domain =>
        builtInLists.lookUp(domain).disposable ? { is: 'wrong', case: domain } : { is: 'right' }),
  ]
}

function freeRows (): readonly AccuracyRow[] {
  const { domains } = json('top-sites.json') as { readonly domains: readonly string[] }
  const sites = new Set(emailWords.mailboxSites.split(' '))
  const companies = domains
    .filter(domain => !sites.has(domain) && !domain.endsWith('.google.com'))
  return [
    measure({ suite: 'free', part: 'common providers' },
      emailWords.commonMailboxes.split(' '), domain =>
        builtInLists.lookUp(domain).free ? { is: 'right' } : { is: 'missed', case: domain }),
    measure({ suite: 'free', part: 'sites without mailboxes' }, companies, domain =>
      builtInLists.lookUp(domain).free ? { is: 'wrong', case: domain } : { is: 'right' }),
  ]
}

/** Words that are roles far more often than they are anybody's surname; see policies.ts. */
const ARGUED: ReadonlySet<string> = new Set([
  'sales', 'root', 'post', 'board', 'list', 'press', 'people', 'job', 'staff', 'seo',
])

type CensusNames = { readonly first: string, readonly last: string }

function roleRows (): readonly AccuracyRow[] {
  const { first, last } = json('census-names.json') as CensusNames
  const names = [...new Set(`${first} ${last}`.split(' '))].filter(name => !ARGUED.has(name))
  return [
    ...Object.entries(emailWords.functions).map(([part, text]) =>
      measure({ suite: 'roles', part }, text.split(' '), local =>
        builtInLists.isRole(local, 'firma.example')
          ? { is: 'right' }
          : { is: 'missed', case: local })),
    measure({ suite: 'roles', part: 'names of the US census' }, names, name =>
      builtInLists.isRole(name, 'firma.example') ? { is: 'wrong', case: name } : { is: 'right' }),
    measure({ suite: 'roles', part: 'places and full names' },
      emailWords.people.split(' '), local =>
        builtInLists.isRole(local, 'firma.example')
          ? { is: 'wrong', case: local }
          : { is: 'right' }),
  ]
}
