import type { CheckOptions, Provider, ProviderRow } from '../provider.ts'
import { isReserved } from './email-lists.ts'
import { domainOf, verdictOf } from './email-verdict.ts'
import type { MailDomain, MailDomains } from './mail-domain.ts'

/** Kept free at the end of a call's time for the answer itself. */
export const RESERVE_MS = 250

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
        ({ row, verdict: verdictOf(canonical, { mail: found.get(domainOf(canonical)) }) }))
    },
  }
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
