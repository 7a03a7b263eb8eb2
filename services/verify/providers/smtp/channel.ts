import { once } from 'node:events'
import { isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

/** An SMTP session, one command at a time (no pipelining). */
export type SmtpChannel = {
  /**
   * Sends a command and resolves to its reply; without a command to the greeting. Rejects with
   * SmtpFault, and with RangeError for a command with control characters.
   */
  readonly send: (command?: string) => Promise<SmtpReply>
  /** Starts TLS after the server has accepted STARTTLS; rejects with `no_tls` if that fails. */
  readonly startTls: (hostName: string) => Promise<void>
  /** Sends QUIT if possible and destroys the socket; never rejects. */
  readonly close: () => Promise<void>
}

type ChannelOptions = {
  readonly replyTimeoutMs: number
  /** Timeout of the greeting, for which many servers let clients wait; as a reply if left out. */
  readonly greetingTimeoutMs?: number | undefined
  /** Ends the session with `timeout`. */
  readonly signal: AbortSignal
}

/** QUIT is only a courtesy, so its timeout is short. */
const QUIT_TIMEOUT_MS = 500
const CLOSING = 421
const CONTROL = /\p{Cc}/u

/** The session over a connected socket, which it owns from now on. */
export function createChannel (
  socket: Socket, { replyTimeoutMs, greetingTimeoutMs = replyTimeoutMs, signal }: ChannelOptions
): SmtpChannel {
  const inbox = createInbox()
  let stream = socket
  const fail = (kind: SmtpFaultKind) => {
    inbox.fail(kind)
    stream.destroy()
    socket.destroy()
  }
  const receive = (bytes: Buffer) => { if (!inbox.receive(bytes)) fail('garbage') }
  const listen = (to: Socket) => {
    to.on('data', receive)
    to.on('error', () => fail('dropped'))
    to.on('close', () => fail('dropped'))
  }
  const stop = () => fail('timeout')
  const send = async (
    command?: string, timeoutMs = command === undefined ? greetingTimeoutMs : replyTimeoutMs
  ): Promise<SmtpReply> => {
    if (command !== undefined && CONTROL.test(command)) {
      throw new RangeError('SMTP command has a control character; canonicalize addresses first')
    }
    // An unsolicited reply would count as the reply to this command; only a 421 may arrive early.
    if (command !== undefined && !inbox.isEmpty() && !inbox.isClosing()) fail('garbage')
    const waits = inbox.isEmpty() && !inbox.hasFailed()
    if (command !== undefined && waits) stream.write(`${command}\r\n`)
    const timer = setTimeout(stop, timeoutMs)
    return await inbox.next().finally(() => clearTimeout(timer))
  }
  listen(socket)
  if (signal.aborted) stop()
  else signal.addEventListener('abort', stop, { once: true })
  return {
    send,
    startTls: async (hostName) => {
      if (!inbox.isEmpty()) return fail('garbage')
      socket.removeListener('data', receive)
      stream = await connectSecurely(socket, hostName, { replyTimeoutMs, signal })
      listen(stream)
    },
    close: async () => {
      if (!inbox.hasFailed()) await send('QUIT', QUIT_TIMEOUT_MS).catch(() => {})
      signal.removeEventListener('abort', stop)
      stream.destroy()
      socket.destroy()
    },
  }
}

/** Replies beyond the one that is awaited; a server has no reason for more than a 421. */
const MAX_EARLY_REPLIES = 8

/** Received replies in order, and the pending read of the next one. */
function createInbox () {
  const reader = createReplyReader()
  const replies: SmtpReply[] = []
  let failure: SmtpFault | undefined
  let waiting: PromiseWithResolvers<SmtpReply> | undefined
  return {
    isEmpty: () => replies.length === 0 && reader.isEmpty(),
    isClosing: () => replies[0]?.code === CLOSING,
    hasFailed: () => failure !== undefined,
    /** Complete replies before the failure stay readable, except after garbage. */
    fail: (kind: SmtpFaultKind) => {
      failure ??= new SmtpFault(kind)
      if (kind === 'garbage') replies.length = 0
      waiting?.reject(failure)
      waiting = undefined
    },
    /** False if these bytes are no SMTP replies. */
    receive: (bytes: Buffer): boolean => {
      try {
        replies.push(...reader.push(bytes))
      } catch {
        return false
      }
      if (replies.length > MAX_EARLY_REPLIES) return false
      const reply = waiting === undefined ? undefined : replies.shift()
      if (reply !== undefined) waiting?.resolve(reply)
      if (reply !== undefined) waiting = undefined
      return true
    },
    next: async (): Promise<SmtpReply> => {
      const early = replies.shift()
      if (early !== undefined) return early
      if (failure !== undefined) throw failure
      waiting = Promise.withResolvers()
      return await waiting.promise
    },
  }
}

/**
 * Certificates of mail servers rarely match their names, so they are not verified (RFC 7435). This
 * protects against passive listeners, unlike plain text.
 */
async function connectSecurely (
  socket: Socket, hostName: string, { replyTimeoutMs, signal }: ChannelOptions
): Promise<Socket> {
  const servername = isIP(hostName) === 0 ? { servername: hostName } : {}
  const stream = connectTls({ socket, rejectUnauthorized: false, ...servername })
  const within = AbortSignal.any([signal, AbortSignal.timeout(replyTimeoutMs)])
  try {
    await once(stream, 'secureConnect', { signal: within })
    return stream
  } catch {
    stream.on('error', () => {})
    stream.destroy()
    throw new SmtpFault(signal.aborted ? 'timeout' : 'no_tls')
  }
}

/** The failures of an SMTP session. */
export type SmtpFaultKind = 'unreachable' | 'dropped' | 'timeout' | 'garbage' | 'no_tls'

/** A failure code without any text of the server, which could name the server or the contact. */
export class SmtpFault extends Error {
  override readonly name = 'SmtpFault'
  readonly kind: SmtpFaultKind

  constructor (kind: SmtpFaultKind) {
    super(`SMTP session failed: ${kind}`)
    this.kind = kind
  }
}

/**
 * A whole reply (RFC 5321, 4.2); `enhanced` is its code of RFC 3463, such as `5.1.1`, whichever way
 * the server writes it: `#5.1.1`, `5-1-1`, `(#5.1.1)` at the end, or behind a repeated basic code.
 */
export type SmtpReply = {
  readonly code: number
  readonly enhanced: string | undefined
  /** The text after the code, by line. It must not leave this folder. */
  readonly lines: readonly string[]
}

type ReplyReader = {
  /** The replies that these bytes complete; throws SmtpFault if they are no replies. */
  readonly push: (bytes: Uint8Array) => readonly SmtpReply[]
  /** Whether there is no part of a further reply. */
  readonly isEmpty: () => boolean
}

/** RFC 5321, 4.5.3.1.5 allows 512 bytes, which many servers exceed. */
const MAX_LINE_BYTES = 2_048
const MAX_LINES = 100

const LINE = /^([2-5]\d\d)(?:([ -])(.*))?$/s
const ENHANCED_FIRST = /^\s*(?:\d{3}[ :-]\s*)?#?([245])[.-](\d{1,3})[.-](\d{1,3})(?![.-]?\d)/
/** Within a line a code has points, and is not part of an IP address or a version. */
const ENHANCED_WITHIN = /(?<![\w.-])([245])\.(\d{1,3})\.(\d{1,3})(?![.-]?\w)/

/** Splits received bytes into replies; limits the length of a line and the number of lines. */
export function createReplyReader (): ReplyReader {
  let rest = ''
  let lines: string[] = []
  let code: string | undefined
  const addLine = (line: string): SmtpReply | undefined => {
    const [, digits, separator, text = ''] = LINE.exec(line) ?? []
    if (digits === undefined || (code !== undefined && digits !== code)) {
      throw new SmtpFault('garbage')
    }
    code = digits
    lines.push(text)
    if (lines.length > MAX_LINES) throw new SmtpFault('garbage')
    if (separator === '-') return undefined
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
      return parts.map((line) => addLine(line.replace(/\r$/, ''))).filter((it) => it !== undefined)
    },
  }
}

function replyOf (code: string, lines: readonly string[]): SmtpReply {
  const first = lines.map((line) => ENHANCED_FIRST.exec(line)).find((it) => it !== null)
  const within = lines.map((line) => ENHANCED_WITHIN.exec(line)).find((it) => it?.[1] === code[0])
  const enhanced = (first ?? within)?.slice(1).join('.')
  return { code: Number(code), enhanced, lines }
}
