import type { Reason, Verdict } from '../../records/record.ts'
import type { ProviderVerdict } from '../provider.ts'
import { isDisposable, isFree, isReserved, isRole, suggestionFor } from './email-lists.ts'
import type { MailDomain } from './mail-domain.ts'
import type { Mailbox, Probed } from './smtp/probe.ts'

type Outcome = { readonly status: Verdict, readonly reason: Reason, readonly confidence: number }

/**
 * Every outcome with how sure it makes us, 0 to 100. A reserved name is certain; that a domain does
 * not exist or says it takes no mail is its own word, as is what its server says of a mailbox; a
 * list of disposable domains is curated by hand; a role name, a near miss or a domain without a
 * mail exchange is only likely to be trouble, and one that takes any name tells nothing of one.
 * A domain that takes mail says nothing about the one mailbox: without asking its servers no
 * address can be called valid, so it stays `unknown`, which nobody pays for.
 */
export const OUTCOMES = {
  reserved: { status: 'invalid', reason: 'reserved_domain', confidence: 100 },
  missing: { status: 'invalid', reason: 'domain_not_found', confidence: 95 },
  refuses: { status: 'invalid', reason: 'no_mail_service', confidence: 95 },
  no_mailbox: { status: 'invalid', reason: 'mailbox_not_found', confidence: 95 },
  refused: { status: 'invalid', reason: 'mailbox_not_found', confidence: 80 },
  disposable: { status: 'risky', reason: 'disposable_domain', confidence: 90 },
  full: { status: 'risky', reason: 'mailbox_full', confidence: 80 },
  role: { status: 'risky', reason: 'role_address', confidence: 70 },
  typo: { status: 'risky', reason: 'possible_typo', confidence: 60 },
  catch_all: { status: 'risky', reason: 'catch_all', confidence: 50 },
  deliverable: { status: 'valid', reason: 'deliverable', confidence: 95 },
  trusted: { status: 'valid', reason: 'deliverable', confidence: 90 },
  untested: { status: 'valid', reason: 'deliverable', confidence: 70 },
  implicit: { status: 'risky', reason: 'no_mx_record', confidence: 60 },
  greylisted: { status: 'unknown', reason: 'greylisted', confidence: 0 },
  blocked: { status: 'unknown', reason: 'blocked', confidence: 0 },
  unreachable: { status: 'unknown', reason: 'mail_server_unreachable', confidence: 0 },
  no_answer: { status: 'unknown', reason: 'no_answer', confidence: 0 },
  unclear: { status: 'unknown', reason: 'unclear_answer', confidence: 0 },
  late: { status: 'unknown', reason: 'timeout', confidence: 0 },
  accepts: { status: 'unknown', reason: 'domain_accepts_mail', confidence: 0 },
  fault: { status: 'unknown', reason: 'dns_error', confidence: 0 },
  unchecked: { status: 'unknown', reason: 'domain_not_checked', confidence: 0 },
} as const satisfies Record<string, Outcome>

/** `fault` leaves the column blank, as nobody could tell. */
const MX_FOUND: Readonly<Record<MailDomain, string | undefined>> = {
  accepts: 'true', implicit: 'false', refuses: 'false', missing: 'false', fault: undefined,
}

/** What was found out beyond the address itself. */
export type Found = {
  /** What DNS said of the domain, if asked. */
  readonly mail?: MailDomain | undefined
  /** What its servers said of the mailbox, if asked. */
  readonly probed?: Probed | undefined
}

/** The verdict for one canonical address. */
export function verdictOf (address: string, found: Found = {}): ProviderVerdict {
  const local = address.slice(0, address.lastIndexOf('@'))
  const domain = domainOf(address)
  const flags = { disposable: isDisposable(domain), role: isRole(local), free: isFree(domain) }
  const suggestion = suggestionFor(domain)
  const mxFound = found.mail === undefined ? undefined : MX_FOUND[found.mail]
  const catchAll = found.probed?.catchAll
  const signs = { ...flags, reserved: isReserved(domain), typo: suggestion !== undefined }
  return {
    ...outcomeOf(signs, found),
    fields: {
      disposable: String(flags.disposable),
      role: String(flags.role),
      free: String(flags.free),
      ...(catchAll === undefined ? {} : { catch_all: String(catchAll) }),
      ...(mxFound === undefined ? {} : { mx_found: mxFound }),
      ...(suggestion === undefined ? {} : { suggestion }),
    },
  }
}

/** The part of a canonical address that DNS knows. */
export function domainOf (address: string): string {
  return address.slice(address.lastIndexOf('@') + 1)
}

type Signs = Readonly<Record<'reserved' | 'disposable' | 'role' | 'typo', boolean>>

/** What makes mail impossible comes first, then what makes it unwise; a fault changes neither. */
function outcomeOf (signs: Signs, { mail, probed }: Found): Outcome {
  const said = probed === undefined ? undefined : BY_MAILBOX[probed.mailbox](probed)
  if (signs.reserved) return OUTCOMES.reserved
  if (mail === 'missing' || mail === 'refuses') return OUTCOMES[mail]
  if (said?.status === 'invalid') return said
  if (signs.disposable) return OUTCOMES.disposable
  if (said === OUTCOMES.full) return said
  if (signs.role) return OUTCOMES.role
  if (signs.typo) return OUTCOMES.typo
  if (said !== undefined && (said.status !== 'unknown' || mail !== 'implicit')) return said
  return OUTCOMES[mail ?? 'unchecked']
}

const BY_MAILBOX: Readonly<Record<Mailbox, (probed: Probed) => Outcome>> = {
  accepted: ({ catchAll, trusted }) => {
    if (catchAll === undefined) return trusted === true ? OUTCOMES.trusted : OUTCOMES.untested
    return catchAll ? OUTCOMES.catch_all : OUTCOMES.deliverable
  },
  no_mailbox: () => OUTCOMES.no_mailbox,
  refused: () => OUTCOMES.refused,
  no_mail: () => OUTCOMES.refuses,
  full: () => OUTCOMES.full,
  greylisted: () => OUTCOMES.greylisted,
  blocked: () => OUTCOMES.blocked,
  unreachable: () => OUTCOMES.unreachable,
  no_answer: () => OUTCOMES.no_answer,
  unclear: () => OUTCOMES.unclear,
  late: () => OUTCOMES.late,
}
