import { foldedName } from '../../../schemas/files/csv-format.ts'
import type { ContactKind } from '../../jobs/results/columns.ts'

/** A column that may have the contacts. */
export type Candidate = {
  /** Position from 0. */
  readonly at: number
  readonly kind: ContactKind
  /** Cells that are not blank, and those of them that look like contacts. */
  readonly filled: number
  readonly matching: number
  /** Whether its name is a usual one. */
  readonly isNamed: boolean
}

/** The lines of a table below its header; without a header it has no names. */
export type Table = {
  readonly names: readonly string[] | undefined
  readonly width: number
  readonly rows: readonly (readonly string[])[]
}

const USUAL_NAMES: Readonly<Record<ContactKind, RegExp>> = {
  phone: /^(contact|input|cell|msisdn|number|whatsapp|telegram|tel)$|phone|mobile?|telefon|handy/,
  email: /^(contact|input)$|e-?mail|^mail$/,
}
/** A longer cell is no contact, and could take a pattern long. */
const MAX_CELL_CHARACTERS = 320
const EMAIL_PATTERN = /^[^\s@]+@[^\s@]+\.[^\s@]+$/
const PHONE_PATTERN = /^\+?[\d\s().\-/]+$/
const DATE_PATTERN = /^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\b/
const PHONE_DIGITS = { min: 7, max: 15 }
/** Real lists contain typing errors. */
const MIN_MATCHING_SHARE = 0.6

/** Whether a cell could be a contact. Distinguishes columns only; it does not verify anything. */
export function looksLike (kind: ContactKind, text: string): boolean {
  if (text.length > MAX_CELL_CHARACTERS) return false
  const cell = text.trim()
  if (kind === 'email') return EMAIL_PATTERN.test(cell)
  const digits = cell.replace(/\D/g, '').length
  return PHONE_PATTERN.test(cell) && !DATE_PATTERN.test(cell) &&
    digits >= PHONE_DIGITS.min && digits <= PHONE_DIGITS.max
}

/**
 * The columns that may have contacts of these kinds, the best first: by cells and name, by cells,
 * by name. Awaits `pause` before each column.
 */
export async function findColumns (
  { names, width, rows }: Table, kinds: readonly ContactKind[], pause: () => Promise<void>
): Promise<readonly Candidate[]> {
  const candidates: Candidate[] = []
  for (let at = 0; at < width; at++) {
    await pause()
    const cells = rows.map(row => row[at] ?? '').filter(cell => cell.trim() !== '')
    for (const kind of kinds) {
      const matching = cells.filter(cell => looksLike(kind, cell)).length
      const isNamed = USUAL_NAMES[kind].test(foldedName(names?.[at] ?? ''))
      const candidate = { at, kind, filled: cells.length, matching, isNamed }
      if (rankOf(candidate) > 0) candidates.push(candidate)
    }
  }
  return candidates.toSorted((one, other) =>
    rankOf(other) - rankOf(one) || other.matching - one.matching)
}

const hasContacts = ({ filled, matching }: Candidate) =>
  filled > 0 && matching >= MIN_MATCHING_SHARE * filled

const rankOf = (candidate: Candidate) =>
  (hasContacts(candidate) ? 2 : 0) + (candidate.isNamed ? 1 : 0)

/** The candidates that are as good as the best one; only a single one can be chosen. */
export function bestOf (candidates: readonly Candidate[]): readonly Candidate[] {
  const [best] = candidates
  if (best === undefined) return []
  return candidates.filter(candidate => rankOf(candidate) === rankOf(best))
}
