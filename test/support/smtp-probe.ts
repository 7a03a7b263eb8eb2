import { createMailDomains } from '../../services/verify/providers/mail-domain.ts'
import { createSmtpProbeProvider } from '../../services/verify/providers/smtp-probe.ts'
import { createProbe, type ProbeOptions } from '../../services/verify/providers/smtp/probe.ts'
import { createTurns, type TurnLimits } from '../../services/verify/providers/smtp/turns.ts'
import type { DnsServer } from './dns-server.ts'
import type { MailServers } from './mail-servers.ts'
import { createPatientDns } from './patient-dns.ts'

export type ProbeSetting = Partial<ProbeOptions> & { readonly limits?: Partial<TurnLimits> }

/**
 * The provider as it is configured, on servers of a test. However slow the machine is, a server
 * that answers is heard: only tests of silence say for how long to wait.
 */
export function smtpProviderOf (
  { dns, mail }: { readonly dns: DnsServer, readonly mail: Pick<MailServers, 'connect'> },
  { limits, ...options }: ProbeSetting = {}
) {
  const domains = createMailDomains(
    createPatientDns(dns), { keepMs: 300_000, keepNegativeMs: 300_000, maxDomains: 1_000 })
  const probe = createProbe({
    connect: mail.connect,
    turns: createTurns({ perOwner: 8, perOwnerAMinute: 1_000, connections: 64, ...limits }),
    caller: { helo: 'probe.verify.org', sender: '' },
    secures: true,
    replyTimeoutMs: 120_000,
    rowTimeoutMs: 300_000,
    greylistMs: 60_000,
    restMs: 60_000,
    catchAllMs: 60_000,
    ...options,
  })
  return createSmtpProbeProvider({ domains, probe })
}

/** What is asked of a provider in a test that does not end it early. */
export function asked (addresses: readonly string[], withinMs = 300_000) {
  return [
    addresses.map((canonical, row) => ({ row, canonical })),
    {
      service: 'email-validation',
      signal: new AbortController().signal,
      deadlineMs: Date.now() + withinMs,
    },
  ] as const
}
