import { type ApiError, SHOWN_CHARACTERS } from './errors.ts'

/**
 * Fits the body of a job: 100,000 inputs, 50 labels with names of 40 escaped characters. Characters
 * of a key are those in the text, escapes included. All objects in lists together are at most as
 * many as the items of a list, and those of one list have few different keys: objects of thousands
 * of shapes take a parser seconds and many times the memory of their text.
 */
const JSON_LIMITS = { items: 100_000, keys: 60, listKeys: 4, keyCharacters: 256 }

/** The body, and the objects and lists in it; a list may have objects one level deeper. */
const MAX_DEPTH = 2

const TOO_MANY_ITEMS: ApiError = { code: 'too_many_inputs', param: 'inputs' }
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const COMMA = 0x2c
const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
const CLOSE_BRACE = 0x7d
const CLOSE_BRACKET = 0x5d

/**
 * An open list with its commas, or an open object with its last key. `keys` has the keys so far and
 * the number of the object that last had each: the objects of a list share them.
 */
type Open = {
  readonly isList: boolean
  readonly keys: Map<string, number>
  readonly number: number
  key: string
  commas: number
}

/**
 * Checks a JSON text before it is parsed: nesting, numbers of items and keys, lengths of keys, and
 * duplicate keys, of which parsers keep the last. One pass, in linear time and bounded memory; it
 * stops at the first violation, which it returns. Invalid JSON may pass: the parser rejects it.
 */
export function inspectJson (text: string): ApiError | undefined {
  const open: Open[] = []
  let listedObjects = 0
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) {
      const end = endOfString(text, at)
      const object = open.at(-1)
      if (object?.isList === false && isKey(text, end)) {
        const fault = keyFault(open, object, text.slice(at, end))
        if (fault !== undefined) return fault
      }
      at = end - 1
    } else if (unit === OPEN_BRACE || unit === OPEN_BRACKET) {
      const isList = unit === OPEN_BRACKET
      const list = open.at(-1)?.isList === true ? open.at(-1) : undefined
      const isTooDeep = list === undefined
        ? open.length >= MAX_DEPTH
        : isList || open.length > MAX_DEPTH
      if (isTooDeep) return nestingFault(pathTo(open))
      if (list !== undefined) listedObjects += 1
      if (listedObjects > JSON_LIMITS.items) return TOO_MANY_ITEMS
      const keys = list?.keys ?? new Map<string, number>()
      open.push({ isList, keys, number: list?.commas ?? 0, key: '', commas: 0 })
    } else if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) {
      open.pop()
    } else if (unit === COMMA) {
      const list = open.at(-1)
      if (list?.isList !== true) continue
      list.commas += 1
      if (list.commas >= JSON_LIMITS.items) return TOO_MANY_ITEMS
    }
  }
  return undefined
}

/** The path of the next value, such as `inputs[3]` or `metadata.team`. */
const pathTo = (open: readonly Open[]): string => open.reduce((path, { isList, key, commas }) => {
  if (isList) return `${path}[${commas}]`
  return path === '' ? key : `${path}.${key}`
}, '')

function nestingFault (path: string): ApiError {
  const code = 'invalid_request'
  if (/(?:^|\.)(?:__proto__|constructor)(?:\.|$)/.test(path)) return FORBIDDEN_NAME
  // A list that is the body itself has no name.
  if (path === '' || path.startsWith('[')) {
    return { code, message: 'The body is nested too deeply.' }
  }
  const param = shown(path)
  return { code, param, message: `${param} must be a plain value, not a list or an object.` }
}

