import { readFileSync } from 'node:fs'
import {
  type Meaning, readReply, ReplyReader,
} from '../../services/verify/mailboxes/replies.ts'
import { measure, type AccuracyRow } from './row.ts'

const ABOUT = ['not_about_the_mailbox', 'no_mailbox', 'full', 'domain_takes_no_mail'] as const

/** What a reply is about; every meaning that leaves a row `unknown` is the first. */
type About = typeof ABOUT[number]

export type Reply = { readonly reply: string, readonly want: About, readonly source?: string }

/** How often replies that are about `want` were read as `got`: `matrix[want][got]`. */
export type Confusion = Readonly<Record<About, Readonly<Record<About, number>>>>

/**
 * Replies of servers that are not ours, phrases that the table was improved by, and others that it
 * was not: these show what it does with the words of servers that nobody has looked at.
 */
export const REPLY_SUITES = ['smtp-replies', 'smtp-phrases', 'smtp-unseen'] as const

/** Reads a file of replies of `test/accuracy/data/`. */
export function loadReplies (suite: typeof REPLY_SUITES[number]): readonly Reply[] {
  const text = readFileSync(new URL(`data/${suite}.jsonl`, import.meta.url), 'utf8')
  return text.trim().split('\n').map(line => JSON.parse(line) as Reply)
}

const BY_MEANING: Readonly<Partial<Record<Meaning, About>>> = {
  no_mailbox: 'no_mailbox', full: 'full', no_mail: 'domain_takes_no_mail',
}

/** Reads replies as those to a recipient, as a mail server sends them. */
function readAbout (reply: string): About {
  const [received] = new ReplyReader().push(Buffer.from(`${reply.split('\n').join('\r\n')}\r\n`))
  if (received === undefined) return 'not_about_the_mailbox'
  return BY_MEANING[readReply(received, { step: 'recipient' }).meaning] ?? 'not_about_the_mailbox'
}

/** How often replies that are about `want` were read as `got`: `matrix[want][got]`. */
export function confusionOf (replies: readonly Reply[]): Confusion {
  const zeros = () => Object.fromEntries(ABOUT.map(about => [about, 0])) as Record<About, number>
  const matrix = Object.fromEntries(ABOUT.map(about => [about, zeros()])) as
    Record<About, Record<About, number>>
  for (const { reply, want } of replies) matrix[want][readAbout(reply)]++
  return matrix
}

/**
 * The figures of the replies of each suite, by what they are about. Wrong is a row that gets
 * another verdict than it should, missed one that stays `unknown`.
 */
export function measureReplies (): readonly AccuracyRow[] {
  return REPLY_SUITES.flatMap(suite =>
    [...Map.groupBy(loadReplies(suite), ({ want }) => want)].map(([about, some]) =>
      measure({ suite, part: about.replaceAll('_', ' ') }, some, ({ reply, want }) => {
        const got = readAbout(reply)
        if (got === want) return { is: 'right' }
        const is = got === 'not_about_the_mailbox' ? 'missed' : 'wrong'
        return { is, case: `${reply}: ${got}` }
      })))
}
