const literals = new RegExp([
  "'(?:[^'\\\\]|\\\\.|'')*'?", '"(?:[^"\\\\]|\\\\.)*"?', '`(?:[^`\\\\]|\\\\.)*`?',
  '--[^\\n]*', '/\\*[\\s\\S]*?(?:\\*/|$)',
].join('|'), 'gs')

/**
 * The text with everything inside quotes and comments replaced by blanks of the same length, so
 * that a search for keywords or a semicolon can't be misled by data. Positions stay the same.
 */
function maskLiterals (sql: string): string {
  return sql.replace(literals, (literal) => '\u00b7'.repeat(literal.length))
}

/** True when a second statement follows the first: a server refuses that over HTTP. */
export function hasSecondStatement (sql: string): boolean {
  return /;[\s\u00b7]*[^\s\u00b7;]/.test(maskLiterals(sql))
}

/** An INSERT whose data are not part of its text. */
export type InsertText = {
  /** Up to the place where the source of the data belongs. */
  readonly head: string
  /** Settings and format. */
  readonly tail: string
  /** Where the data begin in the text, if any follow. */
  readonly dataAt: number
}

const insertStart = /^[\s\u00b7]*INSERT\s+INTO\s/i
const sourceClause = /\s(?:SETTINGS\s[\s\S]*?\s)?FORMAT\s+([A-Za-z]\w*)[^\S\n]*\n?/i

/** Splits `INSERT INTO t (a) SETTINGS x = 1 FORMAT JSONEachRow`, or undefined for anything else. */
export function splitInsert (text: string): InsertText | undefined {
  const masked = maskLiterals(text)
  const source = insertStart.test(masked) ? sourceClause.exec(masked) : null
  if (!source || source[1]?.toUpperCase() === 'VALUES') return undefined
  if (/\s(?:SELECT|VALUES)\s/i.test(masked.slice(0, source.index))) return undefined
  const dataAt = source.index + source[0].length
  return { head: text.slice(0, source.index), tail: text.slice(source.index, dataAt), dataAt }
}

/** Formats whose output is the same whether it is written in one go or in pieces. */
const piecewise = new Set([
  'jsoneachrow', 'jsoncompacteachrow', 'jsonstringseachrow', 'jsoncompactstringseachrow',
  'ndjson', 'jsonlines', 'tabseparated', 'tsv', 'tabseparatedraw', 'tsvraw', 'csv', 'rowbinary',
])

/** True when the statement reads rows and its format may be sent piece by piece. */
export function canStream (sql: string, defaultFormat: string): boolean {
  const masked = maskLiterals(sql)
  if (!/^[\s\u00b7(]*(?:SELECT|WITH)\s/i.test(masked)) return false
  const format = /\sFORMAT\s+(\w+)[\s\u00b7;]*(?:SETTINGS\s[^;]*)?;?[\s\u00b7]*$/i.exec(masked)?.[1]
  return piecewise.has((format ?? defaultFormat).toLowerCase())
}

/** A string as a literal of the engine: only quote, backslash and NUL could end it early. */
export function quoteLiteral (value: string): string {
  const escaped = value.replace(/\\/g, '\\\\').replace(/'/g, "\\'").replaceAll('\0', '\\0')
  return `'${escaped}'`
}
