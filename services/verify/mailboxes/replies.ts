import {
  CHOOSY, CLIENT, compilePhrases, ELSE, FORM, FULL, LATER, LIMIT, LISTED, MISSING, NO_MAIL,
  NO_MAILBOX, NO_ROOM, normalizeText, NOT_STORAGE, NOT_THERE, OTHER_THING, POLICY, QUOTA, RATE,
  REFUSED, SENDER, SPAM, SYSTEM, TEMPORARY,
} from './reply-words.ts'
import { readDomain } from '../../mail/owners.ts'

/** The steps of a session that a server replies to. */
type SmtpStep = 'greeting' | 'hello' | 'sender' | 'recipient'

/**
 * What a reply says of the recipient. `no_mailbox`: the mailbox does not exist or is closed.
 * `no_mail`: its domain accepts no mail. `greylisted`: not now. `limited`: no further recipient in
 * this session. `blocked`: the reply is about us, our sender, message or rate. `unclear`: none of
 * these, or not understood.
 */
export type Meaning =
  | 'accepted' | 'no_mailbox' | 'no_mail' | 'full' | 'greylisted' | 'blocked' | 'limited'
  | 'unclear'

/** The result for a mailbox; `late`: it was not asked, or did not answer, in time. */
export type Mailbox =
  | Exclude<Meaning, 'limited'> | 'unreachable' | 'no_answer' | 'late'

