import { describe, expect, it } from 'vitest'
import { canonicalEmail, canonicalPhone } from '../../../services/normalize/canonical.ts'

/** Inputs on which grammars and regular expressions are known to take long, of any length. */
const EMAILS: Readonly<Record<string, (length: number) => string>> = {
  'open comments': length => `${'('.repeat(length)}@x.com`,
  'nested comments': length => `${'('.repeat(length / 2)}${')'.repeat(length / 2)}a@x.com`,
  comments: length => `${'(a)'.repeat(length / 3)}a@x.com`,
  'spaced comments': length => `${'( '.repeat(length / 2)}@x.com`,
  quotes: length => `${'"'.repeat(length)}@x.com`,
  'quoted words': length => `${'"a" '.repeat(length / 4)}@x.com`,
  escapes: length => `"${'\\"'.repeat(length / 2)}@x.com`,
  'open quote': length => `"${'a '.repeat(length / 2)}@x.com`,
  'a long display name': length => `${'a '.repeat(length / 2)}<a@x.com>`,
  'an open bracket': length => `${'a '.repeat(length / 2)}<a@x.com`,
  brackets: length => `${'<'.repeat(length)}a@x.com`,
  'a route': length => `<${'@a,'.repeat(length / 3)}:a@x.com>`,
  'a group': length => `g:${'a@b,'.repeat(length / 4)};@x.com`,
  spaces: length => `a${' '.repeat(length)}@x.com`,
  dots: length => `${'a.'.repeat(length / 2)}@x.com`,
  labels: length => `a@${'a.'.repeat(length / 2)}`,
  hyphens: length => `a@${'-'.repeat(length)}`,
  'percent signs': length => `mailto:${'%41'.repeat(length / 3)}@x.com`,
  'a domain literal': length => `a@[${'1.'.repeat(length / 2)}]`,
  ats: length => '@'.repeat(length),
  'letters beyond ASCII': length => `${'\u00e9'.repeat(length)}@x.com`,
}
const PHONES: Readonly<Record<string, (length: number) => string>> = {
  'a ligature of eighteen letters': length => '\ufdfa'.repeat(length),
  pluses: length => '+'.repeat(length),
  extensions: length => `+1212${'ext 1 '.repeat(length / 6)}`,
  'RFC 3966 parameters': length => `tel:${';phone-context=+1'.repeat(length / 16)}`,
  digits: length => '1'.repeat(length),
  'digits and dashes': length => '1-'.repeat(length / 2),
  'digits and commas': length => '1,'.repeat(length / 2),
  'digits and slashes': length => '030/'.repeat(length / 4),
  words: length => `030 901820 ${'ab '.repeat(length / 3)}`,
  'digits between words': length => `030 901820 ${'a 1 '.repeat(length / 4)}`,
  marks: length => '\u00b9'.repeat(length),
  quotes: length => '"'.repeat(length),
  'dots and spaces': length => `030${'. '.repeat(length / 2)}1`,
  'brackets of zeros': length => '(0)'.repeat(length / 3),
  'escapes of pluses': length => '%2B'.repeat(length / 3),
  conjunctions: length => '1 or '.repeat(length / 5),
  parentheses: length => `${'('.repeat(length)}1`,
}

/** Noise only adds to a cost, so the lowest of enough rounds is the cost itself. */
const ROUNDS = { least: 9, most: 90 }
/** Linear work takes eight times as much for an input eight times as long, quadratic work 64. */
const LENGTHS = { short: 40, long: 320 }
const MAX_GROWTH = 32
/** A cost too small to measure counts as the least measurable. */
const MIN_MICROS = 400

/** Of this process' own CPU, in microseconds: what else runs does not count. */
function costOf (work: () => unknown): number {
  const before = process.cpuUsage()
  for (let times = 0; times < 20; times++) work()
  const { user, system } = process.cpuUsage(before)
  return Math.max(user + system, MIN_MICROS)
}

/** How much more the second work takes than the first; measured until it is at most `enough`. */
function ratioOf (first: () => unknown, second: () => unknown, enough: number): number {
  let [lowest, other] = [Infinity, Infinity]
  for (let round = 0; round < ROUNDS.most; round++) {
    lowest = Math.min(lowest, costOf(first))
    other = Math.min(other, costOf(second))
    if (round >= ROUNDS.least && other / lowest <= enough) break
  }
  return other / lowest
}

const growthOf = (work: (length: number) => unknown) =>
  ratioOf(() => work(LENGTHS.short), () => work(LENGTHS.long), MAX_GROWTH)

/** The longest local part that is read by the full grammar: no other address may cost much more. */
const longestGrammar = () => canonicalEmail(`"${'a '.repeat(31)}"@example.org`)

describe('the canonical form of an input takes linear time', () => {
  it.each(Object.entries(EMAILS))('as an e-mail address: %s', (_name, inputOf) => {
    expect(growthOf(length => canonicalEmail(inputOf(length)))).toBeLessThanOrEqual(MAX_GROWTH)
    expect(ratioOf(longestGrammar, () => canonicalEmail(inputOf(300)), 2)).toBeLessThanOrEqual(2)
  })

  it.each(Object.entries(PHONES))('as a phone number: %s', (_name, inputOf) => {
    expect(growthOf(length => canonicalPhone(inputOf(length), 'US')))
      .toBeLessThanOrEqual(MAX_GROWTH)
  })

  it('and a too long input is rejected before normalization', () => {
    expect(canonicalPhone('\ufdfa'.repeat(1_024), 'US'))
      .toEqual({ ok: false, reason: 'too_long_input' })
  })
})
