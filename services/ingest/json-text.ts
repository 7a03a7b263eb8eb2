/** What can be wrong with a JSON text that a parser would accept in silence. */
export type Finding =
  | { readonly kind: 'fine' }
  | { readonly kind: 'deep' }
  | { readonly kind: 'duplicate', readonly key: string }

/** Deeper than any request of the interface; recursive code downstream never meets more. */
const MAX_DEPTH = 8

const FINE: Finding = { kind: 'fine' }
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
const CLOSE_BRACE = 0x7d
const CLOSE_BRACKET = 0x5d

/**
 * Looks over a JSON text in one pass for keys that appear twice in one object, of which parsers
 * keep the last, and for deep nesting. A text that is no JSON may pass: the parser refuses it
 * after.
 */
export function inspectJson (text: string): Finding {
  /** The keys of every object that is open, undefined for a list. */
  const open: (Set<string> | undefined)[] = []
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) {
      const end = endOfString(text, at)
      const keys = open.at(-1)
      if (keys !== undefined && isKey(text, end)) {
        const key = keyOf(text.slice(at, end))
        if (keys.has(key)) return { kind: 'duplicate', key }
        keys.add(key)
      }
      at = end - 1
    } else if (unit === OPEN_BRACE || unit === OPEN_BRACKET) {
      if (open.push(unit === OPEN_BRACE ? new Set() : undefined) > MAX_DEPTH) {
        return { kind: 'deep' }
      }
    } else if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) {
      open.pop()
    }
  }
  return FINE
}

/** Index after the closing quote of the string that begins at `start`, or the end of the text. */
function endOfString (text: string, start: number): number {
  let quote = text.indexOf('"', start + 1)
  while (quote !== -1 && isEscaped(text, quote)) quote = text.indexOf('"', quote + 1)
  return quote === -1 ? text.length : quote + 1
}

function isEscaped (text: string, quote: number): boolean {
  let backslashes = 0
  while (text.charCodeAt(quote - 1 - backslashes) === BACKSLASH) backslashes += 1
  return backslashes % 2 === 1
}

function isKey (text: string, afterString: number): boolean {
  let at = afterString
  while (at < text.length && text.charCodeAt(at) <= 0x20) at += 1
  return text.charCodeAt(at) === COLON
}

function keyOf (literal: string): string {
  try {
    return JSON.parse(literal) as string
  } catch {
    // The parser will refuse the whole text; until then its spelling tells keys apart.
    return literal
  }
}
