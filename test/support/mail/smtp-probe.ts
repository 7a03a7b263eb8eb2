import { createSmtpProbeProvider } from '../../../services/verify/providers/email.ts'
import { createMailDomains } from '../../../services/verify/providers/mail-domains.ts'
import { type Connect, createEgressPool } from '../../../services/verify/mailboxes/egress.ts'
import type { MailHostsOptions } from '../../../services/verify/mailboxes/hosts.ts'
import type { SmtpCaller } from '../../../services/verify/mailboxes/session.ts'
import type { DnsServer } from './dns-server.ts'
import type { MailServers } from './mail-servers.ts'
import { createMailHosts } from './mail-hosts.ts'
import { createPatientDns } from './patient-dns.ts'

export type ProbeSetting = Partial<MailHostsOptions> & {
  readonly connect?: Connect
  readonly caller?: SmtpCaller
  readonly firstTimeoutMs?: number
  readonly laterTimeoutMs?: number
}

/**
 * The provider with the mail servers of a test. The timeouts are long, because the machine may be
 * slow; only tests of unresponsive servers shorten them.
 */
export function smtpProviderOf (
  { dns, mail }: { readonly dns: DnsServer, readonly mail: Pick<MailServers, 'connect'> },
  {
    firstTimeoutMs = 300_000, laterTimeoutMs = 300_000, connect = mail.connect,
    caller = { helo: 'probe.verify.org', sender: '' }, ...options
  }: ProbeSetting = {}
) {
  const domains = createMailDomains(
    createPatientDns(dns), { keepMs: 300_000, keepNegativeMs: 300_000, maxDomains: 1_000 })
  const hosts = createMailHosts({
    pool: createEgressPool([{ name: 'probe', caller, connect }]),
    limits: { sessions: 8, sessionsAMinute: 1_000, ratePercent: 100 },
    startTls: true,
    idleMs: 20,
    ...options,
  })
  return createSmtpProbeProvider({ domains, hosts, firstTimeoutMs, laterTimeoutMs })
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
