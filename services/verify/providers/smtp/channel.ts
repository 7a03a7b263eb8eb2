import { once } from 'node:events'
import { isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { createReplyReader, SmtpFault, type SmtpFaultKind, type SmtpReply } from './reply.ts'

/** A conversation with a mail server, one command at a time (no pipelining). */
export type SmtpChannel = {
  /**
   * Waits for the reply; without a command for the greeting. Throws SmtpFault, and RangeError for a
   * command that is more than one line, which only a defect can cause.
   */
  readonly ask: (command?: string) => Promise<SmtpReply>
  /** Goes on in TLS after the server agreed to it; `no_tls` when that fails. */
  readonly secure: (hostName: string) => Promise<void>
  /** Says good-bye where that is still possible, and lets go of the socket; never throws. */
  readonly close: () => Promise<void>
}

export type ChannelOptions = {
  readonly replyTimeoutMs: number
  /** Ends the conversation with `timeout`. */
  readonly signal: AbortSignal
}

/** A good-bye is a courtesy nobody should wait for long. */
const QUIT_MS = 500
const CLOSING = 421
const CONTROL = /\p{Cc}/u

/** The conversation over a connected socket, which is its own from now on. */
export function createChannel (
  socket: Socket, { replyTimeoutMs, signal }: ChannelOptions
): SmtpChannel {
  const inbox = createInbox()
  let stream = socket
  const fail = (kind: SmtpFaultKind) => {
    inbox.fail(kind)
    stream.destroy()
    socket.destroy()
  }
  const hear = (bytes: Buffer) => { if (!inbox.hear(bytes)) fail('garbage') }
  const listen = (to: Socket) => {
    to.on('data', hear)
    to.on('error', () => fail('dropped'))
    to.on('close', () => fail('dropped'))
  }
  const stop = () => fail('timeout')
  const ask = async (command?: string, longestMs = replyTimeoutMs): Promise<SmtpReply> => {
    if (command !== undefined && CONTROL.test(command)) throw new RangeError('not one line')
    // A reply to nothing would be taken for the one to this command, but for a last word.
    if (command !== undefined && !inbox.isEmpty() && !inbox.isClosing()) fail('garbage')
    const waits = inbox.isEmpty() && !inbox.hasFailed()
    if (command !== undefined && waits) stream.write(`${command}\r\n`)
    const timer = setTimeout(stop, longestMs)
    return await inbox.next().finally(() => clearTimeout(timer))
  }
  listen(socket)
  if (signal.aborted) stop()
  else signal.addEventListener('abort', stop, { once: true })
  return {
    ask,
    secure: async (hostName) => {
      if (!inbox.isEmpty()) return fail('garbage')
      socket.removeListener('data', hear)
      stream = await secured(socket, hostName, { replyTimeoutMs, signal })
      listen(stream)
    },
    close: async () => {
      if (!inbox.hasFailed()) await ask('QUIT', QUIT_MS).catch(() => {})
      signal.removeEventListener('abort', stop)
      stream.destroy()
      socket.destroy()
    },
  }
}

/** Replies in the order they came, and whoever waits for the next one. */
function createInbox () {
  const reader = createReplyReader()
  const replies: SmtpReply[] = []
  let failure: SmtpFault | undefined
  let waiting: PromiseWithResolvers<SmtpReply> | undefined
  return {
    isEmpty: () => replies.length === 0 && reader.isEmpty(),
    isClosing: () => replies[0]?.code === CLOSING,
    hasFailed: () => failure !== undefined,
    /** What was heard in whole before is still told, but nonsense spoils all of it. */
    fail: (kind: SmtpFaultKind) => {
      failure ??= new SmtpFault(kind)
      if (kind === 'garbage') replies.length = 0
      waiting?.reject(failure)
      waiting = undefined
    },
    /** False when these bytes can be no replies. */
    hear: (bytes: Buffer): boolean => {
      try {
        replies.push(...reader.push(bytes))
      } catch {
        return false
      }
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
 * Certificates of mail servers are rarely to be had for their names, so none is asked for (RFC
 * 7435): whoever only listens on the way is kept out, which is more than plain text does.
 */
async function secured (
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
