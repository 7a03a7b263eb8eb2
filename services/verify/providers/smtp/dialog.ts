import type { SmtpChannel } from './channel.ts'
import { meaningOf, type Meaning, type Step } from './meaning.ts'
import { SmtpFault, type SmtpReply } from './reply.ts'

/** Whom we say we are; a mail server may compare the name with our address. */
export type Caller = {
  readonly helo: string
  /** Blank for the null sender. */
  readonly sender: string
}

export type ServerQuestion = {
  /** Recipients asked about in turn, as long as the first one is accepted. */
  readonly recipients: readonly string[]
  /** Name the server is known by in TLS; without it, nothing is encrypted. */
  readonly secureAs: string | undefined
  /** Called when the server is ready to hear of recipients. */
  readonly onReady?: () => void
}

/** Where a conversation ended, and what was said there. */
export type ServerAnswer = {
  readonly step: Step
  readonly meaning: Meaning
  /** Of the second recipient, if it was asked about; undefined when nobody could tell. */
  readonly second?: Meaning | undefined
}

const READY_FOR_TLS = 220
const REQUIRES_UTF8 = /[^\p{ASCII}]/u

/** A step whose reply was another than acceptance. */
type Ended = { readonly step: Step, readonly meaning: Meaning }

/**
 * Asks a server whether it takes mail for the recipients, and sends none: greeting, EHLO (or HELO),
 * STARTTLS where offered, MAIL, RCPT. Neither VRFY nor DATA is ever said.
 */
export async function askServer (
  channel: SmtpChannel, caller: Caller, question: ServerQuestion
): Promise<ServerAnswer> {
  const [first = '', second] = question.recipients
  const greeting = meaningOf('greeting', await channel.ask())
  if (greeting !== 'accepted') return { step: 'greeting', meaning: greeting }
  const hello = await sayHello(channel, caller, question.secureAs)
  if ('meaning' in hello) return hello
  const utf8 = REQUIRES_UTF8.test(first)
  // A server that does not know such addresses can't be asked about one (RFC 6531, 3.2).
  if (utf8 && !hello.extensions.has('SMTPUTF8')) return { step: 'sender', meaning: 'unclear' }
  const from = `MAIL FROM:<${caller.sender}>${utf8 ? ' SMTPUTF8' : ''}`
  const sender = meaningOf('sender', await channel.ask(from))
  if (sender !== 'accepted') return { step: 'sender', meaning: sender }
  question.onReady?.()
  const meaning = await askRecipient(channel, first)
  if (meaning !== 'accepted' || second === undefined) return { step: 'recipient', meaning }
  return { step: 'recipient', meaning, second: await secondOf(channel, second) }
}

async function askRecipient (channel: SmtpChannel, recipient: string): Promise<Meaning> {
  return meaningOf('recipient', await channel.ask(`RCPT TO:<${recipient}>`))
}

/** Whatever happens to the second recipient, the answer about the first one stands. */
async function secondOf (channel: SmtpChannel, recipient: string): Promise<Meaning | undefined> {
  try {
    return await askRecipient(channel, recipient)
  } catch (error) {
    if (error instanceof SmtpFault) return undefined
    throw error
  }
}

type Hello = { readonly extensions: ReadonlySet<string> }

async function sayHello (
  channel: SmtpChannel, { helo }: Caller, secureAs: string | undefined
): Promise<Hello | Ended> {
  const first = await channel.ask(`EHLO ${helo}`)
  if (first.code >= 500) return helloOf(await channel.ask(`HELO ${helo}`), false)
  const hello = helloOf(first, true)
  if ('meaning' in hello || secureAs === undefined) return hello
  if (!hello.extensions.has('STARTTLS')) return hello
  // A server that changed its mind is talked to in plain text, like one that never offered it.
  if ((await channel.ask('STARTTLS')).code !== READY_FOR_TLS) return hello
  await channel.secure(secureAs)
  return helloOf(await channel.ask(`EHLO ${helo}`), true)
}

function helloOf (reply: SmtpReply, extended: boolean): Hello | Ended {
  const meaning = meaningOf('hello', reply)
  if (meaning !== 'accepted') return { step: 'hello', meaning }
  const names = extended ? reply.lines.slice(1).map((line) => line.split(' ')[0] ?? '') : []
  return { extensions: new Set(names.map((name) => name.toUpperCase())) }
}
