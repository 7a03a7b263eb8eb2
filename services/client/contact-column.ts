import { UsageError } from './command-error.ts'

export type ContactKind = 'phone' | 'email'

/** The beginning of a table: its header and some of its rows. */
export type TableHead = {
  readonly header: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

export type ChosenColumn = {
  readonly index: number
  readonly name: string
  /** True when nobody named it. */
  readonly guessed: boolean
}

type Wish = { readonly kind: ContactKind, readonly asked?: string | undefined }

const USUAL_NAMES: Readonly<Record<ContactKind, RegExp>> = {
  phone: /^(contact|input|cell|msisdn|number|whatsapp|telegram|tel)$|phone|mobile?|telefon|handy/,
  email: /^(contact|input)$|e-?mail|^mail$/,
}
const LIKE_EMAIL = /^[^\s@]+@[^\s@]+\.[^\s@]+$/
const LIKE_PHONE = /^\+?[\d\s().\-/]+$/
const LIKE_DATE = /^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\b/
/** Some rows of every list are typing errors. */
const ENOUGH_ALIKE = 0.6

/**
 * Which column holds the contacts: the one of that name in any case, `#3` for the third one, or,
 * when none is named, the only one that plausibly does. Throws UsageError with the columns there
 * are when that cannot be told, or when the first line names no columns but is a contact itself.
 */
export function contactColumn (head: TableHead, wish: Wish): ChosenColumn {
  const index = wish.asked === undefined
    ? guessedIndex(head, wish.kind)
    : namedIndex(head.header, wish.asked)
  const name = head.header[index] ?? ''
  if (looksLike(wish.kind, name)) {
    throw new UsageError('The first line of the file must name its columns, but it holds the ' +
      `contact of a row: ${name}. Put a line with names above it.`)
  }
  return { index, name: name === '' ? `#${index + 1}` : name, guessed: wish.asked === undefined }
}

function namedIndex (header: readonly string[], asked: string): number {
  const exact = indexesOf(header, name => name === asked)
  const found = exact.length > 0 ? exact : indexesOf(header, name => fold(name) === fold(asked))
  const [only] = found
  if (found.length === 1 && only !== undefined) return only
  const place = /^#([1-9]\d*)$/.exec(asked)?.[1]
  if (found.length === 0 && place !== undefined && Number(place) <= header.length) {
    return Number(place) - 1
  }
  const places = found.map(index => `#${index + 1}`)
  throw new UsageError(found.length > 1
    ? `${found.length} columns are called ${asked}; name one by its place: --column ` +
      `'${places.join("' or '")}'.`
    : `The file has no column ${asked}. ${listOf(header)}`)
}

function guessedIndex ({ header, rows }: TableHead, kind: ContactKind): number {
  const all = header.map((_, index) => index)
  const byContent = all.filter(index => isMostly(kind, rows.map(cells => cells[index])))
  const byName = all.filter(index => USUAL_NAMES[kind].test(fold(header[index] ?? '')))
  const both = byContent.filter(index => byName.includes(index))
  const found = [both, byContent, byName, all].find(({ length }) => length === 1)?.[0]
  if (found !== undefined && (both.length < 2)) return found
  throw new UsageError(`Say with --column which column holds the contacts. ${listOf(header)}`)
}

function isMostly (kind: ContactKind, column: readonly (string | undefined)[]): boolean {
  const cells = column.map(cell => cell?.trim() ?? '').filter(cell => cell !== '')
  const alike = cells.filter(cell => looksLike(kind, cell)).length
  return cells.length > 0 && alike >= ENOUGH_ALIKE * cells.length
}

/**
 * The kinds of contacts that a file plausibly holds in the column of that name, or in any column
 * when none is named. Throws UsageError when there is no such column.
 */
export function kindsIn (
  { header, rows }: TableHead, asked: string | undefined
): readonly ContactKind[] {
  const places = asked === undefined ? header.map((_, index) => index) : [namedIndex(header, asked)]
  const kinds: readonly ContactKind[] = ['phone', 'email']
  const byContent = kinds.filter(kind => places.some(index =>
    isMostly(kind, rows.map(cells => cells[index]))))
  if (byContent.length > 0 || asked === undefined) return byContent
  return kinds.filter(kind => USUAL_NAMES[kind].test(fold(asked)))
}

/** Whether a cell could be a contact; only for telling columns apart, never for verifying. */
export function looksLike (kind: ContactKind, cell: string): boolean {
  if (kind === 'email') return LIKE_EMAIL.test(cell)
  const digits = cell.replace(/\D/g, '').length
  return LIKE_PHONE.test(cell) && !LIKE_DATE.test(cell) && digits >= 7 && digits <= 15
}

const fold = (name: string) => name.trim().toLowerCase()

const indexesOf = (header: readonly string[], test: (name: string) => boolean) =>
  header.flatMap((name, index) => test(name) ? [index] : [])

const listOf = (header: readonly string[]) =>
  `There are: ${header.map((name, index) => name === '' ? `#${index + 1}` : name).join(', ')}.`
