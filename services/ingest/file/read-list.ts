import {
  ENTRY_KINDS, LIST_ACTIONS, MAX_CHANGED_ENTRIES,
} from '../../../schemas/api/contact-lists.ts'
import { foldedName } from '../../../schemas/files/csv-format.ts'
import type { ListChange } from '../../accounts/contact-lists.ts'
import { type ApiException, SHOWN_CHARACTERS } from '../errors.ts'
import { fileError, scanCsv } from './read-file.ts'

/** A line of a file with entries of contact lists. */
type ListLine = {
  /** Its number in the file, from 1. */
  readonly line: number
  readonly entry: string
  readonly kind: string
  readonly list: string
}

/** A file with entries of contact lists. */
export class ListFile {
  readonly #lines: readonly ListLine[]

  constructor (lines: readonly ListLine[]) {
    this.#lines = lines
  }

  /**
   * The changes in it; with `action` that one for all lines.
   * @throws ApiException that names the lines which cannot be used.
   */
  changes (action: ListChange['action'] | undefined): readonly ListChange[] {
    const faults: { readonly index: number, readonly message: string }[] = []
    const changes = this.#lines.map(({ entry, kind, list }, index): ListChange => {
      const wanted = action ?? ACTIONS.find(name => name === list)
      const entryKind = ENTRY_KINDS.find(name => name === kind)
      if (wanted === undefined) faults.push({ index, message: listFault(list) })
      else if (entryKind === undefined && kind !== '') {
        faults.push({ index, message: kindFault(kind) })
      }
      return { text: entry, action: wanted ?? 'remove', ...entryKind && { kind: entryKind } }
    })
    if (faults.length > 0) throw this.error(faults, faults.length)
    return changes
  }

  /** The answer to lines that cannot be used, of which the first `faults` are named. */
  error (
    faults: readonly { readonly index: number, readonly message: string }[], count: number
  ): ApiException {
    const named = faults.slice(0, MAX_NAMED).map(({ index, message }) =>
      `Line ${this.#lines[index]?.line}: ${message}`)
    const more = count > named.length ? ` And ${count - named.length} more.` : ''
    const lines = count === 1 ? 'a line' : `${count.toLocaleString('en-US')} lines`
    return fileError(`Nothing was changed, as ${lines} of the file cannot be used. ` +
      `${named.join(' ')}${more}`)
  }
}

const MAX_NAMED = 10
const ACTIONS = [...LIST_ACTIONS, 'remove'] as const

const shown = (text: string) => `"${text.slice(0, SHOWN_CHARACTERS)}"`

const listFault = (list: string) => list === ''
  ? `list is blank. Write one of ${ACTIONS.join(', ')} there, or send action for all lines.`
  : `list is ${shown(list)}. Write one of: ${ACTIONS.join(', ')}.`

const kindFault = (kind: string) =>
  `kind is ${shown(kind)}. Leave it blank, or write one of: ${ENTRY_KINDS.join(', ')}.`

/**
 * Reads a CSV file with entries of contact lists: columns `entry`, and perhaps `list` and `kind`,
 * in any order; or one column without a name. Other columns are ignored.
 * @throws ApiException for a file that is no such file.
 */
export async function readListFile (bytes: Buffer, pause: () => Promise<void>): Promise<ListFile> {
  const lines: ListLine[] = []
  let columns: ReturnType<typeof columnsIn> | undefined
  await scanCsv(bytes, undefined, {
    pause,
    onRecord: record => {
      if (record.kind === 'blank') return
      const { cells, line } = record
      if (cells.every(cell => cell.trim() === '')) return
      if (columns === undefined) {
        columns = columnsIn(cells)
        if (columns.isHeader) return
      }
      const { entry, kind, list } = columns
      if (lines.length === MAX_CHANGED_ENTRIES) {
        throw fileError(`The file has more than ${MAX_CHANGED_ENTRIES.toLocaleString('en-US')} ` +
          'entries. Send it in parts.')
      }
      lines.push({
        line,
        entry: cells[entry] ?? '',
        kind: (cells[kind] ?? '').trim().toLowerCase(),
        list: (cells[list] ?? '').trim().toLowerCase(),
      })
    },
  })
  if (lines.length === 0) throw fileError('The file has no entries. Send at least one.')
  return new ListFile(lines)
}

/** The positions of the columns in the first line; -1 for those that are missing. */
function columnsIn (first: readonly string[]) {
  const names = first.map(foldedName)
  const [entry, kind, list] = ['entry', 'kind', 'list'].map(name => names.indexOf(name)) as
    [number, number, number]
  if (entry >= 0) return { isHeader: true, entry, kind, list }
  if (first.length === 1) return { isHeader: false, entry: 0, kind, list }
  throw fileError('The first line of the file names no column "entry". Name the columns entry, ' +
    'list and kind, of which the last two may be left out, or send one column without a name.')
}