/** Adds a key to its object and checks it. */
function keyFault (open: readonly Open[], object: Open, literal: string): ApiError | undefined {
  const code = 'invalid_request'
  const { keys, number } = object
  const { keyCharacters, listKeys } = JSON_LIMITS
  if (literal.length > keyCharacters + 2) {
    const message =
      `The name of the field has more than ${keyCharacters} characters. Shorten it.`
    return { code, param: shown(literal.slice(1, -1)), message }
  }
  const key = parseKey(literal)
  if (keys.get(key) === number) {
    return { code, param: shown(key), message: 'The field appears twice. Send it once.' }
  }
  keys.set(key, number)
  object.key = key
  if (open.at(-2)?.isList === true && keys.size > listKeys) {
    const path = pathTo(open.slice(0, -1))
    const message = `The objects up to ${path} have more than ${listKeys} different fields. ` +
      'Leave out those that the request does not have.'
    return { code, param: shown(path), message }
  }
  return keys.size > JSON_LIMITS.keys
    ? { code, message: `An object has more than ${JSON_LIMITS.keys} fields. Send fewer.` }
    : undefined
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

function parseKey (literal: string): string {
  if (!literal.includes('\\')) return literal.slice(1, -1)
  try {
    return JSON.parse(literal) as string
  } catch {
    // The parser will reject the text; until then keys are compared as they are written.
    return literal
  }
}

const BYTE_ORDER_MARK = 0xfeff
const SPACE = /[ \t\n\r]*/y
// oxlint-disable-next-line no-control-regex
const PLAIN_CHARACTERS = /[^"\\\u0000-\u001f]*/y
const ESCAPE = /\\(?:["\\/bfnrt]|u[\da-fA-F]{4})/y
const SCALAR = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y

/** The beginning of true, false or null. */
const CUT_NAME = /t(?:r(?:u)?)?|f(?:a(?:l(?:s)?)?)?|n(?:u(?:l)?)?/y

/** Line and column of a character, both from 1. */
type TextPosition = { readonly line: number, readonly column: number }

/**
 * The position of the first character with which a text is no JSON, or of its end if it is cut
 * off; undefined for valid JSON. Errors of `JSON.parse` have a position only sometimes, and quote
 * the text. One pass, in linear time.
 */
export function findJsonError (text: string): TextPosition | undefined {
  const offset = findErrorOffset(text)
  if (offset === undefined) return undefined
  let line = 1
  let lineStart = 0
  for (;;) {
    const end = text.indexOf('\n', lineStart)
    if (end === -1 || end >= offset) return { line, column: offset - lineStart + 1 }
    line += 1
    lineStart = end + 1
  }
}

function findErrorOffset (text: string): number | undefined {
  const open: ('{' | '[')[] = []
  const isCloseAt = (at: number) => text[at] === (open.at(-1) === '{' ? '}' : ']')
  let expected: 'value' | 'name' | 'end of value' = 'value'
  /** Directly behind an opening bracket, where it may close again. */
  let isEmpty = false
  let at = text.charCodeAt(0) === BYTE_ORDER_MARK ? 1 : 0
  for (;;) {
    at = findEnd(SPACE, text, at)
    if (open.length > 0 && (isEmpty || expected === 'end of value') && isCloseAt(at)) {
      open.pop()
      at += 1
      expected = 'end of value'
    } else if (expected === 'end of value') {
      if (open.length === 0) return at === text.length ? undefined : at
      if (text[at] !== ',') return at
      at += 1
      expected = open.at(-1) === '{' ? 'name' : 'value'
    } else if (expected === 'name') {
      const string = readString(text, at)
      if (!string.isWhole) return string.end
      at = findEnd(SPACE, text, string.end)
      if (text[at] !== ':') return at
      at += 1
      expected = 'value'
    } else {
      const first = text[at]
      if (first === '{' || first === '[') {
        open.push(first)
        at += 1
        expected = first === '{' ? 'name' : 'value'
        isEmpty = true
        continue
      }
      const end = findEnd(SCALAR, text, at)
      const string = readString(text, at)
      if (end === at && !string.isWhole) return Math.max(string.end, findEnd(CUT_NAME, text, at))
      at = end === at ? string.end : end
      expected = 'end of value'
    }
    isEmpty = false
  }
}

/** The string that begins at an offset: its end, or the offset of its first error. */
function readString (text: string, start: number) {
  if (text[start] !== '"') return { isWhole: false, end: start }
  let at = findEnd(PLAIN_CHARACTERS, text, start + 1)
  while (text[at] === '\\') {
    const end = findEnd(ESCAPE, text, at)
    if (end === at) return { isWhole: false, end: at + 1 }
    at = findEnd(PLAIN_CHARACTERS, text, end)
  }
  return text[at] === '"' ? { isWhole: true, end: at + 1 } : { isWhole: false, end: at }
}

/** Where the match of a sticky pattern at an offset ends; the offset if there is none. */
function findEnd (pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : at
}

/** The error of a name that could change what every object has. */
export const FORBIDDEN_NAME: ApiError = {
  code: 'invalid_request',
  message: 'A field has the name __proto__ or constructor. Leave it out.',
}

const shown = (key: string) => key.slice(0, SHOWN_CHARACTERS)
