import { type SmtpChannel, SmtpFault, type SmtpReply } from './channel.ts'
import {
  CONFIRMING, type Meaning, type Reading, REPLY_RULES, type ReplyRule, type SmtpStep, WORDS,
} from './replies.ts'

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

const NAME = /\{(\w+)\}/g

/** Every word of a text is followed by a space. */
const OPERATORS: Readonly<Record<string, string>> = {
  '(': '(?:',
  ')': ')',
  '[': '(?:',
  ']': ')?',
  '|': '|',
  '^': '(?<=^ )',
  $: '$',
  '..': String.raw`(?:\S+ ){0,7}?`,
  '~': String.raw`(?:(?!${expand('{stop}')} )\S+ ){0,7}?`,
}

const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{sc=Thai}]/u
const TOKEN = /\.\.|[()[\]|^$~]|[\p{L}\p{N}]*\*|[\p{L}\p{N}]+|@/gu

/** A gateway, or a server that asked another one, writes this before the cause. */
const WRAPPING = new RegExp(String.raw`\bunknown address error |` +
  String.raw`\bundeliverable address (?=\S)(?:host (?:\S+ ){1,12}?said )?|` +
  String.raw`\bin reply to (?:\S+ ){1,4}?command\b`, 'g')
const MARKS = /[\p{M}'\u2019`\u00b4]+/gu
/** A French or Italian article before its noun. */
const ELISION = /\b([cdjlns]|qu|dell|all)['\u2019](?=\p{L}{2})/gu
/** Letters that Unicode does not take apart. */
const PLAIN: Readonly<Record<string, string>> = { ı: 'i', ł: 'l', ø: 'o', ß: 'ss' }
/** Halves of words that are written both ways. */
const SPLIT = /\b(?:e (?=mail)|(?:black|block|deny) (?=list)|mail (?=box|boxes))/g

/** What a server was asked when it gave a reply. */
type ReplyQuestion = {
  readonly step: SmtpStep
  /** The name of the mail exchange. */
  readonly host?: string | undefined
  /** The addresses that it was asked with, if the reply is to a recipient. */
  readonly sender?: string
  readonly recipient?: string
}

/** Reads a reply to a step by the table. */
export function readReply (reply: SmtpReply, question: ReplyQuestion): Reading {
  const { code, enhanced } = reply
  if (code < 400) {
    const isGood = question.step === 'greeting' ? code === 220 : code >= 200 && code < 300
    return { meaning: isGood ? 'accepted' : 'unclear', by: 'code' }
  }
  const rule = findRule(reply, question)
  const meaning = rule?.means ?? 'unclear'
  // What the documents of a host say of a code is as certain as the standard.
  const isConfirmed = rule?.codes?.includes('556') === true || rule?.hosts !== undefined ||
    (enhanced !== undefined && CONFIRMING[meaning]?.includes(enhanced.slice(2)) === true)
  return { meaning, by: isConfirmed ? 'code' : 'words' }
}

/** The first row of the table that applies to a reply of the class 4xx or 5xx. */
export function findRule (
  reply: SmtpReply, question: ReplyQuestion
): ReplyRule | undefined {
  const { step, host = '' } = question
  const text = readText(reply, question)
  const facts = { step, host, code: reply.code, subject: reply.enhanced?.slice(2), text }
  return TABLE.find((row) => row.applies(facts))?.rule
}

type Facts = {
  readonly step: SmtpStep
  readonly code: number
  /** The enhanced code without its class. */
  readonly subject: string | undefined
  readonly host: string
  readonly text: string
}

const TABLE = REPLY_RULES.map((rule) => {
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

/** Replies rarely exceed 500 characters. The rest of a longer one says nothing new. */
const MAX_TEXT = 2_000

/**
 * The words of a reply between spaces, as phrases expect them. Addresses are removed: their local
 * parts may be words such as `spam`. Of a URL only the host is kept.
 */
function readText ({ lines }: Pick<SmtpReply, 'lines'>, question: ReplyQuestion): string {
  const raw = decode(lines.map((line) => line.slice(0, MAX_TEXT).replace(LEADING_CODES, ''))
    .join(' ').slice(0, MAX_TEXT))
  const named = nameParties(raw, question).replace(ADDRESS, ' @ ').replace(URL_PATH, ' $1 ')
  return ` ${normalize(named.split(/\s+/).map(hideAddress).join(' '))} `
}

/**
 * Says in words whose domain or address a reply names: a domain is the recipient's or another one,
 * and an address is our sender's if the recipient's is not named as well.
 */
function nameParties (raw: string, { sender = '', recipient = '' }: ReplyQuestion): string {
  if (recipient === '') return raw
  const text = raw.toLowerCase()
  const domain = recipient.slice(recipient.lastIndexOf('@') + 1)
  const named = text.replaceAll(`domain ${domain}`, 'recipient domain')
  const isOurs = sender !== '' && text.includes(sender.toLowerCase()) &&
    !text.includes(recipient.toLowerCase())
  return isOurs ? `${named} sender` : named
}

/** Barracuda writes the cause right behind the address: `user@example.com:blocked`. */
function hideAddress (word: string): string {
  const at = word.lastIndexOf('@')
  if (at < 0) return word
  const colon = word.indexOf(':', at)
  return colon < 0 ? '@' : `@ ${word.slice(colon + 1)}`
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

/** Words of letters and digits, with single spaces between them. */
function normalize (text: string): string {
  return text.normalize('NFKD').toLowerCase().replace(ELISION, '$1 ')
    .replace(MARKS, '').replace(/[ıłøß]/g, (letter) => PLAIN[letter] ?? letter)
    .replace(/[^\p{L}\p{N}@]+/gu, ' ').replace(SPLIT, (word) => word.trim())
    .replace(WRAPPING, '').trim()
}

/** One expression of all phrases. Every part of it is bounded, so its cost grows with the text. */
function compilePhrases (phrases: readonly string[]): RegExp {
  return new RegExp(phrases.map((phrase) => `(?:${compilePhrase(phrase)})`).join('|'), 'u')
}

function compilePhrase (phrase: string): string {
  const isSpaced = !UNSPACED.test(phrase)
  const tokens = expand(phrase).normalize('NFKD').toLowerCase().replace(MARKS, '').match(TOKEN)
  const source = (tokens ?? []).map((token) => isSpaced
    ? OPERATORS[token] ?? `${token.replace('*', String.raw`\S*`)} (?:@ )?`
    : token === '..' || token === '~' ? '.{0,24}?' : OPERATORS[token] ?? `${token} ?`).join('')
  return isSpaced ? ` ${source}` : source
}

/** A phrase with the words of WORDS in the place of their names. */
function expand (phrase: string): string {
  return phrase.replace(NAME, (_, name: string) => `(${expand(WORDS[name] ?? '')})`)
}
