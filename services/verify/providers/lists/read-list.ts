import { domainToASCII } from 'node:url'

/** A list has at most this size; domains of a million entries have some 20 MB. */
export const MAX_LIST_BYTES = 67_108_864
const MAX_ENTRIES = 1_000_000
const MAX_LINE_CHARACTERS = 1_000
/** RFC 1035, 2.3.4, without the dot of the root. */
const MAX_NAME_LENGTH = 253

const ASCII_ONLY = /^[\x21-\x7e]*$/
const DOMAIN =
  /^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/** A domain name with a dot, in lower case and as A-labels (RFC 5891); undefined for others. */
export function toDomain (text: string): string | undefined {
  if (text.length > MAX_NAME_LENGTH) return undefined
  const name = ASCII_ONLY.test(text) ? text.toLowerCase() : domainToASCII(text)
  return name.length <= MAX_NAME_LENGTH && DOMAIN.test(name) ? name : undefined
}

/**
 * Adds the entries of a list to a set: UTF-8, an entry a line, `#` begins a comment, blank lines
 * are skipped. Resolves to the number of lines with an entry. Waits for each piece, so the event
 * loop is held for no longer than a piece takes.
 * @throws RangeError with the line that is not valid, shortened, in printable ASCII.
 */
export async function readList (
  pieces: AsyncIterable<Uint8Array>, parse: (text: string) => string | undefined,
  entries: Set<string>
): Promise<number> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let rest = ''
  let lines = 0
  let count = 0
  const decode = (piece: Uint8Array | undefined) => {
    try {
      return decoder.decode(piece, { stream: piece !== undefined })
    } catch {
      throw new RangeError(`the text after line ${lines} is not UTF-8`)
    }
  }
  const addLine = (line: string) => {
    lines++
    if (line.length > MAX_LINE_CHARACTERS) {
      throw new RangeError(`line ${lines} has more than ${MAX_LINE_CHARACTERS} characters`)
    }
    const comment = line.indexOf('#')
    const text = (comment < 0 ? line : line.slice(0, comment)).trim()
    if (text === '') return
    const entry = parse(text)
    if (entry === undefined) throw new RangeError(`line ${lines} is no entry: ${quote(text)}`)
    if (++count > MAX_ENTRIES) throw new RangeError(`more than ${MAX_ENTRIES} entries`)
    entries.add(entry)
  }
  for await (const piece of pieces) {
    const [first = '', ...others] = decode(piece).split('\n')
    if (others.length === 0) {
      rest += first
    } else {
      addLine(rest + first)
      rest = others.pop() ?? ''
      for (const line of others) addLine(line)
    }
    if (rest.length > MAX_LINE_CHARACTERS) addLine(rest)
  }
  addLine(rest + decode(undefined))
  return count
}

/** The beginning of a text; a terminal must not obey what it holds. */
function quote (text: string): string {
  return JSON.stringify(text.slice(0, 60)).replace(/[^\x20-\x7e]/g, character =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
