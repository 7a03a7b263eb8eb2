import { SmtpFault, type SmtpChannel, type SmtpReply } from './channel.ts'

/** Our identity; a mail server may compare the name with our address. */
export type SmtpCaller = {
  readonly helo: string
  /** Empty for the null sender. */
  readonly sender: string
}

type ServerQuestion = {
  /** One or two recipients; the second one is sent only if the first one is accepted. */
  readonly recipients: readonly string[]
  /** Server name for TLS; without it, nothing is encrypted. */
  readonly tlsName: string | undefined
  /** Called when the server accepts recipients. */
  readonly onReady?: () => void
}

/** The step that a session ended at, and the meaning of its reply. */
export type ServerAnswer = {
  readonly step: SmtpStep
  readonly meaning: Meaning
  /** Of the second recipient, if it was sent; undefined if it had no reply. */
  readonly second?: Meaning | undefined
}

const READY_FOR_TLS = 220
const REQUIRES_UTF8 = /[^\p{ASCII}]/u

/** A step with another reply than acceptance. */
type Ended = { readonly step: SmtpStep, readonly meaning: Meaning }

/**
 * Asks a server whether it accepts mail for the recipients, without sending mail: greeting, EHLO
 * (or HELO), STARTTLS if offered, MAIL, RCPT. It never sends VRFY or DATA. Rejects with SmtpFault.
 */
export async function askServer (
  channel: SmtpChannel, caller: SmtpCaller, question: ServerQuestion
): Promise<ServerAnswer> {
  const [first = '', second] = question.recipients
  const greeting = meaningOf('greeting', await channel.send())
  if (greeting !== 'accepted') return { step: 'greeting', meaning: greeting }
  const hello = await greet(channel, caller, question.tlsName)
  if ('meaning' in hello) return hello
  const utf8 = REQUIRES_UTF8.test(first)
  // Without SMTPUTF8 a server accepts no such address (RFC 6531, 3.2).
  if (utf8 && !hello.extensions.has('SMTPUTF8')) return { step: 'sender', meaning: 'unclear' }
  const from = `MAIL FROM:<${caller.sender}>${utf8 ? ' SMTPUTF8' : ''}`
  const sender = meaningOf('sender', await channel.send(from))
  if (sender !== 'accepted') return { step: 'sender', meaning: sender }
  question.onReady?.()
  const meaning = await askRecipient(channel, first)
  if (meaning !== 'accepted' || second === undefined) return { step: 'recipient', meaning }
  return { step: 'recipient', meaning, second: await secondOf(channel, second) }
}

async function askRecipient (channel: SmtpChannel, recipient: string): Promise<Meaning> {
  return meaningOf('recipient', await channel.send(`RCPT TO:<${recipient}>`))
}

/** A failure of the second recipient does not change the answer for the first one. */
async function secondOf (channel: SmtpChannel, recipient: string): Promise<Meaning | undefined> {
  try {
    return await askRecipient(channel, recipient)
  } catch (error) {
    if (error instanceof SmtpFault) return undefined
    throw error
  }
}

type Hello = { readonly extensions: ReadonlySet<string> }

async function greet (
  channel: SmtpChannel, { helo }: SmtpCaller, tlsName: string | undefined
): Promise<Hello | Ended> {
  const first = await channel.send(`EHLO ${helo}`)
  if (first.code >= 500) return helloOf(await channel.send(`HELO ${helo}`), false)
  const hello = helloOf(first, true)
  if ('meaning' in hello || tlsName === undefined) return hello
  if (!hello.extensions.has('STARTTLS')) return hello
  // A server that offers STARTTLS and then refuses it is used in plain text.
  if ((await channel.send('STARTTLS')).code !== READY_FOR_TLS) return hello
  await channel.startTls(tlsName)
  return helloOf(await channel.send(`EHLO ${helo}`), true)
}

function helloOf (reply: SmtpReply, extended: boolean): Hello | Ended {
  const meaning = meaningOf('hello', reply)
  if (meaning !== 'accepted') return { step: 'hello', meaning }
  const names = extended ? reply.lines.slice(1).map((line) => line.split(' ')[0] ?? '') : []
  return { extensions: new Set(names.map((name) => name.toUpperCase())) }
}

/** The steps that a server can end a session at. */
type SmtpStep = 'greeting' | 'hello' | 'sender' | 'recipient'

/**
 * The meaning of a reply. `no_mailbox`: the enhanced code says so. `refused`: the basic code says
 * so, without a reason. `no_mail`: the domain accepts no mail. `limited`: no further recipient in
 * this session. `blocked`: the reply is about us, not about the mailbox.
 */
export type Meaning =
  | 'accepted' | 'no_mailbox' | 'refused' | 'no_mail' | 'full' | 'greylisted' | 'blocked'
  | 'limited' | 'unclear'

