import { parse } from 'tldts'
import { boundedCache } from '../../runtime/platform/limits.ts'
import {
  COMMON_PROVIDERS, FURTHER_PROVIDERS, LOOKALIKE_DOMAINS, RELAY_DOMAINS,
} from './built-in-lists.ts'

/** What each key of a QWERTY keyboard has beside it; other layouts differ in few of them. */
const NEIGHBORS: ReadonlyMap<string, string> = new Map([
  ['q', 'wa'], ['w', 'qeas'], ['e', 'wrsd'], ['r', 'etdf'], ['t', 'ryfg'],
  ['y', 'tugh'], ['u', 'yihj'], ['i', 'uojk'], ['o', 'ipkl'], ['p', 'ol'],
  ['a', 'qwsz'], ['s', 'awedxz'], ['d', 'serfcx'], ['f', 'drtgvc'], ['g', 'ftyhbv'],
  ['h', 'gyujnb'], ['j', 'huikmn'], ['k', 'jiolm'], ['l', 'kop'], ['z', 'asx'],
  ['x', 'zsdc'], ['c', 'xdfv'], ['v', 'cfgb'], ['b', 'vghn'], ['n', 'bhjm'],
  ['m', 'njk'], ['1', '2q'], ['2', '13'], ['3', '24'], ['4', '35'],
  ['5', '46'], ['6', '57'], ['7', '68'], ['8', '79'], ['9', '80'],
  ['0', '9op'],
])
/** Letters that look or sound alike, in both directions; vowels make another word: `globe.com`. */
const ALIKE = ['l1', 'li', 'lj', 'i1', 'ij', 'o0', 'uv', 'vw', 'nm', 'sz', 'ck', 'iy']

/** The cost of one edit. Any other letter costs more than two doubled ones. */
const COST = { double: 5, swap: 6, neighbor: 6, alike: 6, missing: 8, extra: 9, other: 11 } as const

type SplitDomain = {
  readonly domain: string
  /** The first label, and the rest. */
  readonly name: string
  readonly ending: string
  readonly withoutDots: string
}

const PROVIDERS: readonly SplitDomain[] = COMMON_PROVIDERS.map(splitDomain)
const NEVER_CORRECTED: ReadonlySet<string> =
  new Set([...COMMON_PROVIDERS, ...FURTHER_PROVIDERS, ...RELAY_DOMAINS, ...LOOKALIKE_DOMAINS])
/** Names that their owners register in many countries: `hotmail.rs` and `yahoo.ee` are real. */
const FAMILIES: ReadonlySet<string> = new Set([
  'yahoo', 'hotmail', 'outlook', 'live', 'msn', 'gmx', 'yandex', 'aol', 'mail', 'google',
  'googlemail', 'tiscali', 'terra', 'lycos', 'excite', 'zoho', 'sina', 'web', 'free', 'home',
  'orange', 'me', 'mac', 'inbox', 'email', 'vodafone', 'o2', 'sky', 'hey', 'att', 'cox', 'list',
  'alice',
])
/** Names that are no word of any language, with no real ones near them. */
const COINED: ReadonlySet<string> =
  new Set(['gmail', 'hotmail', 'outlook', 'icloud', 'yahoo', 'yandex', 'comcast', 'wanadoo'])
/** Endings of real countries that are far more often a slip, with what was meant. */
const SLIPS: ReadonlyMap<string, string> =
  new Map([['co', 'com'], ['cm', 'com'], ['om', 'com'], ['ne', 'net']])
const COMMON_ENDINGS = ['com', 'net', 'org', 'info', 'edu', 'gov'] as const

function splitDomain (domain: string): SplitDomain {
  const dot = domain.indexOf('.')
  return {
    domain,
    name: domain.slice(0, dot),
    ending: domain.slice(dot + 1),
    withoutDots: domain.replaceAll('.', ''),
  }
}

/** Jobs repeat domains, and a comparison with all providers takes some 20 µs. */
const answers = boundedCache<{ readonly domain: string | undefined }>({ entries: 20_000 })

/**
 * The domain that `domain` (lower-case ASCII) is a probable typo of, or undefined. A typo is an
 * edit or two of a common provider's name or ending, weighted by how often people make them: a
 * doubled, missing, swapped or neighboring letter; a dot in the wrong place; or an ending that does
 * not exist. Real domains are never corrected: providers, relays, their lookalikes, and names that
 * a provider has registered in many countries.
 */
export function suggestDomain (domain: string): string | undefined {
  if (NEVER_CORRECTED.has(domain)) return undefined
  const cached = answers.get(domain)
  if (cached !== undefined) return cached.domain
  const typed = splitDomain(domain)
  const isRealEnding = parse(domain).isIcann === true && !SLIPS.has(typed.ending)
  const suggestion = isRealEnding && FAMILIES.has(typed.name)
    ? undefined
    : nearestProvider(typed, isRealEnding) ??
      (isRealEnding ? undefined : withCommonEnding(typed))
  answers.set(domain, { domain: suggestion })
  return suggestion
}

