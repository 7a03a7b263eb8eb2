import type { LibraryFormat } from './library.ts'

/** The characters of a written number; `places[i]` is for digit `digits[i]` of the national one. */
type Layout = {
  readonly codes: number[]
  readonly places: readonly number[]
  readonly digits: readonly number[]
}

export type Layouts = { readonly international: Layout, readonly national: Layout }

/** How numbers that begin with certain digits are written. */
export type FormatRule = {
  readonly leadingDigits: RegExp | undefined
  /** By number of digits; undefined where the rule does not apply. */
  readonly layouts: readonly (Layouts | undefined)[]
}

type Group = { readonly least: number, readonly most: number }
type Templates = { readonly international: string, readonly national: string }

const GROUP = /\(\\d(?:\{(\d+)(?:,(\d+))?\})?\)/g
const PLACE = /\$(\d)/
const MAX_GROUPS = 9
/** What the library puts a space for in international form; others would need a closer look. */
const SEPARATORS = /[-/. ()]+/g
const PLAIN_TEMPLATE = /^(?:\$[1-9]|[-/. ()\d])*$/

/**
 * Compiles formats to layouts, so that writing a number needs no regular expression but the one for
 * its leading digits. Patterns are rows of digit groups, `(\d{3})(\d{3,4})`, which take as many
 * digits as they can from the left. International numbers begin with `begin`. Returns undefined if
 * a format is not of this shape.
 */
export function layOut (formats: readonly LibraryFormat[], begin = ''):
readonly FormatRule[] | undefined {
  const rules = formats.map(format => ruleOf(format, begin))
  return rules.every(rule => rule !== undefined) ? rules : undefined
}

/**
 * A national number written in a layout. The text is made in one go: one that is put together of
 * others would keep all of them.
 */
export function write ({ codes, places, digits }: Layout, national: string): string {
  for (let index = 0; index < places.length; index++) {
    codes[places[index] ?? 0] = national.charCodeAt(digits[index] ?? 0)
  }
  return String.fromCharCode(...codes)
}

function ruleOf (format: LibraryFormat, begin: string): FormatRule | undefined {
  const groups = groupsOf(format.pattern())
  const templates = templatesOf(format)
  if (groups === undefined || !isUnderstood(templates, groups.length)) return undefined
  // The last pattern is the most detailed one; the library looks at no other.
  const leading = format.leadingDigitsPatterns().at(-1)
  return {
    leadingDigits: leading === undefined ? undefined : new RegExp(`^(?:${leading})`),
    layouts: layoutsOf(groups, templates, begin),
  }
}

function groupsOf (pattern: string): readonly Group[] | undefined {
  if (pattern.replaceAll(GROUP, '') !== '') return undefined
  return [...pattern.matchAll(GROUP)].map(([, least = '1', most = least]) =>
    ({ least: Number(least), most: Number(most) }))
}

/** As in the library, the national prefix rule replaces the first group that the format names. */
function templatesOf (format: LibraryFormat): Templates {
  const rule = format.nationalPrefixFormattingRule()
  const international = format.internationalFormat()
  return {
    international: international.replaceAll(SEPARATORS, ' ').trim(),
    national: rule ? format.format().replace(/(\$\d)/, rule) : format.format(),
  }
}

function isUnderstood ({ international, national }: Templates, groups: number): boolean {
  const places = [...`${international}${national}`.matchAll(/\$(\d)/g)]
  return PLAIN_TEMPLATE.test(international) && PLAIN_TEMPLATE.test(national) &&
    groups <= MAX_GROUPS && places.every(([, place]) => Number(place) <= groups)
}

function layoutsOf (
  groups: readonly Group[], templates: Templates, begin: string
): readonly (Layouts | undefined)[] {
  const least = groups.reduce((sum, group) => sum + group.least, 0)
  const most = groups.reduce((sum, group) => sum + group.most, 0)
  return Array.from({ length: most + 1 }, (_, digits) => {
    if (digits < least) return undefined
    const ends = endsOf(groups, digits - least)
    return {
      international: layoutOf(begin, templates.international, ends),
      national: layoutOf('', templates.national, ends),
    }
  })
}

/** Where each group ends when `spare` digits are more than the groups need. */
function endsOf (groups: readonly Group[], spare: number): readonly number[] {
  let end = 0
  let left = spare
  return groups.map(({ least, most }) => {
    const more = Math.min(left, most - least)
    left -= more
    end += least + more
    return end
  })
}

function layoutOf (begin: string, template: string, ends: readonly number[]): Layout {
  const codes = codesOf(begin)
  const places: number[] = []
  const digits: number[] = []
  for (const [index, part] of template.split(PLACE).entries()) {
    // Behind each text comes the number of a group.
    if (index % 2 === 0) codes.push(...codesOf(part))
    else {
      const group = Number(part)
      for (let digit = ends[group - 2] ?? 0; digit < (ends[group - 1] ?? 0); digit++) {
        digits.push(digit)
        places.push(codes.push(0) - 1)
      }
    }
  }
  return { codes, places, digits }
}

function codesOf (text: string): number[] {
  return [...text].map(character => character.charCodeAt(0))
}