/** What a reply to a step means. */
export type ReplyReading = {
  readonly code: number
  readonly meaning: Meaning
  /** Its evidence: a code that names the cause, or only words. */
  readonly by: 'code' | 'words'
  /** Milliseconds after which the server wants to be asked again, if it says so. */
  readonly waitMs?: number | undefined
  /** The server says that we ask too much, and nothing about the recipient. */
  readonly isTooFast?: boolean
  /** The server says that it does not serve the recipient's domain. */
  readonly isOfDomain?: boolean
  /** `no_mail`, which the server says of itself: it does not depend on what it finds in the DNS. */
  readonly isOfServer?: boolean
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

/** RFC 5321, 4.5.3.1.5 allows 512 bytes, which many servers exceed. */
const MAX_LINE_BYTES = 2_048
const MAX_LINES = 100

const LINE = /^([2-5]\d\d)(?:([ -])(.*))?$/s
const ENHANCED_FIRST = /^\s*(?:\d{3}[ :-]\s*)?#?([245])[.-](\d{1,3})[.-](\d{1,3})(?![.-]?\d)/
/** Within a line a code has points, and is not part of an IP address or a version. */
const ENHANCED_WITHIN = /(?<![\w.-])([245])\.(\d{1,3})\.(\d{1,3})(?![.-]?\w)/

/** Splits received bytes into replies; limits the length of a line and the number of lines. */
export class ReplyReader {
  #rest = ''
  #lines: string[] = []
  #code: string | undefined

  /** Whether there is no part of a further reply. */
  get isEmpty (): boolean {
    return this.#rest === '' && this.#code === undefined
  }

  /** The replies that these bytes complete. @throws RangeError if they are no replies. */
  push (bytes: Uint8Array): readonly SmtpReply[] {
    const lines = (this.#rest + Buffer.from(bytes).toString('latin1')).split('\n')
    if (lines.some(({ length }) => length > MAX_LINE_BYTES)) throw new RangeError('long line')
    this.#rest = lines.pop() ?? ''
    return lines.map((line) => this.#addLine(line.replace(/\r$/, '')))
      .filter((reply) => reply !== undefined)
  }

  #addLine (line: string): SmtpReply | undefined {
    const [, code, separator, text = ''] = LINE.exec(line) ?? []
    const lines = this.#lines
    const isOther = this.#code !== undefined && code !== this.#code
    if (code === undefined || isOther || lines.push(text) > MAX_LINES) {
      throw new RangeError('no line of a reply')
    }
    this.#code = separator === '-' ? code : undefined
    if (separator === '-') return undefined
    this.#lines = []
    const first = lines.map((it) => ENHANCED_FIRST.exec(it)).find((it) => it !== null)
    const within = lines.map((it) => ENHANCED_WITHIN.exec(it)).find((it) => it?.[1] === code[0])
    const enhanced = (first ?? within)?.slice(1).join('.')
    return { code: Number(code), enhanced, lines }
  }
}

/** What a server was asked when it gave a reply. */
export type ReplyQuestion = {
  readonly step: SmtpStep
  /** The name of the mail exchange. */
  readonly host?: string | undefined
  /** The addresses that it was asked with, if the reply is to a recipient. */
  readonly sender?: string
  readonly recipient?: string
}

/** Reads a reply to a step: the first rule of REPLY_RULES that applies says what it means. */
export function readReply (reply: SmtpReply, question: ReplyQuestion): ReplyReading {
  const { code, enhanced } = reply
  const { step, host = '' } = question
  if (code < 400) {
    // RFC 5321, 4.3.2: 221 ends the session, whatever it was asked.
    const isGood = step === 'greeting' ? code === 220 : code >= 250 && code <= 252
    return { code, meaning: isGood ? 'accepted' : 'unclear', by: 'code' }
  }
  const text = readText(reply, question)
  // RFC 3463, 3.1: the classes contradict each other, so the subject confirms nothing.
  const isContradicted = code >= 500 && enhanced?.startsWith('4') === true
  const subject = isContradicted ? undefined : enhanced?.slice(2)
  const facts = { step, host, code, subject, text }
  const rule = RULES.find(({ applies }) => applies(facts))?.rule
  const meaning = rule?.means ?? 'unclear'
  // What the documents of a host say of a code is as certain as the standard.
  const isConfirmed = rule?.codes?.includes('556') === true || rule?.hosts !== undefined ||
    (facts.subject !== undefined && CONFIRMING[meaning]?.includes(facts.subject) === true)
  const by = isConfirmed ? 'code' : 'words'
  if (code < 500) {
    return { code, meaning, by, waitMs: readWait(reply), isTooFast: isTooFast(facts) }
  }
  // Anybody may name any server as that of his domain, so a refusal to relay is not about us.
  const isOfDomain = step === 'recipient' && NO_RELAY.test(text)
  return { code, meaning, by, isOfDomain, isOfServer: meaning === 'no_mail' && takesNoMail(facts) }
}

const ACCEPTS_NO_MAIL = compilePhrases([
  '({dont}|not|never|no longer) [{now}|be] (accept|accepts|accepting|receive|receiving|handle)',
  '(accepts|receives|takes|handles) no [incoming|inbound] (mail|email)',
])

/** By codes of RFC 7504 and 7505, or the same in words. */
const takesNoMail = ({ code, subject = '', text }: Facts): boolean => code === 521 ||
  code === 556 || subject === '1.10' || subject === '3.2' || ACCEPTS_NO_MAIL.test(text)

const SECONDS_IN: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600 }
const WAIT = /\b(?:in|for|after|within|wait|least)\s+(\d{1,5})\s*(s|m|h)(?:ec\w*|in\w*|\b|our\w*)/i
const WAIT_CLOCK = /\b(?:in|for|after)\s+(\d{1,2}):(\d\d):(\d\d)\b/i
const MIN_WAIT_SECONDS = 10
const MAX_WAIT_SECONDS = 4 * 3_600

/** Milliseconds after which a server that refuses for now wants to be asked again, in bounds. */
function readWait ({ lines }: SmtpReply): number | undefined {
  const text = lines.join(' ').slice(0, MAX_TEXT)
  const [, count, unit = ''] = WAIT.exec(text) ?? []
  const [, hours, minutes, seconds] = WAIT_CLOCK.exec(text) ?? []
  const wait = count !== undefined
    ? Number(count) * (SECONDS_IN[unit.toLowerCase()] ?? 1)
    : Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds)
  if (Number.isNaN(wait)) return undefined
  return Math.min(Math.max(wait, MIN_WAIT_SECONDS), MAX_WAIT_SECONDS) * 1_000
}

