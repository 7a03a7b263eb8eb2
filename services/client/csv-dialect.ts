import { CommandError } from './command-error.ts'

/** How a CSV file is written, as far as its first bytes tell. */
export type Dialect = {
  readonly delimiter: string
  /** What ends a record: CRLF and LF are both understood, CR alone only where there is no LF. */
  readonly ends: 'lf' | 'cr'
  /** Behind the byte order mark, if there is one. */
  readonly startByte: number
}

export type TextEncoding = 'utf-8' | 'windows-1252'

const DELIMITERS = [',', ';', '\t', '|'] as const
const LINES_LOOKED_AT = 50
const UTF8_MARK = Buffer.from([0xef, 0xbb, 0xbf])
const UTF16_MARKS = [Buffer.from([0xff, 0xfe]), Buffer.from([0xfe, 0xff])]

/**
 * Tells the dialect from the beginning of a file. Throws CommandError for UTF-16, which cannot be
 * cut into cells byte by byte.
 */
export function dialectOf (sample: Buffer, asked?: string): Dialect {
  if (UTF16_MARKS.some(mark => sample.subarray(0, 2).equals(mark)) || sample.includes(0)) {
    throw new CommandError('The file is no CSV in UTF-8: it looks like UTF-16 or a binary file. ' +
      'Save it as "CSV UTF-8" and run the command again.')
  }
  const startByte = sample.subarray(0, 3).equals(UTF8_MARK) ? 3 : 0
  const text = sample.toString('latin1', startByte)
  const ends = text.includes('\r') && !text.includes('\n') ? 'cr' : 'lf'
  return { delimiter: asked ?? delimiterOf(text, ends), ends, startByte }
}

/**
 * The delimiter that stands in the first line and as often in the lines after it; quoted cells do
 * not count.
 */
function delimiterOf (text: string, ends: Dialect['ends']): string {
  const bare = text.replace(/"(?:[^"]|"")*"?/g, '')
  const lines = bare.split(ends === 'cr' ? '\r' : '\n')
    .slice(0, LINES_LOOKED_AT).filter(line => line.trim() !== '')
  const scored = DELIMITERS.map(delimiter => {
    const counts = lines.map(line => line.split(delimiter).length - 1)
    const inHeader = counts[0] ?? 0
    const alike = counts.filter(count => count === inHeader).length
    return { delimiter, inHeader, alike }
  })
  const [best] = scored.filter(({ inHeader }) => inHeader > 0)
    .sort((a, b) => b.alike - a.alike || b.inHeader - a.inHeader)
  return best?.delimiter ?? ','
}

/** What a cell says; cells are carried as one character a byte, so that none of them changes. */
export function textOf (cell: string, encoding: TextEncoding): string {
  if (isAscii(cell)) return cell
  return new TextDecoder(encoding).decode(Buffer.from(cell, 'latin1'))
}

/** A text as a cell of a file of that encoding; what the encoding lacks becomes a question mark. */
export function cellOf (text: string, encoding: TextEncoding): string {
  if (isAscii(text)) return text
  if (encoding === 'utf-8') return Buffer.from(text, 'utf8').toString('latin1')
  return Array.from(text, letter => WESTERN.get(letter) ?? '?').join('')
}

const isAscii = (text: string): boolean => {
  for (let index = 0; index < text.length; index++) {
    if (text.charCodeAt(index) > 0x7f) return false
  }
  return true
}

/** The characters of Windows-1252 and the byte of each. */
const WESTERN: ReadonlyMap<string, string> = new Map(Array.from({ length: 256 }, (_, byte) => [
  new TextDecoder('windows-1252').decode(Uint8Array.of(byte)), String.fromCharCode(byte),
]))
