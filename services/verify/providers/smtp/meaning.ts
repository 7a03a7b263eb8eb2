import type { SmtpReply } from './reply.ts'

/** The steps of a conversation that a server can end. */
export type Step = 'greeting' | 'hello' | 'sender' | 'recipient'

/**
 * What a reply means. `no_mailbox`: the server says so in its code; `refused`: it gives no reason
 * but that is what such a reply is for; `no_mail`: the domain takes none; `limited`: no further
 * recipient in this conversation; `blocked`: about us, not about the mailbox.
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

/** Codes of RFC 3463 without their class: what they say of the recipient, or of us. */
const BY_SUBJECT: Readonly<Record<string, Meaning>> = {
  // A fault of the sender's address, not of the recipient's.
  1.7: 'blocked',
  1.8: 'blocked',
  '1.10': 'no_mail',
  2.1: 'no_mailbox',
  2.2: 'full',
  5.3: 'limited',
}

/** Codes that are about the mailbox when nothing else is said (RFC 5321, 4.2.3). */
const MAILBOX_CODES: ReadonlySet<number> = new Set([550, 551, 553])
/** Refused as a whole, or only with a log-in or encryption (RFC 5321, 7504, 4954). */
const REFUSED_CODES: ReadonlySet<number> = new Set([521, 530, 535, 554])
const DOMAIN_TAKES_NO_MAIL = 556
const STORAGE_EXCEEDED = 552
/** RFC 5321, 4.5.3.1.10. */
const TOO_MANY_RECIPIENTS = 452

/**
 * What a reply means at a step. The enhanced code counts before words, and words before the bare
 * code, as servers give 550 for blocks and for mailboxes alike.
 */
export function meaningOf (step: Step, reply: SmtpReply): Meaning {
  const { code } = reply
  if (code >= 400 && code < 500) return temporary(reply)
  if (code >= 500) return step === 'recipient' ? permanent(reply) : 'blocked'
  const good = step === 'greeting' ? code === 220 : code >= 200 && code < 300
  return good ? 'accepted' : 'unclear'
}

/** Whatever passes by is worth asking again, but for lists that nobody leaves within minutes. */
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
  // How directories at the edge of large hosts refuse a recipient that they don't have.
  if (enhanced === '5.4.1' && /recipient address rejected/i.test(text)) return 'no_mailbox'
  if (aboutUs || REFUSED_CODES.has(code)) return 'blocked'
  if (FULL.test(text) || (code === STORAGE_EXCEEDED && enhanced === undefined)) return 'full'
  if (!MAILBOX_CODES.has(code)) return 'unclear'
  return enhanced === undefined || NO_MAILBOX.test(text) ? 'refused' : 'unclear'
}

/** Without addresses, which replies repeat: a mailbox may be named `spam`. */
function wordsOf ({ lines }: SmtpReply): string {
  return lines.join(' ').split(/\s+/).filter(word => !word.includes('@')).join(' ')
}