/** Of Google (an unusual rate) and of Microsoft (servers that are busy for us, reputation). */
const TOO_FAST_CODES: ReadonlySet<string> = new Set([
  '7.28', '7.500', '7.501', '7.550', '7.606', '7.650', '7.651', '7.652',
])
const TOO_FAST = compilePhrases([
  'too many (messages|mails|emails|requests|invalid)',
  '(connection|connections|message|sending|sender|client|unusual) (rate|frequency)',
  'rate limit*', 'rate exceeded', 'throttl*', 'slow down', 'frequency limited',
  'too (quickly|fast|often|much)', 'unexpected volume', 'deferred due to',
])
const TOO_MANY_SESSIONS = compilePhrases([
  'too many [concurrent|simultaneous|smtp|open|recent|incoming|new] (connections|connection|' +
    'sessions)', 'concurrent (connections|sessions)',
  'maximum (number of|allowed) (connections|sessions)', 'connection limit',
  '(trop de|zu viele|zuviele) (connexions|verbindungen)',
])
/** The mail of the recipient, and a client that returned before its time. */
const NOT_TOO_FAST = compilePhrases([
  'receiving (mail|messages)', 'receiving limit*', '(greylist*|graylist*|grey list*|gray list*)',
])
const NO_RELAY = compilePhrases([
  '(relay|relaying) .. (denied|prohibited|permitted|allowed|access|refused|rejected|disabled|' +
    'not|forbidden)', '(not|no|unable to|cannot|cant|dont|wont|will not|doesnt|refuse to) .. ' +
    '(relay|relaying)', 'rcpthosts',
])

/**
 * Whether a server refuses for now because we ask too much, from too many connections or with too
 * little reputation: then further recipients of ours have the same answer. A rate of the mail that
 * the recipient gets is not ours, and greylisting is about each recipient alone.
 */
function isTooFast ({ step, subject = '', text }: Facts): boolean {
  if (TOO_FAST_CODES.has(subject)) return true
  const areTooMany = TOO_MANY_SESSIONS.test(text)
  // A server that has enough of us now greets us once it has less.
  if (step === 'greeting' && areTooMany) return false
  return (areTooMany || TOO_FAST.test(text)) && !NOT_TOO_FAST.test(text)
}

/** Replies rarely exceed 500 characters. The rest of a longer one says nothing new. */
const MAX_TEXT = 2_000

/**
 * The words of a reply between spaces, as phrases expect them. Addresses are removed: their local
 * parts may be words such as `spam`. Of a URL only the host is kept.
 */
function readText ({ lines }: SmtpReply, question: ReplyQuestion): string {
  const raw = decode(lines.map((line) => line.slice(0, MAX_TEXT).replace(LEADING_CODES, ''))
    .join(' ').slice(0, MAX_TEXT))
  const named = nameParties(raw, question).replace(ADDRESS, ' @ ').replace(URL_PATH, ' $1 ')
  const hidden = named.split(/\s+/).map((word) => {
    const at = word.lastIndexOf('@')
    if (at < 0) return word
    // Barracuda writes the cause right behind the address: `user@example.com:blocked`.
    const colon = word.indexOf(':', at)
    return colon < 0 ? '@' : `@ ${word.slice(colon + 1)}`
  })
  return ` ${normalizeText(hidden.join(' '))} `
}

/**
 * Says in words whose domain or address a reply names: a domain is the recipient's or another one,
 * and an address is our sender's if the recipient's is not named as well.
 */
function nameParties (raw: string, { sender = '', recipient = '' }: ReplyQuestion): string {
  if (recipient === '') return raw
  const text = raw.toLowerCase()
  const domain = readDomain(recipient).toLowerCase()
  const ofRecipient = text.replaceAll(`domain ${domain}`, 'recipient domain')
  const named = sender === ''
    ? ofRecipient
    : ofRecipient.replaceAll(`domain ${readDomain(sender).toLowerCase()}`, 'sender domain')
  const isOurs = text.includes(sender === '' ? '<>' : sender.toLowerCase()) &&
    !text.includes(recipient.toLowerCase())
  return isOurs ? `${named} sender` : named
}

const LEADING_CODES = /^\s*(?:\d{3}[ :-]\s*)?(?:#?\d[.-]\d{1,3}[.-]\d{1,3}\b)?/
const ADDRESS = /<[^<>@]{0,256}@[^<>]{0,256}>/g
const URL_PATH = /\bhttps?:\/\/([^\s/]{1,255})\S*/gi

/** Lines are decoded as Latin-1, in which every byte is a character. A last half one is dropped. */
function decode (latin1: string): string {
  try {
    const bytes = Buffer.from(latin1, 'latin1')
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true })
  } catch {
    return latin1
  }
}

