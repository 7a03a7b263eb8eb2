// How the service and its clients read CSV files and name the columns of joined ones.

/** Delimiters that are detected, by the names that requests may use. */
export const DELIMITERS = { comma: ',', semicolon: ';', tab: '\t', pipe: '|' } as const

/** End of a record: `lf` accepts CRLF and LF, `cr` is a lone CR in a file without any LF. */
export type RecordEnd = 'lf' | 'cr'

const SAMPLE_LINES = 50

/** The record end of a file, from its beginning. */
export function detectRecordEnd (sample: string): RecordEnd {
  return sample.includes('\r') && !sample.includes('\n') ? 'cr' : 'lf'
}

/** The delimiter that occurs in the first line and equally often in most other lines. */
export function detectDelimiter (sample: string, ends: RecordEnd): string {
  const unquoted = sample.replace(/"(?:[^"]|"")*"?/g, '')
  const lines = unquoted.split(ends === 'cr' ? '\r' : '\n')
    .slice(0, SAMPLE_LINES).filter(line => line.trim() !== '')
  const scored = Object.values(DELIMITERS).map(delimiter => {
    const counts = lines.map(line => line.split(delimiter).length - 1)
    const inHeader = counts[0] ?? 0
    const equal = counts.filter(count => count === inHeader).length
    return { delimiter, inHeader, equal }
  })
  const [best] = scored.filter(({ inHeader }) => inHeader > 0)
    .sort((a, b) => b.equal - a.equal || b.inHeader - a.inHeader)
  return best?.delimiter ?? DELIMITERS.comma
}

/** A name as it is compared: without surrounding space, in lower case. */
export const foldedName = (name: string): string => name.trim().toLowerCase()

/**
 * The positions, from 0, of the columns with this name: those spelled exactly so, or else those
 * that differ in case or surrounding space only.
 */
export function positionsOf (header: readonly string[], name: string): readonly number[] {
  const where = (test: (one: string) => boolean) =>
    header.flatMap((one, position) => test(one) ? [position] : [])
  const exact = where(one => one === name)
  return exact.length > 0 ? exact : where(one => foldedName(one) === foldedName(name))
}

const PREFIX = 'verified_'

/** The names of columns added to a file. A name that the file already has gets a prefix. */
export function uniqueNames (
  columns: readonly string[], header: readonly string[]
): readonly string[] {
  const used = new Set(header.map(foldedName))
  return columns.map(column => {
    let name = column
    while (used.has(name)) name = `${PREFIX}${name}`
    used.add(name)
    return name
  })
}
