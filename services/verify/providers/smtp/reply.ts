/** How a conversation with a mail server can end without an answer. */
export type SmtpFaultKind = 'unreachable' | 'dropped' | 'timeout' | 'garbage' | 'no_tls'

/** Carries nothing of what a server said, which could name it or the contact. */
export class SmtpFault extends Error {
  override readonly name = 'SmtpFault'
  readonly kind: SmtpFaultKind

  constructor (kind: SmtpFaultKind) {
    super(`no answer of a mail server: ${kind}`)
    this.kind = kind
  }
}

/** A whole reply (RFC 5321, 4.2); `enhanced` is its code of RFC 3463, such as `5.1.1`. */
export type SmtpReply = {
  readonly code: number
  readonly enhanced: string | undefined
  /** What stands after the code, line by line; it never leaves this folder. */
  readonly lines: readonly string[]
}

export type ReplyReader = {
  /** The replies that these bytes complete; throws SmtpFault when they can't be any. */
  readonly push: (bytes: Uint8Array) => readonly SmtpReply[]
  /** Whether nothing of a further reply came yet. */
  readonly isEmpty: () => boolean
}

/** RFC 5321, 4.5.3.1.5 allows 512; servers that take it lightly are common, endless ones not. */
const MAX_LINE_BYTES = 2_048
const MAX_LINES = 100

const LINE = /^([2-5]\d\d)(?:([ -])(.*))?$/s
const ENHANCED = /^([245]\.\d{1,3}\.\d{1,3})(?:\s|$)/

/** Cuts what a server sends into replies, and gives up on one that keeps to no limit. */
export function createReplyReader (): ReplyReader {
  let rest = ''
  let lines: string[] = []
  let code: string | undefined
  const take = (line: string): SmtpReply | undefined => {
    const [, digits, sign, text = ''] = LINE.exec(line) ?? []
    if (digits === undefined || (code !== undefined && digits !== code)) {
      throw new SmtpFault('garbage')
    }
    code = digits
    lines.push(text)
    if (lines.length > MAX_LINES) throw new SmtpFault('garbage')
    if (sign === '-') return undefined
    const reply = replyOf(code, lines)
    lines = []
    code = undefined
    return reply
  }
  return {
    isEmpty: () => rest === '' && code === undefined,
    push: (bytes) => {
      const parts = (rest + Buffer.from(bytes).toString('latin1')).split('\n')
      rest = parts.pop() ?? ''
      if ([...parts, rest].some(({ length }) => length > MAX_LINE_BYTES)) {
        throw new SmtpFault('garbage')
      }
      return parts.map((line) => take(line.replace(/\r$/, ''))).filter((it) => it !== undefined)
    },
  }
}

function replyOf (code: string, lines: readonly string[]): SmtpReply {
  const enhanced = lines.map((line) => ENHANCED.exec(line)?.[1]).find((it) => it !== undefined)
  return { code: Number(code), enhanced, lines }
}