/**
 * A row of the table. It applies if everything that it states is true of the reply; the first row
 * that applies decides.
 */
type ReplyRule = {
  readonly means: Exclude<Meaning, 'accepted'>
  readonly steps?: readonly SmtpStep[]
  /** Basic codes; `5xx` is the whole class. */
  readonly codes?: readonly string[]
  /** Enhanced codes (RFC 3463) without their class, which servers often get wrong: `1.1`, `7.*`. */
  readonly enhanced?: readonly string[]
  /** Domains of the mail exchange. */
  readonly hosts?: readonly string[]
  /** The text has at least one of these phrases. */
  readonly words?: readonly string[]
  /** The text has none of these phrases. */
  readonly without?: readonly string[]
}

/** Quotas of senders and sizes of messages say nothing about a mailbox. */
const OTHER_LIMIT = [...NOT_STORAGE, ...SENDER, ...SPAM]
const NOT_FULL = [...LIMIT, ...OTHER_LIMIT]
const ABOUT_US = [...SENDER, ...CLIENT]

/**
 * The table, which is read from top to bottom:
 *
 * 1. steps before the recipient, where nothing is about a mailbox;
 * 2. mailboxes that are full, which servers say in codes for now and for good;
 * 3. refusals for now;
 * 4. refusals for good whose code says what they are about;
 * 5. refusals by words that are about us, then about the domain or the mailbox;
 * 6. common words of refusals, which count where nothing else is said;
 * 7. codes whose text says nothing.
 *
 * Add a row above the first one that would read a reply wrong, and a test of it.
 */
