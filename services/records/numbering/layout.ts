import type { LibraryFormat } from './library.ts'

/** Literal texts and between them the digits `from[i]` to `to[i]` of a national number. */
type Layout = {
  readonly texts: readonly string[]
  readonly from: readonly number[]
  readonly to: readonly number[]
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
const MOST_GROUPS = 9
/** What the library puts a space for in international form; others would need a closer look. */
const SEPARATORS = /[-/. ()]+/g
const PLAIN_TEMPLATE = /^(?:\$[1-9]|[-/. ()\d])*$/

/**
 * Compiles formats to slices, so that writing a number needs no regular expression but the one for
 * its leading digits. Patterns are rows of digit groups, `(\d{3})(\d{3,4})`, which take as many
 * digits as they can from the left. Returns undefined if a format is not of this shape.
 */
export function layOut (formats: readonly LibraryFormat[]): readonly FormatRule[] | undefined {
  const rules = formats.map(ruleOf)
  return rules.every(rule => rule !== undefined) ? rules : undefined
}

/** A national number written in a layout. */
export function write ({ texts, from, to }: Layout, national: string): string {
  let written = texts[0] ?? ''
  for (let place = 0; place < from.length; place++) {
    written += national.slice(from[place], to[place]) + texts[place + 1]
  }
  return written
}

function ruleOf (format: LibraryFormat): FormatRule | undefined {
  const groups = groupsOf(format.pattern())
  const templates = templatesOf(format)
  if (groups === undefined || !isUnderstood(templates, groups.length)) return undefined
  // The last pattern is the most detailed one; the library looks at no other.
  const leading = format.leadingDigitsPatterns().at(-1)
  return {
    leadingDigits: leading === undefined ? undefined : new RegExp(`^(?:${leading})`),
    layouts: layoutsOf(groups, templates),
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
    groups <= MOST_GROUPS && places.every(([, place]) => Number(place) <= groups)
}

function layoutsOf (
  groups: readonly Group[], templates: Templates
): readonly (Layouts | undefined)[] {
  const least = groups.reduce((sum, group) => sum + group.least, 0)
  const most = groups.reduce((sum, group) => sum + group.most, 0)
  return Array.from({ length: most + 1 }, (_, digits) => {
    if (digits < least) return undefined
    const ends = endsOf(groups, digits - least)
    return {
      international: layoutOf(templates.international, ends),
      national: layoutOf(templates.national, ends),
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

function layoutOf (template: string, ends: readonly number[]): Layout {
  const parts = template.split(PLACE)
  const groups = parts.filter((_, index) => index % 2 === 1).map(Number)
  return {
    texts: parts.filter((_, index) => index % 2 === 0),
    from: groups.map(group => ends[group - 2] ?? 0),
    to: groups.map(group => ends[group - 1] ?? 0),
  }
}
