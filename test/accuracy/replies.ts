import { readFileSync } from 'node:fs'
import { createReplyReader } from '../../services/verify/providers/smtp/channel.ts'
import { readReply } from '../../services/verify/providers/smtp/read-reply.ts'
import type { Meaning } from '../../services/verify/providers/smtp/replies.ts'

const ABOUT = ['not_about_the_mailbox', 'no_mailbox', 'full', 'domain_takes_no_mail'] as const

/** What a reply is about; every meaning that leaves a row `unknown` is the first. */
export type About = typeof ABOUT[number]

export type Reply = { readonly reply: string, readonly want: About, readonly source?: string }

/** How often replies that are about `want` were read as `got`: `matrix[want][got]`. */
export type Confusion = Readonly<Record<About, Readonly<Record<About, number>>>>

/**
 * The figures of one file. `wrong` counts replies whose row would get another verdict than it
 * should, `unknown` refusals and full mailboxes that leave their row `unknown`.
 */
export type ReplyAccuracy = {
  readonly suite: string
  readonly part: 'replies'
  readonly total: number
  readonly right: number
  readonly wrong: number
  readonly unknown: number
  /** The replies that were not read right. */
  readonly cases: readonly { readonly input: string, readonly want: About, readonly got: About }[]
  readonly matrix: Confusion
}

/** Replies of servers that are not ours, and the words of `smtp-phrases.jsonl`. */
export const REPLY_SUITES = ['smtp-replies', 'smtp-phrases'] as const

/** Reads a file of replies of `test/accuracy/data/`. */
export function loadReplies (suite: typeof REPLY_SUITES[number]): readonly Reply[] {
  const text = readFileSync(new URL(`data/${suite}.jsonl`, import.meta.url), 'utf8')
  return text.trim().split('\n').map((line) => JSON.parse(line) as Reply)
}

const BY_MEANING: Readonly<Partial<Record<Meaning, About>>> = {
  no_mailbox: 'no_mailbox', full: 'full', no_mail: 'domain_takes_no_mail',
}

/** Reads replies as those to a recipient, as a mail server sends them. */
export function measureReplies (suite: string, replies: readonly Reply[]): ReplyAccuracy {
  const cases: ReplyAccuracy['cases'][number][] = []
  const zeros = () => Object.fromEntries(ABOUT.map((about) => [about, 0])) as Record<About, number>
  const matrix = Object.fromEntries(ABOUT.map((about) => [about, zeros()])) as
    Record<About, Record<About, number>>
  for (const { reply, want } of replies) {
    const bytes = Buffer.from(`${reply.split('\n').join('\r\n')}\r\n`)
    const [received] = createReplyReader().push(bytes)
    const meaning = received === undefined
      ? 'unclear'
      : readReply(received, { step: 'recipient' }).meaning
    const got = BY_MEANING[meaning] ?? 'not_about_the_mailbox'
    matrix[want][got]++
    if (got !== want) cases.push({ input: reply, want, got })
  }
  const unknown = cases.filter(({ got }) => got === 'not_about_the_mailbox').length
  const total = replies.length
  const wrong = cases.length - unknown
  const right = total - cases.length
  return { suite, part: 'replies', total, right, wrong, unknown, cases, matrix }
}
