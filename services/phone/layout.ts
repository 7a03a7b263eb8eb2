import type { LibraryFormat } from './library.ts'

/**
 * The characters of a formatted number; `positions[i]` is for digit `digits[i]` of the national
 * one.
 */
type Layout = {
  readonly codes: number[]
  readonly positions: readonly number[]
  readonly digits: readonly number[]
}

type Layouts = { readonly international: Layout, readonly national: Layout }

/** The format of numbers with certain leading digits. */
export type FormatRule = {
  readonly leadingDigits: RegExp | undefined
  /** By number of digits; undefined if the rule does not apply. */
  readonly layouts: readonly (Layouts | undefined)[]
  /** Whether national numbers are written with a prefix: `030 901820`. */
  readonly writesPrefix: boolean
}

type Group = { readonly min: number, readonly max: number }
type Templates = { readonly international: string, readonly national: string }

const GROUP = /\(\\d(?:\{(\d+)(?:,(\d+))?\})?\)/g
const PLACEHOLDER = /\$(\d)/
const MAX_GROUPS = 9
/** Characters that the library replaces by a space in international format. */
const SEPARATORS = /[-/. ()]+/g
const PLAIN_TEMPLATE = /^(?:\$[1-9]|[-/. ()\d])*$/

/**
 * Compiles formats to layouts, so that formatting a number needs no regular expression except for
 * its leading digits. Patterns are sequences of digit groups, `(\d{3})(\d{3,4})`, which take as
 * many digits as possible from the left. International numbers start with `begin`. Returns
 * undefined for a format of another shape.
 */
export function compileFormats (formats: readonly LibraryFormat[], begin = ''):
readonly FormatRule[] | undefined {
  const rules = formats.map(format => ruleOf(format, begin))
  return rules.every(rule => rule !== undefined) ? rules : undefined
}

/** The first rule whose leading digits and length match, as in the library. */
export function ruleFor (rules: readonly FormatRule[], national: string): FormatRule | undefined {
  return rules.find(({ layouts, leadingDigits }) =>
    layouts[national.length] !== undefined && (leadingDigits?.test(national) ?? true))
}

/**
 * Fills a layout with a national number. Builds the string in one step: a concatenated string would
 * keep its pieces in memory.
 */
export function fillLayout ({ codes, positions, digits }: Layout, national: string): string {
  for (let index = 0; index < positions.length; index++) {
    codes[positions[index] ?? 0] = national.charCodeAt(digits[index] ?? 0)
  }
  return String.fromCharCode(...codes)
}

function ruleOf (format: LibraryFormat, begin: string): FormatRule | undefined {
  const groups = groupsOf(format.pattern())
  const templates = templatesOf(format)
  if (groups === undefined || !isUnderstood(templates, groups.length)) return undefined
  // The last pattern is the most detailed one; the library uses only that one.
  const leading = format.leadingDigitsPatterns().at(-1)
  return {
    leadingDigits: leading === undefined ? undefined : new RegExp(`^(?:${leading})`),
    layouts: layoutsOf(groups, templates, begin),
    writesPrefix: /\d/.test((format.nationalPrefixFormattingRule() || '').replaceAll(/\$\d/g, '')),
  }
}

function groupsOf (pattern: string): readonly Group[] | undefined {
  if (pattern.replaceAll(GROUP, '') !== '') return undefined
  return [...pattern.matchAll(GROUP)].map(([, min = '1', max = min]) =>
    ({ min: Number(min), max: Number(max) }))
}

/** As in the library, the national prefix rule replaces the first group of the format. */
function templatesOf (format: LibraryFormat): Templates {
  const rule = format.nationalPrefixFormattingRule()
  const international = format.internationalFormat()
  return {
    international: international.replaceAll(SEPARATORS, ' ').trim(),
    national: rule ? format.format().replace(/(\$\d)/, rule) : format.format(),
  }
}

function isUnderstood ({ international, national }: Templates, groups: number): boolean {
  const positions = [...`${international}${national}`.matchAll(/\$(\d)/g)]
  return PLAIN_TEMPLATE.test(international) && PLAIN_TEMPLATE.test(national) &&
    groups <= MAX_GROUPS && positions.every(([, place]) => Number(place) <= groups)
}

function layoutsOf (
  groups: readonly Group[], templates: Templates, begin: string
): readonly (Layouts | undefined)[] {
  const min = groups.reduce((sum, group) => sum + group.min, 0)
  const max = groups.reduce((sum, group) => sum + group.max, 0)
  return Array.from({ length: max + 1 }, (_, digits) => {
    if (digits < min) return undefined
    const ends = endsOf(groups, digits - min)
    return {
      international: layoutOf(begin, templates.international, ends),
      national: layoutOf('', templates.national, ends),
    }
  })
}

/** The end of each group if there are `spare` digits more than its minimum. */
function endsOf (groups: readonly Group[], spare: number): readonly number[] {
  let end = 0
  let left = spare
  return groups.map(({ min, max }) => {
    const more = Math.min(left, max - min)
    left -= more
    end += min + more
    return end
  })
}

function layoutOf (begin: string, template: string, ends: readonly number[]): Layout {
  const codes = codesOf(begin)
  const positions: number[] = []
  const digits: number[] = []
  for (const [index, part] of template.split(PLACEHOLDER).entries()) {
    // Each text is followed by the number of a group.
    if (index % 2 === 0) codes.push(...codesOf(part))
    else {
      const group = Number(part)
      for (let digit = ends[group - 2] ?? 0; digit < (ends[group - 1] ?? 0); digit++) {
        digits.push(digit)
        positions.push(codes.push(0) - 1)
      }
    }
  }
  return { codes, positions, digits }
}

function codesOf (text: string): number[] {
  return [...text].map(character => character.charCodeAt(0))
}