const anyOf = (...words: readonly string[]) => new RegExp(`\\b(?:${words.join('|')})\\b`, 'i')

const BLOCK_LIST = anyOf(
  'spamhaus', 'spamcop', 'barracuda\\w*', 'sorbs', 'uceprotect', 'dnsbl', 'rbl',
  'black ?list\\w*', 'block ?list\\w*', 'blocked', 'listed (?:at|in|by|on)')

const POLICY = anyOf(
  'polic(?:y|ies)', 'prohibited', 'reputation', 'spam', 'banned', 'denied', 'not permitted',
  '(?<!mailbox name )not allowed', 'helo', 'ehlo', 'reverse dns', 'rdns', 'ptr', 'client host',
  'sender', 'your (?:ip|host)', 'relay(?:ing)?', 'authenticat\\w+', 'starttls', 'tls')

const FULL =
  /mailbox.{0,20}\bfull\b|over ?quota|quota.{0,20}exceeded|exceeded.{0,20}(?:quota|storage)/i
const NO_MAILBOX = new RegExp(
  '(?:user|mailbox|recipient|address|account).{0,30}' +
  '(?:unknown|not found|unavailable|invalid|disabled|does ?n.t exist|does not exist|inactive)' +
  '|(?:no such|unknown|invalid) (?:user|mailbox|recipient|address|account)', 'i')

/** Meanings of codes of RFC 3463 without their class, in a reply to a recipient. */
const BY_SUBJECT: Readonly<Record<string, Meaning>> = {
  // The sender's address is rejected, not the recipient's.
  1.7: 'blocked',
  1.8: 'blocked',
  '1.10': 'no_mail',
  2.1: 'no_mailbox',
  2.2: 'full',
  5.3: 'limited',
}

/** Codes that are about the mailbox unless the text says otherwise (RFC 5321, 4.2.3). */
const MAILBOX_CODES: ReadonlySet<number> = new Set([550, 551, 553])
/** Refuses all mail, or mail without authentication or encryption (RFC 5321, 7504, 4954). */
const REFUSED_CODES: ReadonlySet<number> = new Set([521, 530, 535, 554])
const DOMAIN_TAKES_NO_MAIL = 556
const STORAGE_EXCEEDED = 552
/** RFC 5321, 4.5.3.1.10. */
const TOO_MANY_RECIPIENTS = 452

/**
 * The meaning of a reply at a step. The enhanced code takes precedence over words, and words over
 * the basic code: servers use 550 for blocks and for missing mailboxes.
 */
export function meaningOf (step: SmtpStep, reply: SmtpReply): Meaning {
  const { code } = reply
  if (code >= 400 && code < 500) return temporary(reply)
  if (code >= 500) return step === 'recipient' ? permanent(reply) : 'blocked'
  const good = step === 'greeting' ? code === 220 : code >= 200 && code < 300
  return good ? 'accepted' : 'unclear'
}

/** Temporary failures are worth a retry, except block lists, which last longer than minutes. */
function temporary (reply: SmtpReply): Meaning {
  const { code, enhanced } = reply
  const text = wordsOf(reply)
  if (enhanced === '4.2.2' || FULL.test(text)) return 'full'
  if (code === TOO_MANY_RECIPIENTS || enhanced === '4.5.3') return 'limited'
  return BLOCK_LIST.test(text) ? 'blocked' : 'greylisted'
}

function permanent (reply: SmtpReply): Meaning {
  const { code, enhanced } = reply
  const text = wordsOf(reply)
  const aboutUs = BLOCK_LIST.test(text) || POLICY.test(text)
  if (code === DOMAIN_TAKES_NO_MAIL) return 'no_mail'
  const [, subject = '', detail = ''] = enhanced?.split('.') ?? []
  const known = BY_SUBJECT[`${subject}.${detail}`]
  if (known !== undefined) return known
  if (subject === '7') return 'blocked'
  if (subject === '1') return detail === '0' && aboutUs ? 'blocked' : 'no_mailbox'
  // The reply of large hosts whose directory does not have the recipient.
  if (enhanced === '5.4.1' && /recipient address rejected/i.test(text)) return 'no_mailbox'
  if (aboutUs || REFUSED_CODES.has(code)) return 'blocked'
  if (FULL.test(text) || (code === STORAGE_EXCEEDED && enhanced === undefined)) return 'full'
  if (!MAILBOX_CODES.has(code)) return 'unclear'
  return enhanced === undefined || NO_MAILBOX.test(text) ? 'refused' : 'unclear'
}

/** The text of a reply without addresses, which may contain words such as `spam`. */
function wordsOf ({ lines }: SmtpReply): string {
  return lines.join(' ').split(/\s+/).filter(word => !word.includes('@')).join(' ')
}
