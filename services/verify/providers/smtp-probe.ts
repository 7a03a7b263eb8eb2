import type { Provider, ProviderAnswer, ProviderRow } from '../provider.ts'
import { RESERVE_MS } from './email-domain.ts'
import { isDisposable, isReserved } from './email-lists.ts'
import { domainOf, verdictOf, type Found } from './email-verdict.ts'
import type { MailDomains } from './mail-domain.ts'
import { MAX_HOSTS, type Probe } from './smtp/probe.ts'

export type SmtpProbeOptions = { readonly domains: MailDomains, readonly probe: Probe }

type Until = { readonly signal: AbortSignal, readonly endsAtMs: number }

/**
 * All that `email-domain` tells, and then what the domain's own mail servers say of the mailbox.
 * They are not asked where that could change nothing: about reserved, disposable and dead domains.
 * A row that is greylisted, or whose turn did not come within the call, is to be asked again.
 */
export function createSmtpProbeProvider ({ domains, probe }: SmtpProbeOptions): Provider {
  return {
    id: 4,
    services: ['email-validation'],
    check: async (rows, { signal, deadlineMs }) => {
      const endsAtMs = deadlineMs - RESERVE_MS
      const timer = AbortSignal.timeout(Math.max(0, endsAtMs - Date.now()))
      const until = { signal: AbortSignal.any([signal, timer]), endsAtMs }
      return await Promise.all(rows.map(async (row) =>
        answerOf(row, await findOut(row.canonical, { domains, probe, ...until }))))
    },
  }
}

async function findOut (
  address: string, { domains, probe, signal, endsAtMs }: SmtpProbeOptions & Until
): Promise<Found> {
  const domain = domainOf(address)
  if (isReserved(domain)) return {}
  const mail = domains.known(domain) ?? await unlessLate(domains.find(domain), signal) ?? 'fault'
  if (isDisposable(domain) || (mail !== 'accepts' && mail !== 'implicit')) return { mail }
  const hosts = await unlessLate(domains.hosts(domain, MAX_HOSTS), signal)
  if (hosts === undefined) return { mail, probed: { mailbox: 'late', again: true } }
  return { mail, probed: await probe(address, { hosts, signal, endsAtMs }) }
}

function answerOf ({ row, canonical }: ProviderRow, found: Found): ProviderAnswer {
  const verdict = verdictOf(canonical, found)
  return { row, verdict, ...(found.probed?.again === true ? { again: true } : {}) }
}

/** DNS goes on without us when the signal comes first, and remembers what it hears. */
async function unlessLate<T> (work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  if (signal.aborted) return undefined
  const late = Promise.withResolvers<undefined>()
  const stop = () => late.resolve(undefined)
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await Promise.race([work, late.promise])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
