import type { Reason, Verdict } from '../../records/record.ts'
import type { CheckOptions, Provider, ProviderRow, ProviderVerdict } from '../provider.ts'
import { isDisposable, isFree, isReserved, isRole, suggestionFor } from './email-lists.ts'
import type { MailDomain, MailDomains } from './mail-domain.ts'

type Outcome = { readonly status: Verdict, readonly reason: Reason, readonly confidence: number }

/**
 * Every outcome with how sure it makes us, 0 to 100. A reserved name is certain; that a domain does
 * not exist or says it takes no mail is its own word; a list of disposable domains is curated by
 * hand; a role name, a near miss or a domain without a mail exchange is only likely to be trouble.
 * A domain that takes mail says nothing about the one mailbox: without asking its servers no
 * address can be called valid, so it stays `unknown`, which nobody pays for.
 */
export const OUTCOMES = {
  reserved: { status: 'invalid', reason: 'reserved_domain', confidence: 100 },
  missing: { status: 'invalid', reason: 'domain_not_found', confidence: 95 },
  refuses: { status: 'invalid', reason: 'no_mail_service', confidence: 95 },
  disposable: { status: 'risky', reason: 'disposable_domain', confidence: 90 },
  role: { status: 'risky', reason: 'role_address', confidence: 70 },
  typo: { status: 'risky', reason: 'possible_typo', confidence: 60 },
  implicit: { status: 'risky', reason: 'no_mx_record', confidence: 60 },
  accepts: { status: 'unknown', reason: 'domain_accepts_mail', confidence: 0 },
  fault: { status: 'unknown', reason: 'dns_error', confidence: 0 },
  unchecked: { status: 'unknown', reason: 'domain_not_checked', confidence: 0 },
} as const satisfies Record<string, Outcome>

/** `fault` leaves the column blank, as nobody could tell. */
const MX_FOUND: Readonly<Record<MailDomain, string | undefined>> = {
  accepts: 'true', implicit: 'false', refuses: 'false', missing: 'false', fault: undefined,
}

/** Kept free at the end of a call's time for the answer itself. */
const RESERVE_MS = 250

/** More would wait for the same questions to resolvers until their time is over. */
const CALLS_AT_A_TIME = 4

/**
 * What lists and, given `domains`, DNS say about a mail address; `catch_all` stays blank, and
 * without DNS `mx_found` too. A domain that DNS has not answered for when the call's time is nearly
 * over counts as a fault for now; its answer is remembered when it comes. `suggestion` is the
 * domain probably meant (`derive` makes it an address again).
 */
export function createEmailDomainProvider (
  { domains }: { readonly domains?: MailDomains | undefined } = {}
): Provider {
  return {
    id: 2,
    services: ['email-validation'],
    ...(domains === undefined ? {} : { limits: { concurrency: CALLS_AT_A_TIME } }),
    check: async (rows, options) => {
      const found = domains === undefined ? NONE : await findAll(domains, rows, options)
      return rows.map(({ row, canonical }) =>
        ({ row, verdict: verdictOf(canonical, found.get(domainOf(canonical))) }))
    },
  }
}

/** The verdict for one canonical address; `mail` is what DNS said of its domain, if asked. */
export function verdictOf (address: string, mail?: MailDomain): ProviderVerdict {
  const local = address.slice(0, address.lastIndexOf('@'))
  const domain = domainOf(address)
  const flags = { disposable: isDisposable(domain), role: isRole(local), free: isFree(domain) }
  const suggestion = suggestionFor(domain)
  const mxFound = mail === undefined ? undefined : MX_FOUND[mail]
  const typo = suggestion !== undefined
  return {
    ...outcomeOf({ ...flags, reserved: isReserved(domain), typo }, mail),
    fields: {
      disposable: String(flags.disposable),
      role: String(flags.role),
      free: String(flags.free),
      ...(mxFound === undefined ? {} : { mx_found: mxFound }),
      ...(suggestion === undefined ? {} : { suggestion }),
    },
  }
}

type Found = Readonly<Record<'reserved' | 'disposable' | 'role' | 'typo', boolean>>

/** What makes mail impossible comes first, then what makes it unwise; a fault changes neither. */
function outcomeOf (found: Found, mail: MailDomain | undefined): Outcome {
  if (found.reserved) return OUTCOMES.reserved
  if (mail === 'missing' || mail === 'refuses') return OUTCOMES[mail]
  if (found.disposable) return OUTCOMES.disposable
  if (found.role) return OUTCOMES.role
  if (found.typo) return OUTCOMES.typo
  return OUTCOMES[mail ?? 'unchecked']
}

const NONE: ReadonlyMap<string, MailDomain> = new Map()

/** Each domain once; reserved ones are not asked about, as nobody outside may hear of them. */
async function findAll (
  domains: MailDomains, rows: readonly ProviderRow[], { deadlineMs, signal }: CheckOptions
): Promise<ReadonlyMap<string, MailDomain>> {
  const found = new Map<string, MailDomain>()
  const asked: Promise<void>[] = []
  for (const domain of new Set(rows.map(({ canonical }) => domainOf(canonical)))) {
    if (isReserved(domain)) continue
    const known = domains.known(domain)
    found.set(domain, known ?? 'fault')
    if (known !== undefined) continue
    asked.push(domains.find(domain).then((mail) => { found.set(domain, mail) }))
  }
  if (asked.length > 0) await untilDeadline(Promise.all(asked), { deadlineMs, signal })
  // A late answer must not change what was decided with.
  return new Map(found)
}

async function untilDeadline (
  work: Promise<unknown>, { deadlineMs, signal }: Pick<CheckOptions, 'deadlineMs' | 'signal'>
): Promise<void> {
  const over = Promise.withResolvers<void>()
  const timer = setTimeout(over.resolve, Math.max(0, deadlineMs - RESERVE_MS - Date.now()))
  const stop = () => over.resolve()
  signal.addEventListener('abort', stop, { once: true })
  try {
    await Promise.race([work, over.promise])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}

function domainOf (address: string): string {
  return address.slice(address.lastIndexOf('@') + 1)
}