const REPLY_RULES: readonly ReplyRule[] = [
  // 1.
  { means: 'blocked', steps: ['greeting', 'hello', 'sender'], codes: ['5xx'] },
  { means: 'blocked', steps: ['greeting', 'hello', 'sender'], codes: ['4xx'], words: LISTED },
  { means: 'greylisted', steps: ['greeting', 'hello', 'sender'], codes: ['4xx'] },
  // 2. GoDaddy: IB and a number is about us, also IB607 behind 5.1.1. Gmail: 5.4.5 is our limit.
  { means: 'blocked', codes: ['5xx'], words: ['(ib1*|ib2*|ib4*|ib5*|ib6*|ib7*|ib9*)'] },
  { means: 'blocked', codes: ['5xx'], enhanced: ['4.5'] },
  { means: 'full', words: NO_ROOM, without: OTHER_LIMIT },
  // RFC 3463, 3.6: too many recipients.
  { means: 'limited', codes: ['4xx', '5xx'], enhanced: ['5.3'] },
  { means: 'full', enhanced: ['2.2'], without: NOT_FULL },
  { means: 'full', words: FULL, without: NOT_FULL },
  // Gmail: 5.7.1 Email quota exceeded. A quota of policy is that of the sender.
  { means: 'blocked', codes: ['5xx'], enhanced: ['7.*'], words: QUOTA },
  { means: 'greylisted', codes: ['421'], words: QUOTA },
  { means: 'greylisted', codes: ['4xx'], enhanced: ['7.*', '3.*'], words: QUOTA },
  { means: 'full', words: QUOTA, without: NOT_FULL },
  {
    means: 'full',
    codes: ['552'],
    words: ['exceeded storage allocation'],
    without: NOT_STORAGE,
  },
  {
    means: 'full',
    codes: ['550', '552', '554'],
    words: [
      '{dont} have enough {size}', '(insufficient|not sufficient|not enough) ' +
        '(disk|storage|mailbox) space', '^ exceeded storage allocation', 'mail file size exceeds',
    ],
    without: [...SENDER, ...SPAM, ...LATER, '(system|server)', 'size of (the|this|your)'],
  },
  // 3. Worth a retry, except lists of senders, which last longer than minutes.
  { means: 'limited', codes: ['452'], without: ['storage', 'space', 'resources'] },
  // Refusals count as errors: Postfix ends a session after 20 of them (smtpd_hard_error_limit).
  { means: 'limited', codes: ['421'], words: ['too many [bad] (errors|commands)'] },
  { means: 'blocked', codes: ['4xx'], words: LISTED },
  { means: 'greylisted', codes: ['4xx'] },
  // 4. RFC 3463, 3.2: the address of the sender.
  { means: 'blocked', codes: ['5xx'], enhanced: ['1.7', '1.8'] },
  { means: 'no_mail', codes: ['556'], without: ABOUT_US },
  // RFC 7504.
  {
    means: 'no_mail',
    codes: ['521'],
    words: ['({dont}|never) accept [any|incoming] (mail|email) ($|see|rfc)'],
    without: ABOUT_US,
  },
  // Exchange Online and Outlook.com: the directory does not have the recipient.
  {
    means: 'no_mailbox',
    enhanced: ['5.0'],
    hosts: ['outlook.com'],
    words: ['requested action not taken mailbox unavailable'],
  },
  { means: 'no_mailbox', enhanced: ['4.1'], words: ['recipient address rejected access denied'] },
  {
    means: 'no_mailbox',
    enhanced: ['1.0', '1.1', '1.3', '1.6', '1.10', '2.1', '5.0'],
    words: NO_MAILBOX,
    without: [...SENDER, ...SPAM, ...RATE, ...CHOOSY, ...TEMPORARY],
  },
  // Yandex: the account is blocked, for good as far as mail can tell.
  {
    means: 'no_mailbox',
    hosts: ['yandex.ru', 'yandex.net'],
    words: ['policy rejection on the target address'],
  },
  {
    means: 'no_mailbox',
    words: ['{mailbox} .. (inactivity|inactive)'],
    without: [...ABOUT_US, ...SPAM, ...LATER, ...ELSE],
  },
  // 5.
  { means: 'blocked', words: [...ABOUT_US, ...LISTED] },
  // QQ: of the sender's domain.
  { means: 'blocked', words: ['(domain|ip|sender) frequency limited'] },
  { means: 'no_mailbox', words: NOT_THERE, without: [...RATE, ...SPAM, ...LATER, ...ELSE] },
  { means: 'unclear', words: [...RATE, ...CHOOSY] },
  { means: 'blocked', words: SPAM },
  { means: 'no_mail', words: NO_MAIL, without: [...POLICY, ...LATER] },
  { means: 'no_mailbox', words: NO_MAILBOX, without: [...LATER, ...ELSE] },
  { means: 'blocked', words: POLICY },
  { means: 'unclear', words: [...FORM, ...SYSTEM, ...LATER, ...ELSE] },
  // 6.
  { means: 'no_mailbox', enhanced: ['1.0'], words: ['address rejected'] },
  { means: 'no_mailbox', codes: ['550', '551', '552', '553'], words: REFUSED },
  {
    means: 'no_mailbox',
    codes: ['550', '551', '552', '553'],
    words: MISSING,
    without: OTHER_THING,
  },
  // 7.
  { means: 'no_mailbox', enhanced: ['1.1', '1.3', '1.6', '2.1'] },
  { means: 'no_mail', enhanced: ['1.2', '1.10'] },
  { means: 'blocked', enhanced: ['7.*'] },
  { means: 'unclear' },
]

/** Enhanced codes that confirm what words say. */
const CONFIRMING: Readonly<Partial<Record<Meaning, readonly string[]>>> = {
  no_mailbox: ['1.0', '1.1', '1.3', '1.6', '1.10', '2.1', '4.1'],
  full: ['2.2'],
  no_mail: ['1.2', '1.10', '3.2'],
}

type Facts = {
  readonly step: SmtpStep
  readonly code: number
  /** The enhanced code without its class. */
  readonly subject: string | undefined
  readonly host: string
  readonly text: string
}

const RULES = REPLY_RULES.map((rule) => {
  const words = rule.words === undefined ? undefined : compilePhrases(rule.words)
  const without = rule.without === undefined ? undefined : compilePhrases(rule.without)
  const applies = ({ step, code, subject, host, text }: Facts): boolean =>
    (rule.steps?.includes(step) ?? true) &&
    (rule.codes?.some((it) => it === `${code}` || it === `${`${code}`[0]}xx`) ?? true) &&
    (rule.enhanced?.some((it) => it === subject ||
      (it.endsWith('*') && subject?.startsWith(it.slice(0, -1)) === true)) ?? true) &&
    (rule.hosts?.some((it) => host === it || host.endsWith(`.${it}`)) ?? true) &&
    (words?.test(text) ?? true) && without?.test(text) !== true
  return { rule, applies }
})
