import { SmtpFault, type SmtpChannel, type SmtpReply } from './channel.ts'
import { readReply, type ReplyQuestion } from './read-reply.ts'
import type { Meaning, Reading, SmtpStep } from './replies.ts'

/** Our identity; a mail server may compare the name with our address. */
export type SmtpCaller = {
  readonly helo: string
  /** Empty for the null sender. */
  readonly sender: string
}

type ServerQuestion = {
  /**
   * One or two recipients. The second one is sent if the first one is accepted, or not now: servers
   * that greylist start to count with the first question.
   */
  readonly recipients: readonly string[]
  /** The name of the mail exchange, for replies that only some hosts give. */
  readonly host: string
  /** Server name for TLS; without it, nothing is encrypted. */
  readonly tlsName: string | undefined
  /** Called when the server accepts recipients. */
  readonly onReady?: () => void
}

/** The step that a session ended at, and the meaning of its reply. */
export type ServerAnswer = Reading & {
  readonly step: SmtpStep
  /** Of the second recipient, if it was sent; undefined if it had no reply. */
  readonly second?: Meaning | undefined
}

const READY_FOR_TLS = 220
const CLOSING = 421
const REQUIRES_UTF8 = /[^\p{ASCII}]/u

/** A step with another reply than acceptance. */
type Ended = Reading & { readonly step: SmtpStep }

/**
 * Asks a server whether it accepts mail for the recipients, without sending mail: greeting, EHLO
 * (or HELO), STARTTLS if offered, MAIL, RCPT. It never sends VRFY or DATA. Rejects with SmtpFault.
 */
export async function askServer (
  channel: SmtpChannel, caller: SmtpCaller, question: ServerQuestion
): Promise<ServerAnswer> {
  const [first = '', second] = question.recipients
  const { host, tlsName } = question
  const greeting = readReply(await channel.send(), { step: 'greeting', host })
  if (greeting.meaning !== 'accepted') return { step: 'greeting', ...greeting }
  const hello = await greet(channel, caller, { host, tlsName })
  if ('meaning' in hello) return hello
  const utf8 = REQUIRES_UTF8.test(first)
  // Without SMTPUTF8 a server accepts no such address (RFC 6531, 3.2).
  if (utf8 && !hello.extensions.has('SMTPUTF8')) {
    return { step: 'sender', meaning: 'unclear', by: 'code' }
  }
  const from = `MAIL FROM:<${caller.sender}>${utf8 ? ' SMTPUTF8' : ''}`
  const sender = readReply(await channel.send(from), { step: 'sender', host })
  if (sender.meaning !== 'accepted') return { step: 'sender', ...sender }
  question.onReady?.()
  const reply = await channel.send(`RCPT TO:<${first}>`)
  const asked = { step: 'recipient', host, sender: caller.sender } as const
  const answer = { step: asked.step, ...readReply(reply, { ...asked, recipient: first }) }
  const isOpen = answer.meaning === 'accepted' ||
    (answer.meaning === 'greylisted' && reply.code !== CLOSING)
  if (!isOpen || second === undefined) return answer
  return { ...answer, second: await askSecond(channel, second, asked) }
}

/** A failure of the second recipient does not change the answer for the first one. */
async function askSecond (
  channel: SmtpChannel, recipient: string, asked: ReplyQuestion
): Promise<Meaning | undefined> {
  try {
    const reply = await channel.send(`RCPT TO:<${recipient}>`)
    return readReply(reply, { ...asked, recipient }).meaning
  } catch (error) {
    if (error instanceof SmtpFault) return undefined
    throw error
  }
}

type Hello = { readonly extensions: ReadonlySet<string> }

async function greet (
  channel: SmtpChannel, { helo }: SmtpCaller,
  { host, tlsName }: Pick<ServerQuestion, 'host' | 'tlsName'>
): Promise<Hello | Ended> {
  const first = await channel.send(`EHLO ${helo}`)
  if (first.code >= 500) return readHello(await channel.send(`HELO ${helo}`), host, false)
  const hello = readHello(first, host, true)
  if ('meaning' in hello || tlsName === undefined) return hello
  if (!hello.extensions.has('STARTTLS')) return hello
  // A server that offers STARTTLS and then refuses it is used in plain text.
  if ((await channel.send('STARTTLS')).code !== READY_FOR_TLS) return hello
  await channel.startTls(tlsName)
  return readHello(await channel.send(`EHLO ${helo}`), host, true)
}

function readHello (reply: SmtpReply, host: string, isExtended: boolean): Hello | Ended {
  const reading = readReply(reply, { step: 'hello', host })
  if (reading.meaning !== 'accepted') return { step: 'hello', ...reading }
  const names = isExtended ? reply.lines.slice(1).map((line) => line.split(' ')[0] ?? '') : []
  return { extensions: new Set(names.map((name) => name.toUpperCase())) }
}
