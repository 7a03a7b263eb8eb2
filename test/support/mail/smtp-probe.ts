import { createSmtpProbeProvider } from '../../../services/verify/providers/email.ts'
import { createMailDomains } from '../../../services/verify/providers/mail-domains.ts'
import {
  createSessionLimiter, type SessionLimits,
} from '../../../services/verify/mailboxes/connections.ts'
import { createProbe, type ProbeOptions } from '../../../services/verify/mailboxes/probe.ts'
import type { DnsServer } from './dns-server.ts'
import type { MailServers } from './mail-servers.ts'
import { createPatientDns } from './patient-dns.ts'

export type ProbeSetting = Partial<ProbeOptions> & {
  readonly limits?: Partial<SessionLimits>
  readonly firstTimeoutMs?: number
}

/**
 * The provider with the mail servers of a test. The timeouts are long, because the machine may be
 * slow; only tests of unresponsive servers shorten them.
 */
export function smtpProviderOf (
  { dns, mail }: { readonly dns: DnsServer, readonly mail: Pick<MailServers, 'connect'> },
  { limits, firstTimeoutMs, ...options }: ProbeSetting = {}
) {
  const domains = createMailDomains(
    createPatientDns(dns), { keepMs: 300_000, keepNegativeMs: 300_000, maxDomains: 1_000 })
  const probe = createProbe({
    connect: mail.connect,
    limiter: createSessionLimiter({
      perOwner: 8, perOwnerAMinute: 1_000, connections: 64, ...limits,
    }),
    caller: { helo: 'probe.verify.org', sender: '' },
    startTls: true,
    replyTimeoutMs: 120_000,
    rowTimeoutMs: 300_000,
    greylistMs: 60_000,
    restMs: 60_000,
    catchAllMs: 60_000,
    ...options,
  })
  return createSmtpProbeProvider({
    domains, probe, ...(firstTimeoutMs === undefined ? {} : { firstTimeoutMs }),
  })
}

/** The arguments of a provider's check, in a test that does not abort it. */
export function request (addresses: readonly string[], withinMs = 300_000) {
  return [
    addresses.map((canonical, row) => ({ row, canonical })),
    {
      service: 'email-validation',
      signal: new AbortController().signal,
      deadlineMs: Date.now() + withinMs,
    },
  ] as const
}
