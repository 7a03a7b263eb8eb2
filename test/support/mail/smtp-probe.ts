import { createLog } from '../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import type { VerifyConfig } from '../../../services/verify/config.ts'
import { createEgressPool } from '../../../services/verify/mailboxes/egress.ts'
import type { MailHostsOptions } from '../../../services/verify/mailboxes/hosts.ts'
import type { Probed } from '../../../services/verify/mailboxes/conversation.ts'
import type { SmtpCaller } from '../../../services/verify/mailboxes/session.ts'
import { createFactories, openMailDomains } from '../../../services/verify/main.ts'
import {
  createEmailDomainProvider, createSmtpProbeProvider,
} from '../../../services/verify/providers/email.ts'
import { builtInLists } from '../../../services/verify/providers/email-lists.ts'
import {
  createDns, createMailDomains, type DnsQueries, type MailDomain, type MailDomains,
} from '../../../services/verify/providers/mail-domains.ts'
import type { DnsServer } from './dns-server.ts'
import { createMailHosts, createOpenMemory } from './mail-hosts.ts'
import type { MailServers } from './mail-servers.ts'

/** Those of the release. */
export const lists = () => builtInLists

export type ProbeSetting = Partial<MailHostsOptions> & {
  readonly caller?: SmtpCaller
  readonly firstTimeoutMs?: number
}

/**
 * The provider with the mail servers of a test. The timeouts are long, because the machine may be
 * slow; only tests of unresponsive servers shorten them.
 */
export function smtpProviderOf (
  { dns, mail }: { readonly dns: DnsServer, readonly mail: Pick<MailServers, 'connect'> },
  {
    firstTimeoutMs = 300_000, caller = { helo: 'probe.verify.org', sender: '' }, ...options
  }: ProbeSetting = {}
) {
  const domains = createMailDomains(createPatientDns(dns), {
    keepMs: 300_000, keepNegativeMs: 300_000, maxDomains: 1_000, lists,
  })
  const hosts = createMailHosts({
    pool: createEgressPool([
      { name: 'probe', caller, connect: mail.connect, isDown: () => false },
    ]),
    limits: { sessions: 8, sessionsAMinute: 1_000, ratePercent: 100 },
    startTls: true,
    idleMs: 20,
    ...options,
  })
  return createSmtpProbeProvider({
    domains, hosts, lists, firstTimeoutMs, laterTimeoutMs: 300_000,
  })
}

/** The providers of a configuration, with an open memory of mail servers. */
export const createProviders = (
  config: VerifyConfig, onStop: (close: () => unknown) => void = () => {}
) => createFactories(config, {
  domains: openMailDomains(config, { lists }),
  lists,
  memory: createOpenMemory(),
  metrics: createMetrics(),
  log: createLog('test', { level: 'silent' }),
  onStop,
})

/** The arguments of a provider's check, in a test that does not abort it. */
export function request (addresses: readonly string[], withinMs = 300_000) {
  return [
    addresses.map((canonical, row) => ({ row, canonical })),
    {
      service: 'email-validation',
      mode: 'live',
      signal: new AbortController().signal,
      deadlineMs: Date.now() + withinMs,
    },
  ] as const
}

/** Queries for them time out early, as no answer ever comes. */
const NEVER_ANSWERED: readonly unknown[] = ['silent', 'garbage']
const BRIEF_MS = 100
/** Long enough for every answer, however slow the machine is. */
const PATIENT_MS = 60_000

/** A real resolver of a test server: with a long timeout, except for what it never answers. */
export function createPatientDns (server: DnsServer): DnsQueries {
  const [patient, brief] = [PATIENT_MS, BRIEF_MS].map((timeoutMs) =>
    createDns({ servers: [server.address], timeoutMs, concurrency: 16 })) as
    [DnsQueries, DnsQueries]
  const of = (name: string) =>
    NEVER_ANSWERED.includes(server.zones.get(name)?.fault) ? brief : patient
  return {
    mailExchanges: (domain, tenant) => of(domain).mailExchanges(domain, tenant),
    addresses: (name, family, tenant) => of(name).addresses(name, family, tenant),
    root: () => of('.').root(),
    texts: (name, tenant) => of(name).texts(name, tenant),
  }
}

/** What DNS and a mail server say of an address; nothing if they are not asked. */
export type EmailFindings = {
  readonly mail?: MailDomain | undefined
  readonly probed?: Probed | undefined
}

/** Mail domains of which this is found, and known before. */
export const createScriptedDomains = (
  find: MailDomains['find'], known: MailDomains['known'] = () => undefined
): MailDomains => ({
  isAvailable: async () => true,
  known,
  find,
  hosts: async () => [],
  findPolicies: async () => {},
  facts: () => ({}),
})

/** The verdict of an address by what is found of it. */
export async function emailVerdict (address: string, { mail, probed }: EmailFindings = {}) {
  const domains = mail && createScriptedDomains(async () => mail, () => mail)
  const provider = domains === undefined || probed === undefined
    ? createEmailDomainProvider({ domains, lists })
    : createSmtpProbeProvider({
      domains,
      hosts: { ask: async () => probed },
      lists,
      firstTimeoutMs: 1_000,
      laterTimeoutMs: 1_000,
    })
  const [answer] = await provider.check(...request([address]))
  return answer!.verdict
}
