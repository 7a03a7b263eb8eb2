import { once } from 'node:events'
import { isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import {
  readReply, type ReplyQuestion, ReplyReader, type ReplyReading, type SmtpReply,
} from './replies.ts'

/** Our identity; a mail server may compare the name with our address. */
export type SmtpCaller = {
  readonly helo: string
  /** Empty for the null sender. */
  readonly sender: string
}

const READY_FOR_TLS = 220
export const CLOSING = 421
const REQUIRES_UTF8 = /[^\p{ASCII}]/u

/** Whether an address can only be sent with SMTPUTF8 (RFC 6531). */
export const requiresUtf8 = (address: string): boolean => REQUIRES_UTF8.test(address)

/** The server does not accept a step before the recipients. */
export class SmtpRefusal extends Error {
  override readonly name = 'SmtpRefusal'
  readonly reading: ReplyReading

  constructor (reading: ReplyReading) {
    super(`SMTP step refused: ${reading.code}`)
    this.reading = reading
  }
}

/** @throws SmtpRefusal for a reply that does not accept its step. */
export function throwIfRefused (reply: SmtpReply, question: ReplyQuestion): void {
  const reading = readReply(reply, question)
  if (reading.meaning !== 'accepted') throw new SmtpRefusal(reading)
}

type Greeting = {
  /** Our name. */
  readonly helo: string
  /** The name of the exchange, for replies that only some hosts give. */
  readonly host: string
  /** Whether to use STARTTLS if the server offers it. */
  readonly startTls: boolean
}

/**
 * Opens a session: greeting, EHLO (or HELO), STARTTLS if offered. Resolves to the extensions that
 * the server offers. Nothing here ever sends VRFY or DATA. Rejects with SmtpRefusal or SmtpFault.
 */
export async function greet (
  channel: SmtpChannel, { helo, host, startTls }: Greeting
): Promise<ReadonlySet<string>> {
  throwIfRefused(await channel.send(), { step: 'greeting', host })
  const hello = await channel.send(`EHLO ${helo}`)
  if (hello.code >= 500) {
    throwIfRefused(await channel.send(`HELO ${helo}`), { step: 'hello', host })
    return new Set()
  }
  const extensions = readExtensions(hello, host)
  if (!startTls || !extensions.has('STARTTLS')) return extensions
  // A server that offers STARTTLS and then refuses it is used in plain text.
  if ((await channel.send('STARTTLS')).code !== READY_FOR_TLS) return extensions
  await channel.startTls(host)
  return readExtensions(await channel.send(`EHLO ${helo}`), host)
}

function readExtensions (hello: SmtpReply, host: string): ReadonlySet<string> {
  throwIfRefused(hello, { step: 'hello', host })
  return new Set(hello.lines.slice(1).map((line) => (line.split(' ')[0] ?? '').toUpperCase()))
}

type ChannelOptions = {
  readonly replyTimeoutMs: number
  /** Timeout of the greeting, for which many servers let clients wait; as a reply if left out. */
  readonly greetingTimeoutMs?: number | undefined
  /** Ends the session with `timeout`. */
  readonly signal: AbortSignal
}

/** A server counts the session until it has read QUIT, and the next one may be one too many. */
const QUIT_TIMEOUT_MS = 5_000
const CONTROL = /\p{Cc}/u
/** Replies beyond the one that is awaited; a server has no reason for more than a 421. */
const MAX_EARLY_REPLIES = 8

/** An SMTP session over a connected socket, which it owns; one command, or group, at a time. */
export class SmtpChannel {
  readonly #socket: Socket
  readonly #options: ChannelOptions
  readonly #reader = new ReplyReader()
  /** Replies that were received and not read yet. */
  readonly #replies: SmtpReply[] = []
  readonly #receive = (bytes: Buffer) => this.#take(bytes)
  readonly #stop = () => this.#fail('timeout')
  /** The socket, or its encrypted side. */
  #stream: Socket
  #failure: SmtpFault | undefined
  #waiting: PromiseWithResolvers<SmtpReply> | undefined
  /** Replies to the commands that were sent at once. */
  #expected = 1

  constructor (socket: Socket, options: ChannelOptions) {
    this.#socket = socket
    this.#stream = socket
    this.#options = options
    this.#listen(socket)
    if (options.signal.aborted) this.#stop()
    else options.signal.addEventListener('abort', this.#stop, { once: true })
  }

  /**
   * Sends a command and resolves to its reply; without a command to the greeting. Rejects with
   * SmtpFault, and with RangeError for a command with control characters.
   */
  async send (command?: string): Promise<SmtpReply> {
    const { replyTimeoutMs, greetingTimeoutMs = replyTimeoutMs } = this.#options
    return command === undefined
      ? await this.#ask([], greetingTimeoutMs)
      : await this.#ask([command], replyTimeoutMs)
  }

  /**
   * Sends commands at once (RFC 2920) and calls `onReply` with the reply to each, in order. Rejects
   * with SmtpFault after the last reply there was.
   */
  async sendAll (
    commands: readonly string[], onReply: (reply: SmtpReply, index: number) => void
  ): Promise<void> {
    this.#expected = commands.length
    const { replyTimeoutMs } = this.#options
    onReply(await this.#ask(commands, replyTimeoutMs), 0)
    for (let index = 1; index < commands.length; index++) {
      onReply(await this.#within(replyTimeoutMs), index)
    }
    this.#expected = 1
  }

  /** Starts TLS after the server has accepted STARTTLS; rejects with `no_tls` if that fails. */
  async startTls (hostName: string): Promise<void> {
    if (!this.#isEmpty) return this.#fail('garbage')
    this.#socket.removeListener('data', this.#receive)
    this.#stream = await connectSecurely(this.#socket, hostName, this.#options)
    this.#listen(this.#stream)
  }

  /** Sends QUIT if possible and destroys the socket; never rejects. */
  async close (): Promise<void> {
    if (this.#failure === undefined) await this.#ask(['QUIT'], QUIT_TIMEOUT_MS).catch(() => {})
    this.#options.signal.removeEventListener('abort', this.#stop)
    this.#destroy()
  }

  async #ask (commands: readonly string[], timeoutMs: number): Promise<SmtpReply> {
    if (commands.some(command => CONTROL.test(command))) {
      throw new RangeError('SMTP command has a control character; canonicalize addresses first')
    }
    // An unsolicited reply would count as the reply to this command; only a 421 may arrive early.
    const isClosing = this.#replies[0]?.code === CLOSING
    const sends = commands.length > 0
    if (sends && !this.#isEmpty && !isClosing) this.#fail('garbage')
    const waits = this.#isEmpty && this.#failure === undefined
    if (sends && waits) this.#stream.write(commands.map(command => `${command}\r\n`).join(''))
    return await this.#within(timeoutMs)
  }

  async #within (timeoutMs: number): Promise<SmtpReply> {
    const timer = setTimeout(this.#stop, timeoutMs)
    return await this.#nextReply().finally(() => clearTimeout(timer))
  }

  async #nextReply (): Promise<SmtpReply> {
    const early = this.#replies.shift()
    if (early !== undefined) return early
    if (this.#failure !== undefined) throw this.#failure
    this.#waiting = Promise.withResolvers()
    return await this.#waiting.promise
  }

  get #isEmpty (): boolean {
    return this.#replies.length === 0 && this.#reader.isEmpty
  }

  #listen (stream: Socket): void {
    stream.on('data', this.#receive)
    stream.on('error', () => this.#fail('dropped'))
    stream.on('close', () => this.#fail('dropped'))
  }

  #take (bytes: Buffer): void {
    try {
      this.#replies.push(...this.#reader.push(bytes))
    } catch {
      return this.#fail('garbage')
    }
    if (this.#replies.length > this.#expected + MAX_EARLY_REPLIES) return this.#fail('garbage')
    if (this.#waiting === undefined) return
    const reply = this.#replies.shift()
    if (reply === undefined) return
    this.#waiting.resolve(reply)
    this.#waiting = undefined
  }

  /** Complete replies before the failure stay readable, except after garbage. */
  #fail (kind: SmtpFaultKind): void {
    this.#failure ??= new SmtpFault(kind)
    if (kind === 'garbage') this.#replies.length = 0
    this.#waiting?.reject(this.#failure)
    this.#waiting = undefined
    this.#destroy()
  }

  #destroy (): void {
    this.#stream.destroy()
    this.#socket.destroy()
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

/**
 * The failures of an SMTP session. `no_egress`: our own proxy or address does not work, which says
 * nothing about the server.
 */
export type SmtpFaultKind =
  'unreachable' | 'dropped' | 'timeout' | 'garbage' | 'no_tls' | 'no_egress'

/** A failure code without any text of the server, which could name the server or the contact. */
export class SmtpFault extends Error {
  override readonly name = 'SmtpFault'
  readonly kind: SmtpFaultKind

  constructor (kind: SmtpFaultKind) {
    super(`SMTP session failed: ${kind}`)
    this.kind = kind
  }
}
