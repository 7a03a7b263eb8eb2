import { LRUCache } from 'lru-cache'
import { LINE_TYPES } from '../../records/record.ts'
import { isFree } from './email-lists.ts'

/** What a vendor said, in our words for the column; undefined when it cannot be said in them. */
type Reader = (text: string, vendorWords: readonly string[]) => string | undefined

const matching = (pattern: RegExp): Reader => (text) => pattern.test(text) ? text : undefined
const truth = matching(/^(?:true|false)$/)

/** Columns that a vendor may fill; all others derive from the contact or from the job. */
export const VENDOR_COLUMNS: Readonly<Record<string, Reader>> = {
  line_type: (text) => (LINE_TYPES as readonly string[]).includes(text) ? text : undefined,
  carrier: neutralText,
  region: neutralText,
  locality: neutralText,
  timezone: (text) => isTimeZone(text) ? text : undefined,
  mcc: matching(/^\d{3}$/),
  mnc: matching(/^\d{2,3}$/),
  ported: truth,
  whatsapp: truth,
  telegram: truth,
  disposable: truth,
  role: truth,
  free: truth,
  catch_all: truth,
  mx_found: truth,
  suggestion: (text) => isFree(text) ? text : undefined,
}

const LONGEST_TEXT = 60
/** With white space around and between its words. */
const LONGEST_RAW_TEXT = 240
/** Letters, digits and what stands in names of companies and places. */
const NAME = /^(?=.*\p{L})[\p{L}\p{M}\p{N} &.,'’()/+-]+$/u
/** A host, or several words that were made one. */
const HOST = /[\p{L}\p{N}-]\.[\p{L}]{2,}|www\./iu
/** A number, a task or a key: many digits, or letters and digits mixed in a long word. */
const IDENTIFIER = /\d{5,}|\b(?=\w*\d)(?=\w*[a-z])\w{8,}\b|[0-9a-f]{8}-/i

/**
 * A name that may be shown: of a carrier or place as a vendor gives it, unless it looks like a host
 * or an identifier or holds one of the vendor's own words, which must never leave the process.
 */
export function neutralText (text: string, vendorWords: readonly string[]): string | undefined {
  // Before compatibility forms are spelled out: one character can become eighteen.
  if (text.length > LONGEST_RAW_TEXT) return undefined
  const clean = text.normalize('NFKC').replace(/\s+/g, ' ').trim()
  if (clean.length > LONGEST_TEXT || !NAME.test(clean)) return undefined
  if (HOST.test(clean) || IDENTIFIER.test(clean)) return undefined
  const letters = lettersOf(clean)
  return vendorWords.some((word) => letters.includes(word)) ? undefined : clean
}

/** Parts of names and hosts that say nothing about whose they are. */
const COMMON: ReadonlySet<string> = new Set([
  'www', 'api', 'apis', 'gateway', 'rest', 'com', 'net', 'org', 'localhost', 'app', 'cloud', 'dev',
  'mobile', 'wireless', 'telecom', 'phone', 'phones', 'number', 'numbers', 'communications',
])
const SHORTEST_WORD = 3
/** A part of a name that is shorter may stand in any other. */
const SHORTEST_PART = 5

/** The words that name a vendor: its name, its host's labels, any others, and their parts. */
export function vendorWordsOf (
  { name, words = [], url }: { name: string, words?: readonly string[], url: string }
): readonly string[] {
  const { hostname } = new URL(url)
  const labels = hostname.split('.').slice(0, -1).filter((label) => /[a-z]/.test(label))
  const wholes = [name, ...words, ...labels]
  const parts = wholes.flatMap((whole) => whole.split(/[^\p{L}\p{N}]+/u))
    .filter((part) => part.length >= SHORTEST_PART)
  return [...new Set([...wholes, ...parts].map(lettersOf))]
    .filter((word) => word.length >= SHORTEST_WORD && !COMMON.has(word))
}

function lettersOf (text: string): string {
  return text.normalize('NFKC').toLowerCase().replace(/[^\p{L}\p{N}]/gu, '')
}

const knownZones = new LRUCache<string, boolean>({ max: 1_000 })

/** A name of the time zone database; asking the library for one it does not know is slow. */
function isTimeZone (text: string): boolean {
  const known = knownZones.get(text)
  if (known !== undefined) return known
  const is = /^[A-Z][A-Za-z_]+(?:\/[A-Za-z0-9_+-]+){0,2}$/.test(text) && isKnownZone(text)
  if (text.length <= LONGEST_TEXT) knownZones.set(text, is)
  return is
}

function isKnownZone (timeZone: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone }).resolvedOptions().timeZone !== ''
  } catch {
    return false
  }
}