function nearestProvider (typed: SplitDomain, isRealEnding: boolean): string | undefined {
  let nearest: string | undefined
  let lowest = Infinity
  for (const provider of PROVIDERS) {
    const cost = typed.withoutDots === provider.withoutDots
      ? COST.swap
      : computeCost(typed, provider, isRealEnding)
    if (cost !== undefined && cost < lowest) {
      nearest = provider.domain
      lowest = cost
    }
  }
  return nearest
}

/** The cost of a typo of the provider; undefined if it is none. */
function computeCost (
  typed: SplitDomain, provider: SplitDomain, isRealEnding: boolean
): number | undefined {
  if (!mayBegin(typed.name, provider.name)) return undefined
  const ending = typed.ending === provider.ending
    ? 0
    : isRealEnding ? undefined : endingCost(typed.ending, provider.ending)
  if (ending === undefined) return undefined
  if (typed.name === provider.name) return ending
  const max = maxCost(provider.name)
  const cost = editCost(typed.name, provider.name, max)
  return cost > max ? undefined : cost + ending
}

/**
 * The shorter a name is, the more real names are near it: with any other letter in a place, words
 * of seven letters and less are mostly real.
 */
function maxCost (name: string): number {
  if (name.length <= 3) return 0
  if (name.length === 4) return COST.swap
  if (name.length > 7) return MAX_NAME_COST
  return COINED.has(name) ? COST.other : 2 * COST.double
}

/**
 * Whether the beginning of a name may be a typo of the provider's: the first letter is rarely wrong
 * (`cloud.com` is not `icloud.com`), and only long names have few others near them.
 */
function mayBegin (typed: string, name: string): boolean {
  if (typed[0] === name[0]) return true
  const isSwap = typed[0] === name[1] && typed[1] === name[0]
  if (isSwap) return name.length > 4
  const isMissing = typed.startsWith(name.slice(1, 4))
  const isNeighbor = NEIGHBORS.get(name[0]!)?.includes(typed[0]!) === true &&
    typed.startsWith(name.slice(1, 4), 1)
  return name.length > 6 && (isMissing || isNeighbor)
}

const MAX_NAME_COST = COST.swap + COST.missing

/** For an ending that is not real: how far it is from a provider's, if that is near. */
function endingCost (typed: string, ending: string): number | undefined {
  if (SLIPS.has(typed)) return SLIPS.get(typed) === ending ? COST.double : undefined
  const cost = editCost(typed, ending, MAX_ENDING_COST)
  return cost <= MAX_ENDING_COST ? cost : undefined
}

const MAX_ENDING_COST = 2 * COST.other

/** For a domain of two labels whose ending does not exist, if one common ending is near. */
function withCommonEnding ({ name, ending }: SplitDomain): string | undefined {
  // Governments of Spanish names have `gob.mx` and the like.
  if (ending.includes('.') || ending.length < 3 || ending === 'gob') return undefined
  const near = COMMON_ENDINGS.find(common => editCost(ending, common, COST.extra) <= COST.extra)
  return near === undefined ? undefined : `${name}.${near}`
}

/**
 * The cost of the edits that turn `name` into `typed`, in tenths of one edit; more than `max` if it
 * is certain to exceed that. Optimal string alignment: swaps of neighbors are one edit.
 */
function editCost (typed: string, name: string, max: number): number {
  if (Math.abs(typed.length - name.length) * COST.double > max) return max + 1
  let [older, before]: [number[], number[]] = [[], [0]]
  for (let j = 1; j <= name.length; j++) before.push(before[j - 1]! + missingCost(name, j - 1))
  for (let i = 1; i <= typed.length; i++) {
    const row = [before[0]! + extraCost(typed, i - 1)]
    for (let j = 1; j <= name.length; j++) {
      const [a, b] = [typed[i - 1]!, name[j - 1]!]
      let cost = Math.min(
        before[j - 1]! + substitutionCost(a, b),
        before[j]! + extraCost(typed, i - 1),
        row[j - 1]! + missingCost(name, j - 1))
      if (i > 1 && j > 1 && a === name[j - 2] && typed[i - 2] === b && a !== b) {
        cost = Math.min(cost, older[j - 2]! + COST.swap)
      }
      row.push(cost)
    }
    if (Math.min(...row) > max) return max + 1
    ;[older, before] = [before, row]
  }
  return before[name.length]!
}

function substitutionCost (a: string, b: string): number {
  if (a === b) return 0
  if (NEIGHBORS.get(b)?.includes(a) === true) return COST.neighbor
  return ALIKE.includes(a + b) || ALIKE.includes(b + a) ? COST.alike : COST.other
}

function missingCost (name: string, at: number): number {
  return name[at] === name[at - 1] || name[at] === name[at + 1] ? COST.double : COST.missing
}

function extraCost (typed: string, at: number): number {
  const [letter, before, after] = [typed[at]!, typed[at - 1], typed[at + 1]]
  if (letter === before || letter === after) return COST.double
  const isSlip = [before, after].some(other =>
    other !== undefined && NEIGHBORS.get(other)?.includes(letter))
  return isSlip ? COST.neighbor : COST.extra
}
