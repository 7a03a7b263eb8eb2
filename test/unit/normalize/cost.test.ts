import { describe, expect, it } from 'vitest'
import { canonicalEmail } from '../../../services/normalize/email.ts'
import { canonicalPhone } from '../../../services/normalize/phone.ts'

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

const ROUNDS = 9

/** The best of some rounds, in ms of this process' own CPU: what else runs does not count. */
function costOf (work: () => unknown): number {
  const costs = Array.from({ length: ROUNDS }, () => {
    const before = process.cpuUsage()
    for (let times = 0; times < 20; times++) work()
    const { user, system } = process.cpuUsage(before)
    return user + system
  })
  return Math.min(...costs)
}

/**
 * How much more the work takes for an input four times as long. Linear work takes four times as
 * much, quadratic work sixteen times; a cost too small to measure counts as the least measurable.
 */
function growthOf (work: (length: number) => unknown): number {
  const [short, long] = [75, 300].map(length => costOf(() => work(length)))
  return Math.max(long ?? 0, MIN_MICROS) / Math.max(short ?? 0, MIN_MICROS)
}
const MIN_MICROS = 400

/** The longest local part that is read by the full grammar: no other address may cost much more. */
const longestGrammar = costOf(() => canonicalEmail(`"${'a '.repeat(31)}"@example.org`))

describe('the canonical form of an input takes linear time', () => {
  it.each(Object.entries(EMAILS))('as an e-mail address: %s', (_name, inputOf) => {
    expect(growthOf(length => canonicalEmail(inputOf(length)))).toBeLessThan(9)
    expect(costOf(() => canonicalEmail(inputOf(300)))).toBeLessThan(2 * longestGrammar)
  })

  it.each(Object.entries(PHONES))('as a phone number: %s', (_name, inputOf) => {
    expect(growthOf(length => canonicalPhone(inputOf(length), 'US'))).toBeLessThan(9)
  })

  it('and a too long input is rejected before normalization', () => {
    expect(canonicalPhone('\ufdfa'.repeat(1_024), 'US'))
      .toEqual({ ok: false, reason: 'too_long_input' })
  })
})
