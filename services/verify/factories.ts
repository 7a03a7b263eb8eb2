import type { Static } from 'typebox'
import type { verifyConfig } from './config.ts'
import { FACTORIES, type Factories } from './providers.ts'
import { createDns } from './providers/dns.ts'
import { createEmailDomainProvider } from './providers/email-domain.ts'
import { createHttpProvider } from './providers/http.ts'
import { readHttpProviders } from './providers/http-config.ts'
import { createMailDomains, type MailDomains } from './providers/mail-domain.ts'
import { createSmtpProbeProvider } from './providers/smtp-probe.ts'
import { createConnect } from './providers/smtp/connect.ts'
import { createProbe } from './providers/smtp/probe.ts'
import { createTurns } from './providers/smtp/turns.ts'

type Config = Static<typeof verifyConfig>

const SECOND_MS = 1_000

/** How each provider gets made that the configuration describes, and the others. */
export function factoriesOf (config: Config): Factories {
  const described = readHttpProviders(config.HTTP_PROVIDERS).providers.map((vendor) =>
    [`http:${vendor.id}`, () => createHttpProvider(vendor)] as const)
  const domains = mailDomainsOf(config)
  return {
    ...FACTORIES,
    'email-domain': () => createEmailDomainProvider({ domains }),
    'smtp-probe': () => createSmtpProbeProvider(smtpPartsOf(config, domains)),
    ...Object.fromEntries(described),
  }
}

/** Without a resolver no domain is looked up. */
function mailDomainsOf (config: Config): MailDomains | undefined {
  if (config.DNS_SERVERS.length === 0) return undefined
  const dns = createDns({
    servers: config.DNS_SERVERS,
    timeoutMs: config.DNS_TIMEOUT_MS,
    concurrency: config.DNS_CONCURRENCY,
  })
  return createMailDomains(dns, {
    keepMs: config.DNS_CACHE_SECONDS * SECOND_MS,
    keepNegativeMs: config.DNS_NEGATIVE_CACHE_SECONDS * SECOND_MS,
    maxDomains: config.DNS_CACHE_DOMAINS,
    ...(config.SMTP_ALLOW_PRIVATE ? { isReachable: () => true } : {}),
  })
}

/** Throws RangeError when what the probe can't do without is missing. */
function smtpPartsOf (config: Config, domains: MailDomains | undefined) {
  const helo = config.SMTP_HELO
  if (helo === undefined) throw new RangeError('smtp-probe needs SMTP_HELO')
  if (domains === undefined) throw new RangeError('smtp-probe needs DNS_SERVERS')
  const probe = createProbe({
    connect: createConnect({
      port: config.SMTP_PORT, timeoutMs: config.SMTP_CONNECT_TIMEOUT_MS, proxy: config.SMTP_PROXY,
    }),
    turns: createTurns({
      perOwner: config.SMTP_CONCURRENCY,
      perOwnerAMinute: config.SMTP_PER_MINUTE,
      connections: config.SMTP_CONNECTIONS,
    }),
    caller: { helo, sender: config.SMTP_SENDER ?? '' },
    secures: config.SMTP_STARTTLS,
    replyTimeoutMs: config.SMTP_REPLY_TIMEOUT_MS,
    rowTimeoutMs: config.SMTP_ROW_TIMEOUT_MS,
    greylistMs: config.SMTP_GREYLIST_SECONDS * SECOND_MS,
    restMs: config.SMTP_REST_SECONDS * SECOND_MS,
    catchAllMs: config.SMTP_CATCH_ALL_SECONDS * SECOND_MS,
  })
  return { domains, probe }
}
